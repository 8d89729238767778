"""plan(): the reported cause for an observed state, and when a model is Ready and UpToDate."""

from dataclasses import replace
from datetime import timedelta
from itertools import permutations
from typing import Any

import pytest

from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.objects import (
    ChildObserved,
    ContainerObserved,
    DeploymentCondition,
    Scheduled,
)
from moorage_operator.values.observed import (
    Observed,
    Reference,
    ReferenceKind,
    ReferenceState,
    Refusal,
)
from support.operator_values import (
    NOW,
    YES,
    children,
    condition,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    pod,
    revision,
    running,
    said,
    serving,
    silence,
    unready,
    verdict,
)

MODEL = model()
SECURED = model(access={"tokenSecretName": "token"})
SERVED = planned(MODEL, serving(MODEL)).status
CONFIG_MAP = Reference(ReferenceKind.CONFIG_MAP, "digits-files")
SECRET = Reference(ReferenceKind.SECRET, "token")


def waiting(reason, message="") -> Observed:
    container = ContainerObserved(
        "runtime", image="img:1", waiting_reason=reason, waiting_message=message
    )
    return observed(pending("p", MODEL, runtime=container))


def ended(seconds=3.0, **facts) -> ContainerObserved:
    """A container that waits for a restart after a run of this many seconds."""
    container = ContainerObserved(
        "runtime",
        waiting_reason="CrashLoopBackOff",
        restart_count=2,
        last_terminated_reason="Error",
        last_terminated_exit_code=1,
        last_terminated_started_at=NOW - timedelta(seconds=seconds + 10),
        last_terminated_at=NOW - timedelta(seconds=10),
    )
    return replace(container, **facts)


def crashed(seconds=3.0, **facts) -> Observed:
    return observed(unready("p", MODEL, runtime=ended(seconds, **facts)))


def answered(answer: Answer, **facts) -> Observed:
    """A container that runs, has not started, and whose server answers this."""
    of = unready("p", MODEL)
    return observed(of, probes=said(of, answer, **facts))


def unscheduled(message) -> Observed:
    return observed(
        pending(
            "p", MODEL, scheduled=Scheduled(status=False, reason="Unschedulable", message=message)
        )
    )


def failed_init(code: int) -> Observed:
    init = ContainerObserved("prepare", exit_code=code, terminated_message="no route")
    return observed(pending("p", MODEL, init=(init,)))


def fetching(**facts) -> Observed:
    return observed(pending("p", MODEL, init=(ContainerObserved("fetch", **facts),)))


