"""What the conditions say: each state has its reason and its whole message."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.api.written_spec import WrittenSpec
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.objects import DeploymentCondition, Scheduled
from moorage_operator.values.observed import Observed, Refusal
from moorage_operator.values.plan import Plan
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict
from support.operator_values import (
    condition,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    pod,
    revision,
    said,
    serving,
    silence,
    unready,
)

MODEL, TWO = model(), model(replicas=2)
CONTRACT = {"contract": {"inputs": [{"name": "image"}]}}
TENSOR = {"name": "x", "datatype": "FP32", "shape": [], "data": [1]}
TESTED = {"smokeTests": {"tests": [{"name": "one", "inputs": [TENSOR]}]}}
SCALED = {"maxReplicas": 3, "metrics": [{"type": "CPU", "target": 70}]}
QUERY = {"type": "Prometheus", "target": 1, "serverAddress": "http://p:9090", "query": "q"}
TO_ZERO = {"minReplicas": 0, "maxReplicas": 3, "metrics": [QUERY]}


def half(of: Any = TWO, **facts: Any) -> Observed:
    """The first of two replicas serves, and the other has no pod."""
    first = pod("p0", of)
    return observed(first, probes=said(first), **facts)


def one_bad(**facts: Any) -> Observed:
    """The first of two replicas serves, and the other cannot load the model."""
    good, bad = pod("p0", TWO), unready("p1", TWO)
    probes = {**said(good), **said(bad, no(AnswerReason.LOAD_FAILED, "bad file"))}
    return observed(good, bad, probes=probes, **facts)


def passing(count: int) -> Observed:
    """So many of two replicas that passed the smoke tests."""
    of = model(replicas=2, **TESTED)
    pods = tuple(pod(f"p{index}", of) for index in range(count))
    passed = SmokeOutcome(of.smoke_digest, SmokeVerdict.PASSED)
    return observed(
        *pods, probes={k: v for each in pods for k, v in said(each, smoke=passed).items()}
    )


def foreign() -> Observed:
    """A replica whose server answers, but not in the protocol of the spec."""
    of = unready("p", MODEL)
    answer = Answer(verdict=None, reason=AnswerReason.WRONG_PROTOCOL, message="HTTP 404")
    return observed(of, probes=said(of, answer, spoken=None))


def told(plan: Plan, type_: str) -> tuple[str, str, str]:
    found = condition(plan, type_)
    return found["status"], found["reason"], found["message"]


SERVED = planned(TWO, serving(TWO, 2)).status
LOAD_FAILED = "pod p1: model digits failed to load: bad file"
NOT_CREATED = "1 of 2 pods of this revision have been created"

MISMATCH = "pod p: the server does not answer as OpenInference over HTTP: HTTP 404"
WAITS_CHANGED = (
    "no node accepts pod p: 0/1 nodes; the Deployment \"digits\" was paused by 'kubectl', not by "
    'the spec: run `kubectl rollout resume deployment/digits`; the Deployment "digits" has '
    "fields that others set: spec.template.spec.hostname by 'editor'"
)

STATES: Mapping[str, tuple[InferenceModel, Observed, Mapping[str, tuple[str, str, str]]]] = {
    "all replicas serve": (
        TWO, serving(TWO, 2),
        {
            "Accepted": ("True", "Valid", "the spec is valid"),
            "WorkloadAvailable": ("True", "MinimumReplicasAvailable", "2 of 2 replicas run"),
            "ModelReady": (
                "True", "AllReplicasReady", "the model is ready on 2 of 2 replicas",
            ),
            "Ready": ("True", "Serving", "2 of 2 replicas serve the model"),
        },
    ),
    "a spec is too large to be kept": (
        replace(MODEL, written=WrittenSpec(MODEL.written.hash, "")), serving(MODEL),
        {
            "Accepted": (
                "True", "Valid",
                ("the spec is valid; it is larger than 128 KiB even when compressed, so it cannot "
                "be kept: if a later rollout fails, it is paused instead of rolled back to this "
                "spec; shorten spec.smokeTests or spec.podTemplate"),
            ),
        },
    ),
    "a spec has two problems": (
        model(replicas=-1, transport="UDP"), Observed(),
        {
            "Accepted": (
                "False", "InvalidSpec",
                ("spec.replicas: -1 is invalid: must be a whole number from 0 to 2147483647; "
                "spec.transport: 'UDP' is invalid: must be one of HTTP, GRPC"),
            ),
        },
    ),
    "one of two pods exists": (
        TWO, half(),
        {
            "WorkloadAvailable": ("False", "Pending", NOT_CREATED),
            "ModelReady": (
                "Unknown", "ServerNotLive",
                "the model is ready on 1 of 2 replicas",
            ),
            "Ready": ("False", "Pending", NOT_CREATED),
        },
    ),
    "one of two pods is left of a model that has served": (
        TWO, half(status=SERVED),
        {
            "Ready": (
                "True", "Serving",
                f"1 of 2 replicas serve the model; Pending: {NOT_CREATED}",
            ),
        },
    ),
    "a replica of a model that has served is broken": (
        TWO, one_bad(status=SERVED),
        {
            "ModelReady": ("False", "ModelLoadFailed", LOAD_FAILED),
            "Ready": (
                "True", "Serving",
                f"1 of 2 replicas serve the model; ModelLoadFailed: {LOAD_FAILED}",
            ),
            "Stalled": ("True", "ModelLoadFailed", LOAD_FAILED),
        },
    ),
    "an earlier revision serves": (
        model(generation=2, replicas=2, runtime={"image": "new:1"}),
        observed(pod("old", TWO), status=SERVED),
        {
            "Ready": (
                "True", "ServingPreviousRevision",
                ("an earlier revision serves; this one does not: Pending: "
                "0 of 2 pods of this revision have been created"),
            ),
        },
    ),
    "no replica is wanted": (
        model(replicas=0), Observed(),
        {
            "WorkloadAvailable": (
                "False", "ScaledToZero", "spec.replicas is 0; scale up to serve",
            ),
            "ModelReady": ("Unknown", "ServerNotLive", "the model is ready on 0 of 0 replicas"),
        },
    ),
    "an autoscaler that keeps a replica is on": (
        model(replicas=0, scaling=SCALED), Observed(),
        {
            "WorkloadAvailable": (
                "False", "ScaledToZero", "spec.replicas is 0; scale up to serve",
            ),
        },
    ),
    "an autoscaler has scaled to zero": (
        model(replicas=0, scaling=TO_ZERO), Observed(),
        {
            "WorkloadAvailable": (
                "False", "ScaledToZero",
                "scaled to zero by spec.scaling; a replica starts when its query requires one",
            ),
        },
    ),
    "a model is suspended": (
        model(suspend=True), Observed(),
        {
            "WorkloadAvailable": (
                "False", "Suspended", "spec.suspend is true; set it to false to serve",
            ),
        },
    ),
    "a model is suspended while its pods still serve": (
        model(replicas=2, suspend=True), replace(serving(TWO, 2), status=SERVED),
        {"Ready": ("False", "Suspended", "spec.suspend is true; set it to false to serve")},
    ),
    "a server answers in another protocol": (
        MODEL, foreign(),
        {
            "ProtocolMatched": ("False", "ProtocolMismatch", MISMATCH),
            "ModelReady": ("Unknown", "ServerNotLive", "the model is ready on 0 of 1 replicas"),
        },
    ),
    "others changed the Deployment of a pod that waits": (
        MODEL,
        observed(
            pending("p", MODEL, scheduled=Scheduled(status=False, message="0/1 nodes")),
            deployment=deployment(
                foreign=(("spec.paused", "kubectl"), ("spec.template.spec.hostname", "editor")),
            ),
        ),
        {"WorkloadAvailable": ("False", "Unschedulable", WAITS_CHANGED)},
    ),
    "a model is paused before it has pods": (
        model(paused=True), Observed(),
        {
            "WorkloadAvailable": (
                "False", "Paused",
                ("0 of 1 pods of this revision have been created; spec.paused is true, so none is "
                "created"),
            ),
        },
    ),
    "a contract is kept": (
        model(**CONTRACT), serving(model(**CONTRACT)),
        {"MetadataMatched": ("True", "Matched", "the model's tensors match the contract")},
    ),
    "no replica can be compared with the contract": (
        model(**CONTRACT), Observed(),
        {
            "MetadataMatched": (
                "Unknown", "AwaitingMetadata", "no replica has reported its metadata yet",
            ),
        },
    ),
    "no replica can be tested": (
        model(replicas=2, **TESTED), passing(0),
        {
            "SmokeTestPassed": (
                "Unknown", "Running", "the smoke tests are waiting for a ready replica",
            ),
        },
    ),
    "one of two replicas has passed": (
        model(replicas=2, **TESTED), passing(1),
        {"SmokeTestPassed": ("True", "Passed", "1 of 2 replicas passed 1 smoke tests")},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("of", "seen", "expected"), STATES.values(), ids=STATES.keys())
def test_each_state_is_described(
    of: InferenceModel, seen: Observed, expected: Mapping[str, tuple[str, str, str]]
) -> None:
    plan = planned(of, seen)

    assert {type_: told(plan, type_) for type_ in expected} == expected


def test_a_pod_that_runs_and_another_that_is_ready_are_not_one_that_serves() -> None:
    loading, closed = pod("p0", MODEL), unready("p1", MODEL)
    probes = {**said(loading, no(AnswerReason.LOADING)), **said(closed)}

    plan = planned(MODEL, observed(loading, closed, probes=probes))

    assert told(plan, "WorkloadAvailable")[0] == told(plan, "ModelReady")[0] == "True"
    assert told(plan, "Ready") == ("False", "Pending", "0 of 1 replicas serve the model")


def test_a_revision_is_recorded_as_good_only_when_all_its_replicas_serve() -> None:
    new = model(generation=2, replicas=2, runtime={"image": "new:1"})

    part, whole = (planned(new, seen) for seen in (half(new, status=SERVED), serving(new, 2)))

    assert told(part, "Ready")[:2] == ("True", "Serving")
    assert part.status["revisions"]["lastGood"] == revision(TWO)
    assert whole.status["revisions"]["lastGood"] == revision(new)


def test_a_condition_that_is_only_reported_stays_in_its_place() -> None:
    own_path = {"runtime": {"image": "other:1"}, "paths": {"modelReady": "/healthz"}}
    of = model(**own_path, **CONTRACT, **TESTED)
    one = pod("p", of)

    plan = planned(of, observed(one, probes=said(one, spoken=None)))

    assert told(plan, "Ready")[0] == "True"
    assert told(plan, "ProtocolMatched")[0] == "Unknown"
    assert [each["type"] for each in plan.status["conditions"]] == [
        *("Accepted", "WorkloadAvailable", "ProtocolMatched", "ModelReady"),
        *("MetadataMatched", "SmokeTestPassed", "Ready", "UpToDate"),
    ]


# ------------------------------------------------------------------ refused objects


HASHES = {
    each["kind"]: each["metadata"]["annotations"]["moorage.dev/applied-hash"]
    for each in planned(model(networkPolicy={"from": []}), Observed()).objects
}


def refusal(kind: str, **facts: Any) -> Refusal:
    return replace(Refusal(kind, "digits", HASHES[kind], 403, "Forbidden", f"no {kind}"), **facts)


FAILED = {"transient": True, "tries": 2, "code": 504, "reason": ""}


@pytest.mark.parametrize(
    ("refusals", "reason", "message"),
    [
        (
            [refusal("Service")],
            "ApplyRefused",
            'the API server refuses the Service "digits": no Service',
        ),
        (
            [refusal("Service", **FAILED)],
            "ApplyFailed",
            'the API server cannot write the Service "digits": no Service',
        ),
        (
            [refusal("NetworkPolicy"), refusal("Service")],
            "ApplyRefused",
            (
                'the API server refuses the NetworkPolicy "digits": no NetworkPolicy; no other '
                "object is changed until the policy is applied; the API server refuses the "
                'Service "digits": no Service'
            ),
        ),
        ([refusal("Service", reason="AlreadyExists")], "NameConflict", "no Service"),
        ([refusal("Service", reason="AwaitingDeletion")], "AwaitingDeletion", "no Service"),
        ([refusal("Service", reason="Contested")], "ApplyRefused", "no Service"),
        (
            [refusal("NetworkPolicy", reason="Contested")],
            "ApplyRefused",
            "no NetworkPolicy; no other object is changed until the policy is applied",
        ),
        (
            [refusal("Deployment", code=400)],
            "InvalidPodTemplate",
            'the API server refuses the Deployment "digits": no Deployment',
        ),
        (
            [refusal("Service", code=422)],
            "ApplyRefused",
            'the API server refuses the Service "digits": no Service',
        ),
        (
            [refusal("Service", message="exceeded quota: services")],
            "ForbiddenByQuota",
            'the API server refuses the Service "digits": exceeded quota: services',
        ),
    ],
)
def test_each_refusal_is_described(refusals: list[Refusal], reason: str, message: str) -> None:
    plan = planned(model(networkPolicy={"from": []}), Observed(refusals=tuple(refusals)))

    assert told(plan, "Accepted") == told(plan, "Ready") == ("False", reason, message)


# ------------------------------------------------------------------ pods that cannot be created

NO_POD = DeploymentCondition("ReplicaFailure", status=True, message="exceeded quota: pods")


@pytest.mark.parametrize(
    ("failure", "is_blamed"),
    [
        (NO_POD, True),
        (replace(NO_POD, status=False), False),
        (replace(NO_POD, type="Progressing"), False),
    ],
)
@pytest.mark.parametrize("wanted", [1, 2])
def test_pods_that_cannot_be_created_are_blamed_while_one_is_missing(
    failure: DeploymentCondition, wanted: int, *, is_blamed: bool
) -> None:
    of = model(replicas=wanted)
    starting = pending("p", of)

    plan = planned(of, observed(starting, deployment=deployment(conditions=(failure,))))

    accepted = ("True", "Valid", "the spec is valid")
    refused = ("False", "ForbiddenByQuota", "no pod can be created: exceeded quota: pods")
    assert told(plan, "Accepted") == (refused if is_blamed and wanted == 2 else accepted)


@pytest.mark.parametrize(
    "message",
    [
        "exceeded quota: pods",
        "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        "maximum memory usage per Pod is 1Gi, but limit is 2Gi",
    ],
)
def test_a_limit_of_the_namespace_is_called_a_quota(message: str) -> None:
    failure = replace(NO_POD, message=message)

    plan = planned(MODEL, observed(deployment=deployment(conditions=(failure,))))

    assert condition(plan, "Ready")["reason"] == "ForbiddenByQuota"


# ------------------------------------------------------------------ an outage of the operator


def cut_off(*, kubelet: bool = True, is_cut_off: bool = True, **facts: Any) -> Observed:
    """A replica that does not answer the operator."""
    of = pod("p", MODEL) if kubelet else unready("p", MODEL)
    probes = said(of, silence(AnswerReason.TIMED_OUT), consecutive_unknown=9)
    return observed(of, probes=probes, is_cut_off=is_cut_off, **facts)


def test_a_model_is_unknown_while_the_operator_is_cut_off() -> None:
    assert told(planned(MODEL, cut_off()), "Ready") == (
        "Unknown",
        "OperatorCutOff",
        (
            "most models do not answer the operator, so it cannot determine whether this one "
            "serves; the kubelets report 1 of its replicas ready; check the network between the "
            "operator and the pods"
        ),
    )


@pytest.mark.parametrize("facts", [{"kubelet": False}, {"is_cut_off": False}])
def test_a_model_that_fails_by_itself_is_not_unknown(facts: dict[str, bool]) -> None:
    assert told(planned(MODEL, cut_off(**facts)), "Ready")[:2] == ("False", "ProbeTimeout")


def test_a_model_that_serves_is_ready_while_the_operator_is_cut_off() -> None:
    plan = planned(MODEL, replace(serving(MODEL), is_cut_off=True))

    assert told(plan, "Ready")[:2] == ("True", "Serving")


# ------------------------------------------------------------------ an edited runtime


def test_a_model_that_follows_its_runtime_is_not_up_to_date() -> None:
    use = RuntimeUse("triton", 2, "v1:0", "{}", is_following=True)
    plan, other = (
        planned(MODEL, replace(serving(MODEL), runtime=RuntimeState(use, follows=follows)))
        for follows in (True, False)
    )

    sentence = "the model follows the edited InferenceRuntime 'triton'"
    assert told(plan, "UpToDate") == ("False", "RollingOut", sentence)
    assert told(plan, "Reconciling") == ("True", "RollingOut", sentence)
    assert told(other, "UpToDate")[:2] == ("True", "RolloutComplete")


def test_the_content_that_a_model_would_get_of_its_runtime_is_reported() -> None:
    edited = Finding(Reason.RUNTIME_CHANGED, "the InferenceRuntime 'triton' was edited")
    use = RuntimeUse("triton", 1, "v1:0", "{}")

    plan = planned(MODEL, replace(serving(MODEL), runtime=RuntimeState(use, edited)))

    assert told(plan, "RuntimeUpdatePending") == ("True", "RuntimeChanged", edited.message)
    assert told(plan, "UpToDate")[:2] == ("True", "RolloutComplete")
    # Beside other conditions, which come in the order of their types.
    assert plan.status["conditions"][-1]["type"] == "RuntimeUpdatePending"