CAUSES = {
    "nothing has been made yet": (Observed(), "Pending", "0 of 1 pods"),
    "a pod waits for the scheduler": (
        observed(pending("p", MODEL, node="", scheduled=Scheduled())), "Pending", "scheduler",
    ),
    "a node gave the pod up": (
        observed(pod("p", MODEL, phase="Failed", reason="Evicted", message="disk is full")),
        "Pending", "Evicted: disk is full",
    ),
    "a container is being made": (waiting("ContainerCreating"), "Pending", "node-1"),
    "no node takes the pod": (
        unscheduled("0/1 nodes: Insufficient memory"), "Unschedulable", "Insufficient memory",
    ),
    "the scheduler misses a claim": (
        unscheduled('persistentvolumeclaim "weights" not found'), "VolumeMountFailed", "weights",
    ),
    "the image cannot be pulled": (
        waiting("ErrImagePull", "not found"), "ImagePullBackOff", "img:1: not found",
    ),
    "the image of a volume cannot be pulled": (
        waiting("ImagePullBackOff", 'Back-off pulling image "r.example/model:1": denied'),
        "ImagePullBackOff", "image r.example/model:1, ",
    ),
    "the pull is given up for now": (waiting("ImagePullBackOff"), "ImagePullBackOff", "img:1"),
    "the image's name is none": (waiting("InvalidImageName", "bad"), "InvalidImageName", "bad"),
    "the image runs as root": (
        waiting("CreateContainerConfigError", "image will run as root"),
        "CreateContainerConfigError", "root",
    ),
    "an environment's Secret is missing": (
        waiting("CreateContainerConfigError", 'secret "token" not found'),
        "SecretNotFound", "token",
    ),
    "the command exits": (
        crashed(last_terminated_exit_code=3, last_terminated_message="no weights\n"),
        "CrashLoopBackOff", "last log lines: no weights",
    ),
    "the command has just exited": (
        observed(unready("p", MODEL, runtime=ContainerObserved("runtime", exit_code=0))),
        "CrashLoopBackOff", "code 0",
    ),
    "it runs again after a crash": (
        observed(unready("p", MODEL, runtime=ended(
            waiting_reason="", running_since=NOW, container_id="c2",
        ))),
        "CrashLoopBackOff", "code 1",
    ),
    "the command does not exist": (
        crashed(last_terminated_reason="StartError", last_terminated_exit_code=128,
                last_terminated_message="exec: no such file"),
        "CreateContainerConfigError", "container runtime: exec: no such file",
    ),
    "a server that is not ready itself has not looked for its models": (
        answered(no(AnswerReason.MODEL_NOT_FOUND), ready=no(AnswerReason.NOT_READY)),
        "ModelLoading", "digits",
    ),
    "a server that is not ready itself has listed its models": (
        answered(
            replace(no(AnswerReason.MODEL_NOT_FOUND, "it has wine"), listed=True),
            ready=no(AnswerReason.NOT_READY),
        ),
        "ModelNotFound", "it has wine",
    ),
    "memory ran out": (
        crashed(last_terminated_reason="OOMKilled", last_terminated_exit_code=137),
        "OOMKilled", "memory",
    ),
    "loading took too long": (
        crashed(601, last_terminated_exit_code=137), "StartupTimeout", "(600)",
    ),
    "loading took too long and the server ended well": (
        crashed(603, last_terminated_exit_code=0), "StartupTimeout", "(600)",
    ),
    "a signal ended it": (
        crashed(90, last_terminated_exit_code=143), "LivenessFailing", "exit code 143",
    ),
    "an init container fails": (failed_init(2), "CrashLoopBackOff", "prepare exited with code 2"),
    "the model is being downloaded": (
        fetching(running_since=NOW), "Pending", "kubectl logs p -c fetch",
    ),
    "a download failed": (
        fetching(exit_code=1, terminated_message="bucket 'b' does not exist at s3.example"),
        "ArtifactDownloadFailed", "bucket 'b' does not exist at s3.example",
    ),
    "a download that failed is tried again": (
        fetching(
            running_since=NOW, restart_count=1, last_terminated_exit_code=1,
            last_terminated_message="access to s3://b/a is denied",
        ),
        "ArtifactDownloadFailed", "access to s3://b/a is denied",
    ),
    "a download waits for its next attempt": (
        fetching(
            waiting_reason="CrashLoopBackOff", waiting_message="back-off 10s restarting",
            last_terminated_exit_code=1, last_terminated_message="access to s3://b/a is denied",
        ),
        "ArtifactDownloadFailed", "access to s3://b/a is denied",
    ),
    "a download was ended from outside": (
        fetching(exit_code=143, terminated_message="INFO 3 of 4 files"),
        "ArtifactDownloadFailed", "signal",
    ),
    "a download says nothing": (
        fetching(exit_code=3), "ArtifactDownloadFailed", "code 3",
    ),
    "a download takes too much memory": (
        fetching(exit_code=137, terminated_reason="OOMKilled"),
        "OOMKilled", "raise model.download.resources.limits.memory",
    ),
    "the Secret of a download is missing": (
        fetching(
            waiting_reason="CreateContainerConfigError",
            waiting_message='secret "models-reader" not found',
        ),
        "SecretNotFound", "models-reader",
    ),
    "an init container has done its work": (failed_init(0), "Pending", "p"),
    "not polled yet": (observed(unready("p", MODEL)), "ModelLoading", "pod p"),
    "nothing listens yet": (
        answered(silence(AnswerReason.REFUSED)), "ServerNotLive", "does not answer",
    ),
    "the server loads the model": (
        answered(no(AnswerReason.LOADING, "40 %")), "ModelLoading", "40 %",
    ),
    "server and model are not ready": (
        answered(no(AnswerReason.NOT_READY)), "ModelLoading", "digits",
    ),
    "the server is ready, the model is not": (
        answered(no(AnswerReason.NOT_READY), ready=YES),
        "ServerReadyModelNot", "the server is ready",
    ),
    "the model does not load": (
        answered(no(AnswerReason.LOAD_FAILED, "model.onnx: bad protobuf")),
        "ModelLoadFailed", "model.onnx: bad protobuf",
    ),
    "the server has another model": (
        answered(no(AnswerReason.MODEL_NOT_FOUND, "it has: iris"), ready=YES),
        "ModelNotFound", "it has: iris",
    ),
    "the version is not there": (
        answered(no(AnswerReason.VERSION_NOT_FOUND, "it has: 1"), ready=YES),
        "VersionNotServed", "it has: 1",
    ),
    "something else answers": (
        answered(silence(AnswerReason.WRONG_PROTOCOL)), "ProtocolMismatch", "OpenInference",
    ),
    "no answer came in time": (
        answered(silence(AnswerReason.TIMED_OUT)), "ProbeTimeout", "in time",
    ),
    "the operator is answered, the kubelet is not": (
        answered(YES), "PodNotReady", "readiness probe",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("seen", "reason", "words"), CAUSES.values(), ids=CAUSES.keys())
def test_each_cause_has_its_reason_and_message(seen, reason, words):
    plan = planned(MODEL, seen)

    assert verdict(plan) == ("False", reason)
    assert words in condition(plan, "Ready")["message"]
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")


def test_a_definite_answer_after_a_restart_replaces_the_crash():
    again = ended(
        waiting_reason="", last_terminated_exit_code=137, running_since=NOW, container_id="c2"
    )
    of = unready("p", MODEL, runtime=again)
    answer = no(AnswerReason.LOAD_FAILED, "model.onnx: bad")

    plan = planned(MODEL, observed(of, probes=said(of, answer)))

    assert verdict(plan) == ("False", "ModelLoadFailed")
    assert verdict(plan, "WorkloadAvailable") == ("True", "MinimumReplicasAvailable")


def test_a_restart_is_not_reported_once_the_container_is_ready_again():
    since = running(restart_count=1, ready=False, last_terminated_exit_code=1)
    of = pod("p", MODEL, ready=False, runtime=since)

    plan = planned(MODEL, observed(of, probes=said(of, no(AnswerReason.NOT_READY))))

    assert verdict(plan) == ("False", "ModelLoading")


def test_a_replica_that_gets_no_traffic_yet_is_not_counted_as_serving():
    of = unready("p", MODEL)

    plan = planned(MODEL, observed(of, probes=said(of)))

    assert verdict(plan, "ModelReady") == ("True", "AllReplicasReady")
    assert plan.status["replicaSummary"] == "0/1"


def test_an_answer_of_the_container_before_the_restart_does_not_count():
    of = pod("p", MODEL)
    probes = said(of)
    restarted = replace(of, ready=False, runtime=running(container_id="c2", restart_count=1))

    plan = planned(MODEL, observed(restarted, probes=probes))

    assert verdict(plan, "ModelReady") == ("False", "ModelLoading")


@pytest.mark.parametrize(
    ("reference", "reason"), [(CONFIG_MAP, "VolumeMountFailed"), (SECRET, "SecretNotFound")]
)
@pytest.mark.parametrize(
    "pods", [(), (pending("p", SECURED),)], ids=["before any pod", "while a pod waits"]
)
def test_a_missing_object_is_named_until_it_exists(reference, reason, pods):
    missing = planned(SECURED, observed(*pods, references={reference: ReferenceState.MISSING}))
    there = planned(SECURED, observed(*pods, references={reference: ReferenceState.EXISTS}))

    assert verdict(missing) == ("False", reason)
    assert reference.name in condition(missing, "Ready")["message"]
    assert verdict(there) == ("False", "Pending")


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"model": {"uri": "configmap://corrected"}}, "Pending"), ({"replicas": -1}, "InvalidSpec")],
)
def test_an_object_that_an_earlier_spec_required_is_not_reported(spec, reason):
    plan = planned(
        model(generation=2, **spec), observed(references={CONFIG_MAP: ReferenceState.MISSING})
    )

    assert verdict(plan) == ("False", reason)
    assert CONFIG_MAP.name not in condition(plan, "Ready")["message"]


def test_a_secret_that_cannot_be_looked_up_is_listed_while_a_pod_waits():
    hidden = {SECRET: ReferenceState.FORBIDDEN, CONFIG_MAP: ReferenceState.EXISTS}

    plan = planned(SECURED, observed(pending("p", SECURED), references=hidden))

    message = condition(plan, "Ready")["message"]
    assert verdict(plan) == ("False", "Pending")
    assert 'check that Secret "token" exists in this namespace' in message
    assert "not allowed" in message
    assert CONFIG_MAP.name not in message


@pytest.mark.parametrize(
    ("detail", "advised"),
    [
        ("failed to authorize: unexpected status: 401 Unauthorized", True),
        ("pull access denied, repository does not exist or may require authorization", True),
        ("unexpected status from HEAD request: 403 Forbidden", True),
        ("registry.example.com/team/iris:1: not found", False),
        ("dial tcp: lookup registry.example.com: no such host", False),
    ],
)
def test_a_refused_pull_mentions_the_namespace_of_the_pull_secrets(detail, advised):
    waiting = ContainerObserved(
        "runtime", image="r/m:1", waiting_reason="ErrImagePull", waiting_message=detail
    )

    plan = planned(MODEL, observed(pending("p", MODEL, runtime=waiting)))

    message = condition(plan, "Ready")["message"]
    assert verdict(plan) == ("False", "ImagePullBackOff")
    assert ("Secrets that exist in the model's namespace" in message) is advised


def test_a_missing_object_is_not_reported_while_the_model_serves():
    references = {CONFIG_MAP: ReferenceState.MISSING}

    plan = planned(MODEL, serving(MODEL, references=references))

    assert verdict(plan) == ("True", "Serving")


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ('pods "digits-1" is forbidden: exceeded quota: none', "ForbiddenByQuota"),
        ("maximum cpu usage per Container is 1, but limit is 2", "ForbiddenByQuota"),
        ('violates PodSecurity "restricted:latest"', "InvalidPodTemplate"),
    ],
)
def test_pods_that_cannot_be_created_are_explained(message, reason):
    failure = DeploymentCondition("ReplicaFailure", status=True, message=message)

    plan = planned(MODEL, observed(deployment=deployment(conditions=(failure,))))

    assert verdict(plan) == ("False", reason)
    assert verdict(plan, "Accepted") == ("False", reason)
    assert message in condition(plan, "Ready")["message"]


@pytest.mark.parametrize(
    ("kind", "code", "status_reason", "message", "reason"),
    [
        ("Deployment", 422, "Invalid", "spec.template: bad", "InvalidPodTemplate"),
        ("Deployment", 403, "Forbidden", "exceeded quota: d", "ForbiddenByQuota"),
        ("Deployment", 403, "Forbidden", "webhook said no", "ApplyRefused"),
        ("Deployment", 500, "", "failed to create typed patch object", "InvalidPodTemplate"),
        ("Service", 409, "AlreadyExists", "it belongs to nobody", "NameConflict"),
    ],
)
def test_a_refused_child_is_explained_and_retried(kind, code, status_reason, message, reason):
    child = next(item for item in planned(MODEL, Observed()).objects if item["kind"] == kind)
    hash_ = child["metadata"]["annotations"]["moorage.dev/applied-hash"]
    refusal = Refusal(kind, "digits", hash_, code, status_reason, message)

    plan = planned(MODEL, Observed(refusals=(refusal,)))
    edited = planned(
        model(replicas=2, runtime={"ports": {"http": 1}}), Observed(refusals=(refusal,))
    )

    assert verdict(plan, "Accepted") == ("False", reason)
    assert message in condition(plan, "Accepted")["message"]
    assert plan.requeue_after is not None
    assert verdict(edited, "Accepted") == ("True", "Valid")


GUARDED = model(replicas=2, networkPolicy={"from": []})


def refusals(*kinds: str, **facts: object) -> tuple[Refusal, ...]:
    """A refusal of each kind of child of the guarded model, in this order."""
    planned_now = {item["kind"]: item for item in planned(GUARDED, Observed()).objects}
    hashes = [
        planned_now[kind]["metadata"]["annotations"]["moorage.dev/applied-hash"] for kind in kinds
    ]
    return tuple(
        replace(Refusal(kind, "digits", hash_, 403, "Forbidden", f"no {kind}"), **facts)
        for kind, hash_ in zip(kinds, hashes, strict=True)
    )


def test_refused_children_are_listed_in_the_plans_order():
    kinds = ["NetworkPolicy", "Service", "Deployment", "PodDisruptionBudget"]
    messages = {
        condition(planned(GUARDED, Observed(refusals=refusals(*order))), "Accepted")["message"]
        for order in permutations(kinds)
    }

    (message,) = messages
    places = [message.index(f"no {kind}") for kind in kinds]
    assert places == sorted(places)


AUTOSCALER = ("HorizontalPodAutoscaler", "digits")


@pytest.mark.parametrize(
    ("facts", "verb"),
    [
        ({"deletes": "uid-h"}, "refuses to delete"),
        ({"deletes": "uid-h", "transient": True, "tries": 2}, "cannot delete"),
        ({"deletes": "uid-h", "transient": True}, ""),
        ({"deletes": "uid-of-another"}, ""),
        ({}, ""),
    ],
)
def test_a_child_that_may_not_be_deleted_is_named_although_the_spec_serves(
    facts: dict[str, Any], verb: str
) -> None:
    refused = replace(Refusal(*AUTOSCALER, "", 403, "Forbidden", "a policy says no"), **facts)
    seen = serving(GUARDED, 2, status=SERVED, refusals=(refused,))
    seen = replace(seen, children={**seen.children, AUTOSCALER: ChildObserved("uid-h")})
    plan = planned(GUARDED, seen)

    message = "all 2 replicas have this spec"
    if verb:
        message += (
            f'; the API server {verb} the HorizontalPodAutoscaler "digits", which is not needed '
            "any more: a policy says no"
        )
    assert (verdict(plan, "UpToDate"), condition(plan, "UpToDate")["message"]) == (
        ("True", "RolloutComplete"),
        message,
    )
    assert verdict(plan, "Ready") == ("True", "Serving")


def test_children_that_may_not_be_deleted_are_listed_by_name() -> None:
    left = [("Service", "b"), ("Deployment", "c"), ("Service", "a")]
    refused = [Refusal(*each, "", 403, "Forbidden", "no", deletes=f"u-{each[1]}") for each in left]
    children = {each: ChildObserved(f"u-{each[1]}") for each in left}
    messages = set()
    for order in permutations(refused):
        seen = serving(GUARDED, 2, refusals=order)
        seen = replace(seen, children={**seen.children, **children})
        messages.add(condition(planned(GUARDED, seen), "UpToDate")["message"])

    refuses = "the API server refuses to delete the"
    (message,) = messages
    assert message == (
        f'all 2 replicas have this spec; {refuses} Service "a", which is not needed any more: no; '
        f'{refuses} Service "b", which is not needed any more: no; '
        f'{refuses} Deployment "c", which is not needed any more: no'
    )


def test_a_refusal_takes_precedence_over_a_failed_write():
    failed = refusals("Service", transient=True, tries=2, code=500)
    plan = planned(GUARDED, Observed(refusals=(*failed, *refusals("Deployment"))))

    assert verdict(plan, "Accepted") == ("False", "ApplyRefused")
    message = condition(plan, "Accepted")["message"]
    assert message.index("no Deployment") < message.index("no Service")


def test_a_repeated_write_failure_is_reported_and_retried_but_not_stalled():
    first = refusals("PodDisruptionBudget", transient=True, tries=1, retry_seconds=1.0)
    again = refusals("PodDisruptionBudget", transient=True, tries=2, retry_seconds=2.0)

    once = planned(GUARDED, serving(GUARDED, 2, status=SERVED, refusals=first))
    twice = planned(GUARDED, serving(GUARDED, 2, status=SERVED, refusals=again))

    assert verdict(once, "Accepted") == ("True", "Valid")
    assert once.requeue_after == 1.0
    assert verdict(twice, "Accepted") == ("False", "ApplyFailed")
    assert twice.requeue_after == 2.0
    assert 'cannot write the PodDisruptionBudget "digits"' in condition(twice, "Ready")["message"]
    assert verdict(twice, "Reconciling") == ("True", "ApplyFailed")


def test_a_first_failed_write_is_reported_only_if_the_object_does_not_exist():
    failed = {"transient": True, "tries": 1, "code": 500}
    update = planned(GUARDED, serving(GUARDED, 2, refusals=refusals("Service", **failed)))
    missing = refusals("Service", **failed, missing=True)
    creation = planned(GUARDED, serving(GUARDED, 2, refusals=missing))

    assert verdict(update, "Accepted") == ("True", "Valid")
    assert verdict(creation, "Accepted") == ("False", "ApplyFailed")
    assert verdict(creation, "Ready") == ("False", "ApplyFailed")
    assert 'the Service "digits"' in condition(creation, "Ready")["message"]


def test_a_revision_has_not_served_while_its_deployment_could_not_be_written():
    # The pods have the label of the revision, and may have been edited by hand.
    failed = refusals("Deployment", transient=True, tries=1, code=500)
    elsewhere = replace(failed[0], applied_hash="of an earlier plan")

    plan = planned(GUARDED, serving(GUARDED, 2, refusals=failed))
    later = planned(GUARDED, serving(GUARDED, 2, refusals=(elsewhere,)))

    assert verdict(plan, "Ready") == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")
    assert "lastGood" not in plan.status["revisions"]
    assert verdict(later, "UpToDate") == ("True", "RolloutComplete")
    assert later.status["revisions"]["lastGood"] == later.status["revisions"]["current"]


def test_a_network_policy_that_is_refused_stalls_the_model():
    plan = planned(GUARDED, serving(GUARDED, 2, refusals=refusals("NetworkPolicy")))

    assert verdict(plan, "Stalled") == ("True", "ApplyRefused")
    assert "no NetworkPolicy" in condition(plan, "Stalled")["message"]


def test_a_deployment_paused_by_others_explains_a_stalled_rollout():
    edited = model(runtime={"image": "other:2"})
    paused = deployment(foreign=(("spec.paused", "kubectl-rollout"),))
    seen = replace(serving(MODEL, status=SERVED, deployment=paused))

    plan = planned(edited, seen)

    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")
    assert verdict(plan, "Stalled") == ("True", "RolloutPaused")
    for type_ in ("UpToDate", "Ready", "Stalled"):
        message = condition(plan, type_)["message"]
        assert "'kubectl-rollout'" in message
        assert "kubectl rollout resume deployment/digits" in message
    # A complete revision that serves is not affected.
    assert verdict(planned(MODEL, seen), "UpToDate") == ("True", "RolloutComplete")


@pytest.mark.parametrize(
    ("size", "types"), [(1, ["WorkloadAvailable", "UpToDate"]), (4, ["UpToDate"]), (2, [])]
)
def test_a_size_that_admission_changed_is_reported(size, types):
    two = model(replicas=2)
    (body,) = (each for each in planned(two, observed()).objects if each["kind"] == "Deployment")
    own = deployment(revision=revision(two), applied_hash=applied_hash(body), size=size)

    plan = planned(two, replace(serving(two, size), deployment=own, children=children(own)))

    told = f'spec.replicas of the Deployment "digits" from 2 to {size}'
    found = [each for each in plan.status["conditions"] if told in each["message"]]
    assert [each["type"] for each in found if each["type"] in {*types, "UpToDate"}] == types
    assert condition(plan, "UpToDate")["status"] == str(size >= 2)


def test_foreign_fields_are_reported_with_the_problems_of_pods():
    foreign = (("spec.template.spec.nodeSelector", "kubectl-edit"),)
    waits = pending(
        "p", MODEL, scheduled=Scheduled(status=False, reason="Unschedulable", message="0/1 nodes")
    )

    plan = planned(MODEL, observed(waits, deployment=deployment(foreign=foreign)))

    assert verdict(plan) == ("False", "Unschedulable")
    for type_ in ("Ready", "UpToDate"):
        message = condition(plan, type_)["message"]
        assert "0/1 nodes" in message
        assert message.count("spec.template.spec.nodeSelector by 'kubectl-edit'") == 1


def test_an_invalid_spec_plans_nothing_and_keeps_running_pods():
    bad = model(generation=2, model={"uri": "ftp://a/b"})

    plan = planned(bad, serving(MODEL, status=SERVED))

    assert plan.objects == ()
    assert plan.targets == ()
    assert verdict(plan, "Accepted") == ("False", "UnsupportedScheme")
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert "ftp://a/b" in condition(plan, "Ready")["message"]
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")


def test_every_problem_of_a_spec_is_reported():
    plan = planned(model(replicas=-1, transport="UDP"), Observed())

    message = condition(plan, "Accepted")["message"]
    assert verdict(plan) == ("False", "InvalidSpec")
    assert "spec.replicas" in message
    assert "spec.transport" in message


@pytest.mark.parametrize("replicas", [1, 3])
def test_all_wanted_replicas_make_it_ready_and_up_to_date(replicas):
    of = model(replicas=replicas)

    plan = planned(of, serving(of, replicas))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert plan.status["replicaSummary"] == f"{replicas}/{replicas}"


def test_one_replica_of_two_that_cannot_load_makes_it_not_ready():
    of = model(replicas=2)
    good, bad = pod("p1", of), unready("p2", of)
    probes = {**said(good), **said(bad, no(AnswerReason.LOAD_FAILED, "bad file"))}

    plan = planned(of, observed(good, bad, probes=probes))

    assert verdict(plan) == ("False", "ModelLoadFailed")
    assert plan.status["replicaSummary"] == "1/2"


def test_a_model_that_has_served_stays_ready_while_a_replica_serves():
    of = model(replicas=2)
    good, bad = pod("p1", of), unready("p2", of)
    served = planned(of, serving(of, 2)).status
    probes = {**said(good), **said(bad, no(AnswerReason.LOAD_FAILED, "bad file"))}

    plan = planned(of, observed(good, bad, probes=probes, status=served))
    none = planned(of, observed(bad, probes=said(bad, no(AnswerReason.REFUSED)), status=served))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "ModelReady") == ("False", "ModelLoadFailed")
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert verdict(plan, "Stalled") == ("True", "ModelLoadFailed")
    assert (
        "1 of 2 replicas serve the model; ModelLoadFailed" in condition(plan, "Ready")["message"]
    )
    assert plan.status["replicaSummary"] == "1/2"
    assert verdict(none)[0] == "False"


def test_scaling_up_leaves_it_ready():
    of = model(replicas=1)
    served = planned(of, serving(of, 1)).status
    wider = model(generation=2, replicas=3)
    first = pod("p1", wider)

    plan = planned(wider, observed(first, probes=said(first), status=served))

    assert verdict(plan) == ("True", "Serving")
    assert plan.status["replicaSummary"] == "1/3"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [({"replicas": 0}, "ScaledToZero"), ({"replicas": 2, "suspend": True}, "Suspended")],
)
def test_a_suspended_or_scaled_down_model_has_its_own_reason(spec, reason):
    of = model(**spec)

    stopping, stopped = planned(of, observed(pod("p", of))), planned(of, observed())

    assert verdict(stopped) == verdict(stopped, "WorkloadAvailable") == ("False", reason)
    assert verdict(stopping, "UpToDate") == ("False", "RollingOut")
    assert verdict(stopped, "UpToDate") == ("True", "RolloutComplete")
    assert stopped.objects[1]["spec"]["replicas"] == 0


@pytest.mark.parametrize("condition_type", ["Accepted", "Ready", "UpToDate", "ModelReady"])
def test_a_new_generation_is_on_every_condition_at_once(condition_type):
    before = planned(MODEL, serving(MODEL)).status
    edited = model(generation=2, runtime={"env": [{"name": "A", "value": "1"}]})

    plan = planned(edited, serving(MODEL, status=before))

    assert condition(plan, condition_type)["observedGeneration"] == 2


def test_the_earlier_revision_serves_while_the_new_one_starts():
    edited = model(generation=2, runtime={"image": "absent:1"})
    old = pod("old", MODEL)
    new = pending(
        "new", edited, runtime=ContainerObserved("runtime", waiting_reason="ErrImagePull")
    )

    plan = planned(edited, observed(old, new, status=SERVED))

    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert "ImagePullBackOff" in condition(plan, "Ready")["message"]
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")
    assert plan.status["replicaSummary"] == "1/1"


def test_it_is_serving_but_not_up_to_date_until_the_earlier_pods_are_gone():
    edited = model(generation=2, runtime={"env": [{"name": "A", "value": "1"}]})
    old, new = pod("old", MODEL), pod("new", edited)

    both = planned(edited, observed(old, new, probes=said(new)))
    going = planned(edited, observed(replace(old, deleting=True), new, probes=said(new)))

    assert (verdict(both), verdict(both, "UpToDate")[0]) == (("True", "Serving"), "False")
    assert verdict(going, "UpToDate") == ("True", "RolloutComplete")


@pytest.mark.parametrize(
    ("wanted", "old_ready", "ready"),
    [(4, 4, "True"), (4, 1, "True"), (4, 0, "False"), (1, 1, "True"), (1, 0, "False")],
)
def test_an_earlier_revision_is_ready_while_any_of_it_serves(wanted, old_ready, ready):
    edited = model(generation=2, replicas=wanted, runtime={"image": "new:1"})
    pods = [pod(f"old{index}", MODEL, ready=index < old_ready) for index in range(wanted)]

    assert verdict(planned(edited, observed(*pods, status=SERVED)))[0] == ready


def test_an_edit_that_scales_up_too_keeps_the_earlier_revision_ready():
    edited = model(generation=2, replicas=3, runtime={"image": "new:1"})

    assert verdict(planned(edited, observed(pod("old", MODEL), status=SERVED)))[0] == "True"


def test_the_last_pods_of_a_deleted_model_do_not_make_its_successor_ready():
    successor = replace(MODEL, uid="another")
    of = pod("old", MODEL)

    first = planned(successor, observed(of, probes=said(of)))
    second = planned(successor, observed(of, probes=said(of), status=first.status))

    assert verdict(first) == verdict(second) == ("False", "Pending")
    assert first.targets == ()


def test_a_deployment_that_its_controller_has_not_seen_is_not_up_to_date():
    seen = serving(MODEL, deployment=deployment(generation=2, observed_generation=1))

    assert verdict(planned(MODEL, seen), "UpToDate") == ("False", "RollingOut")


def test_pods_prove_that_an_unchanged_deployment_was_observed():
    unseen = deployment(generation=1, observed_generation=0)

    assert verdict(planned(MODEL, serving(MODEL, deployment=unseen)), "UpToDate")[0] == "True"
    empty = model(replicas=0)
    assert verdict(planned(empty, observed(deployment=unseen)), "UpToDate")[0] == "False"


def test_a_rollout_past_its_deadline_is_reported():
    stuck = DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded")
    of = children(deployment(conditions=(stuck,)))
    seen = replace(waiting("ErrImagePull"), children=of)

    assert verdict(planned(MODEL, seen), "UpToDate") == ("False", "ProgressDeadlineExceeded")


@pytest.mark.parametrize(("in_a_row", "ready"), [(1, "True"), (2, "True"), (3, "False")])
def test_a_serving_replica_may_miss_a_few_polls(in_a_row, ready):
    before = planned(MODEL, serving(MODEL)).status
    of = pod("p0", MODEL)
    silent = said(of, silence(AnswerReason.TIMED_OUT), consecutive_unknown=in_a_row)

    plan = planned(MODEL, observed(of, probes=silent, status=before))

    assert verdict(plan)[0] == ready
    assert verdict(plan, "ModelReady")[0] == ("True" if ready == "True" else "Unknown")


def test_a_negative_answer_counts_at_once():
    before = planned(MODEL, serving(MODEL)).status
    of = pod("p0", MODEL)

    plan = planned(MODEL, observed(of, probes=said(of, no(AnswerReason.NOT_READY)), status=before))

    assert verdict(plan)[0] == "False"


@pytest.mark.parametrize("facts", [{"deleting": True}, {"phase": "Failed", "reason": "Evicted"}])
def test_a_terminating_or_failed_pod_is_not_a_replica(facts):
    of = pod("p", MODEL, **facts)

    plan = planned(MODEL, observed(of, probes=said(of)))

    assert plan.status["replicas"] == 0
    assert verdict(plan)[0] == "False"


IN_THE_WAY = "a network policy, or a service mesh with strict mTLS"


@pytest.mark.parametrize("reason", [AnswerReason.REFUSED, AnswerReason.TIMED_OUT])
@pytest.mark.parametrize(
    ("polls", "kubelet", "named"), [(3, True, True), (1, True, False), (3, False, False)]
)
def test_a_silent_pod_that_is_ready_for_its_kubelet_gets_network_advice(
    reason, polls, kubelet, named
):
    of = pod("p", MODEL, ready=kubelet, runtime=running(ready=kubelet))
    probes = said(of, silence(reason), consecutive_unknown=polls)

    message = condition(planned(MODEL, observed(of, probes=probes)), "ModelReady")["message"]

    assert (IN_THE_WAY in message) is named


ROUTED = "the replica receives traffic"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (AnswerReason.NOT_READY, "ModelLoading"),
        (AnswerReason.LOAD_FAILED, "ModelLoadFailed"),
        (AnswerReason.MALFORMED, "ProtocolMismatch"),
    ],
)
def test_a_not_ready_replica_with_a_passing_probe_is_reported_to_receive_traffic(answer, reason):
    liar = pod("liar", MODEL)

    plan = planned(MODEL, observed(liar, probes=said(liar, no(answer, "still copying"))))

    found = condition(plan, "Ready")
    assert (found["status"], found["reason"]) == ("False", reason)
    assert "still copying" in found["message"]
    assert ROUTED in found["message"]
    # a restarted operator reports the same before its first poll
    again = planned(MODEL, observed(liar, status=plan.status))
    assert condition(again, "Ready")["message"] == found["message"]


@pytest.mark.parametrize(
    ("of", "answer"),
    [
        (unready("p", MODEL), no(AnswerReason.NOT_READY)),
        (pod("p", MODEL, gated=True, gate_open=True), no(AnswerReason.NOT_READY)),
        (pod("p", MODEL), silence(AnswerReason.TIMED_OUT)),
    ],
    ids=["not ready for the kubelet either", "the gate is about to close", "silent"],
)
def test_a_gated_or_silent_replica_is_not_reported_to_receive_traffic(of, answer):
    plan = planned(MODEL, observed(of, probes=said(of, answer)))

    assert condition(plan, "Ready")["status"] == "False"
    assert ROUTED not in condition(plan, "Ready")["message"]
