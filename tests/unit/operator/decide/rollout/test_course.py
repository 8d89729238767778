"""The revision that runs: given up, rolled back, paused, retried, pinned across an upgrade."""

import base64
import dataclasses
import hashlib
import json
from datetime import timedelta

import msgspec
import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.api.written_spec import SPEC_LIMIT_BYTES
from moorage_operator.decide import plan as planning
from moorage_operator.decide.rollout.course import Course, chart_course
from moorage_operator.decide.rollout.revision_specs import read_spec, read_template, unreadable
from moorage_operator.resources.kept_revision import make_kept_revision, read_kept_revision
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template, revision_of
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import DeploymentCondition
from moorage_operator.values.observed import Observed, RevisionRecord
from moorage_operator.values.plan import Plan, PollPace
from moorage_operator.values.revisions import read_revisions
from support.operator_values import (
    CONFIG,
    NOW,
    body,
    condition,
    deployment,
    model,
    no,
    observed,
    planned,
    pod,
    record,
    revision,
    said,
    serving,
    unready,
    verdict,
)

GOOD = model(replicas=2)
BAD_SPEC = {"replicas": 2, "runtime": {"image": "bad:1"}}
BAD = model(generation=2, **BAD_SPEC)
STUCK = (DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),)
NEWER = OperatorConfig(runtime_image="moorage/runtime:newer")


HISTORY = {revision(GOOD): record(GOOD)}


def served(of: InferenceModel = GOOD) -> dict:
    """The status of a model that serves with all its replicas."""
    return planned(of, serving(of, of.replicas)).status


def trying(of: InferenceModel = BAD, **facts) -> Observed:
    """A rollout from GOOD in progress: both old pods serve, a new one has not started."""
    of_new = deployment(revision=revision(of), conditions=facts.pop("conditions", ()))
    new = facts.pop("new", None) or unready("new", of)
    probes = said(new, no(AnswerReason.LOADING))
    return observed(
        pod("old-1", GOOD),
        pod("old-2", GOOD),
        new,
        **{"deployment": of_new, "status": served(), "probes": probes, **facts},
    )


def given_up(of: InferenceModel = BAD) -> dict:
    """The status once the revision was given up for its deadline."""
    return planned(of, trying(of, conditions=STUCK)).status


def after(status: dict, *pods, of: InferenceModel = GOOD, **facts) -> Observed:
    """Only the old revision, with a status that has the revisions."""
    where = deployment(revision=revision(of))
    pods = pods or (pod("old-1", GOOD), pod("old-2", GOOD))
    probes = {uid: result for each in pods for uid, result in said(each).items()}
    seen = {"deployment": where, "status": status, "history": HISTORY, "probes": probes, **facts}
    return observed(*pods, **seen)


def applied(plan: Plan) -> dict:
    return next(item for item in plan.objects if item["kind"] == "Deployment")


def applied_revision(plan: Plan) -> str:
    return applied(plan)["spec"]["template"]["metadata"]["labels"]["moorage.dev/revision"]


# ------------------------------------------------------------------ what there is to go back to


def test_the_last_good_revision_is_kept_before_another_is_tried_and_no_longer():
    trial = planned(BAD, trying(history=HISTORY))
    kinds = [item["kind"] for item in trial.objects]
    kept = next(item for item in trial.objects if item["kind"] == "ControllerRevision")

    assert kinds.index("ControllerRevision") < kinds.index("Deployment")
    assert kept["metadata"]["labels"]["moorage.dev/revision"] == revision(GOOD)
    assert read_kept_revision(kept) == HISTORY[revision(GOOD)]
    for plan in (planned(GOOD, after(served())), planned(BAD, after(given_up()))):
        assert "ControllerRevision" not in {item["kind"] for item in plan.objects}


def test_a_kept_revision_is_unchanged_by_defaults_of_the_api_server():
    record = HISTORY[revision(GOOD)]
    later = dataclasses.replace(record, template=record.template[:-1] + b',"added":1}')

    before = make_kept_revision(GOOD, revision(GOOD), record)
    after_upgrade = make_kept_revision(GOOD, revision(GOOD), later)

    assert before["data"] != after_upgrade["data"]
    assert applied_hash(before) == applied_hash(after_upgrade)


# ------------------------------------------------------------------ giving up


def test_a_rollout_in_progress_is_not_given_up():
    plan = planned(BAD, trying())

    assert "rejected" not in plan.status["revisions"]
    assert plan.status["revisions"]["candidate"] == revision(BAD)
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")


def test_a_revision_past_its_deadline_is_given_up_with_its_cause():
    plan = planned(BAD, trying(conditions=STUCK))

    rejected = plan.status["revisions"]["rejected"]
    assert (rejected["revision"], rejected["reason"]) == (revision(BAD), "ModelLoading")
    assert [event.reason for event in plan.events] == [
        "ServingPreviousRevision",
        "RevisionGivenUp",
    ]
    assert applied_revision(plan) == revision(BAD)  # rolled back once it is in the status


def test_a_revision_without_pods_is_given_up_with_what_prevents_them():
    message = "exceeded quota: cpu" + 5000 * "."
    quota = DeploymentCondition("ReplicaFailure", status=True, message=message)
    conditions = (*STUCK, quota)
    where = deployment(revision=revision(BAD), conditions=conditions)

    plan = planned(BAD, after(served(), of=BAD, deployment=where))

    rejected = plan.status["revisions"]["rejected"]
    assert rejected["reason"] == "ForbiddenByQuota"
    assert "exceeded quota: cpu" in rejected["message"]
    assert len(rejected["message"]) <= 1024


def test_a_condition_of_an_older_deployment_is_ignored():
    lagging = deployment(generation=2, revision=revision(BAD), conditions=STUCK)

    plan = planned(BAD, trying(deployment=lagging))

    assert "rejected" not in plan.status["revisions"]


def test_a_replica_that_became_ready_after_the_condition_is_progress():
    late = (dataclasses.replace(STUCK[0], updated=NOW - timedelta(minutes=1)),)
    new = pod("new", BAD, ready_since=NOW - timedelta(seconds=59))
    other = unready("other", BAD)
    probes = said(new) | said(other, no(AnswerReason.LOADING))
    old = (pod("old-1", GOOD), pod("old-2", GOOD))
    of = deployment(revision=revision(BAD), conditions=late)

    plan = planned(BAD, observed(*old, new, other, deployment=of, status=served(), probes=probes))

    assert "rejected" not in plan.status["revisions"]


def test_a_revision_that_waited_for_the_operator_is_not_given_up():
    of = model(replicas=2, generation=2, contract={"policy": "Enforce", "inputs": []})
    new = pod("new", of, ready=False, gated=True)

    unasked = planned(BAD, trying(conditions=STUCK, probes={}))
    shut = planned(of, trying(of, new=new, conditions=STUCK, probes=said(new)))

    assert "rejected" not in unasked.status["revisions"]
    assert "rejected" not in shut.status["revisions"]
    assert [gate.is_open for gate in shut.gates] == [True]


def test_the_first_revision_is_never_given_up():
    of = deployment(revision=revision(GOOD), conditions=STUCK)

    new = unready("p", GOOD)
    probes = said(new, no(AnswerReason.LOADING))
    plan = planned(GOOD, observed(new, deployment=of, probes=probes))

    assert "rejected" not in plan.status["revisions"]
    assert verdict(plan, "UpToDate") == ("False", "ProgressDeadlineExceeded")


def test_a_model_that_has_served_is_not_given_up_when_it_breaks_later():
    of = deployment(revision=revision(GOOD), conditions=STUCK)

    plan = planned(GOOD, observed(unready("p", GOOD), deployment=of, status=served()))

    assert "rejected" not in plan.status["revisions"]


@pytest.mark.parametrize(
    ("reason", "waits"),
    [
        (AnswerReason.LOAD_FAILED, 15.0),
        (AnswerReason.MODEL_NOT_FOUND, None),
        (AnswerReason.LOADING, None),
    ],
)
def test_a_definite_failure_counts_once_it_has_lasted(reason, waits):
    new = pod("new", BAD, ready=False)
    answers = said(new, no(reason, "bad magic"))
    first = planned(BAD, trying(new=new, probes=answers))
    observed = trying(new=new, probes=answers, status=first.status)
    second = planned(BAD, observed)
    later = planned(BAD, observed, NOW + timedelta(seconds=15))

    assert "rejected" not in first.status["revisions"]
    assert second.requeue_after == waits
    assert ("rejected" in later.status["revisions"]) == (waits is not None)


def test_a_failure_with_an_unreadable_time_has_just_begun():
    new = unready("new", BAD)
    world = trying(new=new, probes=said(new, no(AnswerReason.LOAD_FAILED)))
    status = planned(BAD, world).status
    for entry in status["replicaStatuses"]:
        entry["since"] = "0000-01-01T00:00:00Z"

    plan = planned(BAD, dataclasses.replace(world, status=status))

    assert "rejected" not in plan.status["revisions"]
    assert plan.requeue_after == 15


def test_a_broken_contract_is_definite_where_it_is_enforced():
    contract = {"policy": "Enforce", "inputs": [{"name": "other"}]}
    of = model(replicas=2, generation=2, contract=contract)
    new = pod("new", of, ready=False, gated=True)
    seen = trying(of, new=new, probes=said(new))
    observed = dataclasses.replace(seen, status=planned(of, seen).status)

    later = planned(of, observed, NOW + timedelta(seconds=20))

    assert later.status["revisions"]["rejected"]["reason"] == "InputMissing"


def test_a_suspended_model_gives_nothing_up():
    of = model(replicas=2, suspend=True, generation=2, runtime={"image": "bad:1"})

    assert "rejected" not in planned(of, trying(of, conditions=STUCK)).status["revisions"]


# ------------------------------------------------------------------ back to what served


def test_a_plan_without_the_earlier_revision_only_requests_it():
    seen = after(given_up(), of=BAD, history={})

    plan = planning.plan(BAD, seen, now=NOW, config=CONFIG)

    assert plan.history == {revision(GOOD)}
    assert plan.objects == ()
    assert plan.status == given_up()


def test_a_revision_that_is_given_up_is_rolled_back():
    plan = planned(BAD, after(given_up(), of=BAD))

    assert applied_revision(plan) == revision(GOOD)
    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, CONFIG)
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RolledBack")
    assert verdict(plan, "WorkloadAvailable")[0] == "True"
    assert plan.status["revisions"]["lastGood"] == revision(GOOD)
    assert plan.status["revisions"]["rejected"] == given_up()["revisions"]["rejected"]


def test_after_a_rollback_replicas_are_judged_by_the_earlier_spec():
    renamed = model(replicas=2, generation=2, model={"name": "other"}, runtime={"image": "bad:1"})
    seen = after(given_up(renamed), of=renamed)

    plan = planned(renamed, seen)

    assert {target.model_name for target in plan.targets} == {"digits"}
    assert plan.poll is PollPace.STABLE
    assert plan.status["replicaSummary"] == "2/2"


def test_the_gate_of_a_new_pod_of_the_earlier_revision_opens():
    gated = model(replicas=2, contract={"policy": "Enforce", "inputs": [{"name": "image"}]})
    status = planned(gated, serving(gated, 2)).status
    bad = model(replicas=2, generation=2, runtime={"image": "bad:1"})
    old = (pod("old-1", gated), pod("old-2", gated, gated=True, ready=False))
    stuck = deployment(revision=revision(bad), conditions=STUCK)
    status = planned(bad, observed(*old, deployment=stuck, status=status)).status

    plan = planned(bad, after(status, *old, of=gated, history={revision(gated): record(gated)}))

    assert [(gate.pod, gate.is_open) for gate in plan.gates] == [("old-2", True)]


def test_rolled_back_is_a_fixed_point_that_survives_a_restart():
    first = planned(BAD, after(given_up()))
    again = planned(BAD, after(first.status))

    assert again.status == first.status
    assert again.objects == first.objects
    assert again.events == ()


def test_scaling_and_suspending_do_not_end_a_rollback():
    rolled_back = planned(BAD, after(given_up())).status
    scaled = model(replicas=5, generation=3, runtime={"image": "bad:1"})
    suspended = model(replicas=2, suspend=True, generation=3, runtime={"image": "bad:1"})

    assert applied(planned(scaled, after(rolled_back)))["spec"]["replicas"] == 5
    for of in (scaled, suspended):
        plan = planned(of, after(rolled_back))
        assert applied_revision(plan) == revision(GOOD)
        assert verdict(plan, "UpToDate") == ("False", "RolledBack")


@pytest.mark.parametrize(
    "again",
    [
        model(replicas=2, generation=3, runtime={"image": "better:1"}),
        model(replicas=2, generation=3, runtime={"image": "bad:1"},
              rollout={"progressDeadlineSeconds": 1800}),
        model(replicas=2, generation=3, runtime={"image": "bad:1"}, contract={"inputs": []},
              health={"startupTimeoutSeconds": 900}),
    ],
    ids=["another image", "more time", "another probe"],
)  # fmt: skip
def test_an_edit_is_a_new_attempt(again):
    plan = planned(again, after(planned(BAD, after(given_up())).status))

    assert applied_revision(plan) == revision(again)
    assert "rejected" not in plan.status["revisions"]
    assert verdict(plan) == ("True", "ServingPreviousRevision")


def test_a_restart_retries_the_same_spec_with_new_pods():
    rolled_back = planned(BAD, after(given_up())).status
    asked = restarted(BAD_SPEC, "2026-03-04T05:06:07Z", generation=3)

    plan = planned(asked, after(rolled_back))
    later = planned(asked, after(plan.status))

    assert applied_revision(plan) == applied_revision(later) == revision(asked)
    assert revision(asked) != revision(BAD)


def restarted(spec, moment, **facts):
    rollout = {**spec.get("rollout", {}), "restartedAt": moment}
    return model(**{**spec, **facts, "rollout": rollout})


def test_applying_the_last_good_spec_ends_a_rollback():
    restored = dataclasses.replace(GOOD, generation=3)

    plan = planned(restored, after(planned(BAD, after(given_up())).status))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert applied(plan) == applied(planned(GOOD, serving(GOOD, 2)))


def test_without_a_record_of_the_last_good_revision_the_rollout_is_frozen():
    seen = after(given_up(), of=BAD, history={revision(GOOD): None})

    plan = planned(BAD, seen)

    assert applied_revision(plan) == revision(BAD)
    assert applied(plan)["spec"]["paused"] is True
    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")


# ------------------------------------------------------------------ revisions that never served


OWN_PATH = {"paths": {"ready": "/v2/health/ready"}}
BROKEN = model(replicas=1, generation=2, runtime={"image": "bad:1"}, **OWN_PATH)
BETTER = model(replicas=1, generation=3, runtime={"image": "good:2"}, **OWN_PATH)


def replaced(**facts) -> Observed:
    """Only a pod of BROKEN is left, which Kubernetes reports ready, while BETTER rolls out."""
    probes = said(pod("p", BROKEN), no(AnswerReason.LOAD_FAILED))
    where = deployment(revision=revision(BETTER))
    facts = {"probes": probes, "status": served(), "deployment": where, **facts}
    return observed(pod("p", BROKEN), **facts)


def test_the_record_of_a_ready_pods_revision_that_never_served_is_read():
    plan = planned(BETTER, replaced(history=HISTORY))

    assert revision(BROKEN) in plan.history


def test_a_ready_pod_of_a_revision_that_never_served_is_judged_by_its_own_server():
    history = {**HISTORY, revision(BROKEN): record(BROKEN)}

    broken = planned(BETTER, replaced(history=history))
    healthy = planned(BETTER, replaced(history=history, probes=said(pod("p", BROKEN))))

    assert [target.pod_uid for target in broken.targets] == ["uid-p"]
    assert verdict(broken)[0] == "False"
    assert verdict(healthy) == ("True", "ServingPreviousRevision")


def test_a_pod_of_a_revision_that_was_given_up_is_judged_by_its_own_server():
    before = planned(BAD, trying(BAD, conditions=STUCK, history=HISTORY)).status
    failed = pod("new", BAD)
    seen = after(before, failed, history={**HISTORY, revision(BAD): record(BAD)})
    probes = said(failed, no(AnswerReason.LOAD_FAILED))

    plan = planned(BAD, dataclasses.replace(seen, probes=probes))

    assert verdict(plan)[0] == "False"


def test_without_the_record_of_its_revision_the_kubelet_is_believed():
    plan = planned(BETTER, replaced(history={**HISTORY, revision(BROKEN): None}))

    assert verdict(plan) == ("True", "ServingPreviousRevision")


def test_an_invalid_spec_does_not_hide_that_a_revision_never_served():
    invalid = model(replicas=1, generation=3, health={"newField": 1}, **OWN_PATH)
    history = {**HISTORY, revision(BROKEN): record(BROKEN)}

    plan = planned(invalid, replaced(history=history))

    assert verdict(plan)[0] == "False"


# ------------------------------------------------------------------ pause


PAUSING = model(
    replicas=2, generation=2, runtime={"image": "bad:1"}, rollout={"onFailure": "Pause"}
)


def test_pause_keeps_both_revisions():
    status = given_up(PAUSING)
    new = unready("new", PAUSING)
    seen = trying(PAUSING, status=status, conditions=STUCK, new=new, history=HISTORY)

    plan = planned(PAUSING, seen)

    assert applied_revision(plan) == revision(PAUSING)
    assert applied(plan)["spec"]["paused"] is True
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")
    # An abort would need the record of the earlier revision.
    assert revision(GOOD) in plan.history


def test_a_paused_revision_that_starts_to_serve_continues():
    seen = dataclasses.replace(serving(PAUSING, 2), status=given_up(PAUSING), history=HISTORY)

    plan = planned(PAUSING, seen)
    later = planned(PAUSING, dataclasses.replace(seen, status=plan.status))

    assert "rejected" not in plan.status["revisions"]
    assert "paused" not in applied(later)["spec"]
    assert verdict(later, "UpToDate") == ("True", "RolloutComplete")


# ------------------------------------------------------------------ a newer operator


def upgraded(of: InferenceModel, seen: Observed) -> Plan:
    """The plan of an operator with another runtime image, and so another template."""
    return planning.plan(of, seen, now=NOW, config=NEWER)


def test_a_newer_operator_keeps_the_first_template_of_a_spec():
    seen = after(served())

    first = upgraded(GOOD, after(served(), history={}))
    plan = upgraded(GOOD, seen)

    assert first.history == {revision(GOOD)}
    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, CONFIG)
    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("False", "OperatorUpdatePending")


@pytest.mark.parametrize("size", [{"replicas": 3}, {"replicas": 2, "suspend": True}])
def test_scaling_does_not_apply_a_new_template(size):
    sized = model(generation=2, **size)

    plan = upgraded(sized, after(served()))

    assert applied_revision(plan) == revision(GOOD)
    assert applied(plan)["spec"]["replicas"] == sized.desired_replicas


def test_an_edit_or_a_request_applies_a_new_template():
    edited = model(replicas=2, generation=2, runtime={"env": [{"name": "A", "value": "1"}]})
    asked = model(replicas=2, rollout={"restartedAt": "2026-03-04T05:06:07Z"})

    for of in (edited, asked):
        template = applied(upgraded(of, after(served())))["spec"]["template"]
        assert template == make_pod_template(of, NEWER)


def test_a_new_model_gets_the_new_template():
    assert applied(upgraded(GOOD, observed()))["spec"]["template"] == make_pod_template(
        GOOD, NEWER
    )


def test_a_template_without_a_record_is_rendered_again():
    plan = upgraded(GOOD, after(served(), history={revision(GOOD): None}))

    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, NEWER)
    assert "paused" not in applied(plan)["spec"]


def test_a_rejected_revision_without_a_record_is_tried_again():
    env = [{"name": "A", "value": "1"}]
    of = model(replicas=2, generation=2, runtime={"env": env}, rollout={"onFailure": "Pause"})
    history = {**HISTORY, revision(of): None}
    seen = trying(of, status=given_up(of), history=history)

    plan = upgraded(of, seen)

    assert applied(plan)["spec"]["template"] == make_pod_template(of, NEWER)
    assert "rejected" not in plan.status["revisions"]
    assert "paused" not in applied(plan)["spec"]


@pytest.mark.parametrize(("generation", "is_kept"), [(1, True), (2, False)])
def test_another_format_of_hashes_is_an_edit_only_with_another_generation(generation, is_kept):
    status = served()
    status["revisions"]["specHash"] = "v0:1c1b902ebc"

    plan = upgraded(dataclasses.replace(GOOD, generation=generation), after(status))

    kept = make_pod_template(GOOD, CONFIG if is_kept else NEWER)
    assert applied(plan)["spec"]["template"] == kept
    assert plan.status["revisions"]["specHash"] == GOOD.written.hash


def test_a_newer_operator_does_not_retry_a_rejected_revision():
    rolled_back = planned(BAD, after(given_up())).status

    plan = upgraded(BAD, after(rolled_back))

    assert applied_revision(plan) == revision(GOOD)
    assert verdict(plan, "UpToDate") == ("False", "RolledBack")


def charted(of: InferenceModel, status: dict, history: dict) -> Course:
    """The course of an operator with another runtime image."""
    seen = after(status, history=history)
    return chart_course(of, seen, make_pod_template(of, NEWER))


def test_a_course_names_the_records_that_it_depends_on():
    rendered, first = make_pod_template(GOOD, NEWER), revision(GOOD)
    revisions, needed = read_revisions(served()), frozenset({first})

    assert charted(GOOD, served(), {}) == Course(revisions, first, GOOD, rendered, needed)
    assert charted(GOOD, served(), HISTORY) == Course(
        revisions, first, GOOD, make_pod_template(GOOD, CONFIG), needed, update_pending=True
    )
    own = revision_of(rendered)
    again = dataclasses.replace(revisions, current=own)
    assert charted(GOOD, served(), {first: None}) == Course(again, own, GOOD, rendered, needed)


def test_a_course_back_names_the_record_that_it_depends_on():
    rendered, good = make_pod_template(BAD, NEWER), revision(GOOD)
    revisions, needed = read_revisions(given_up()), frozenset({good})
    then = dataclasses.replace(GOOD, generation=2)

    assert charted(BAD, given_up(), {}) == Course(revisions, good, BAD, rendered, needed)
    assert charted(BAD, given_up(), HISTORY) == Course(
        revisions, good, then, make_pod_template(GOOD, CONFIG), needed
    )
    lost = charted(BAD, given_up(), {good: None})
    assert lost == Course(revisions, revision(BAD), BAD, rendered, needed, paused=True)


# ------------------------------------------------------------------ hashes and records


def test_fields_with_their_defaults_do_not_count_in_a_spec_hash():
    spelled = body(
        replicas=7,
        protocol="OpenInference",
        health={"periodSeconds": 5},
        rollout={"strategy": "RollingUpdate", "onFailure": "Rollback"},
        contract={"policy": "Warn"},
    )

    assert model(**spelled["spec"]).written.hash == GOOD.written.hash
    assert model(health={"periodSeconds": 6}).written.hash != GOOD.written.hash


ZEROS = {
    "name": "zeros",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0, 1.5]]}],
    "outputs": [{"name": "y", "data": ["a"]}],
}


def test_a_record_restores_spec_and_template():
    of = model(
        contract={"inputs": [{"name": "image", "shape": [-1, 8]}]},
        smokeTests={"policy": "Enforce", "tests": [ZEROS]},
        runtime={"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
        podTemplate={"spec": {"hostname": "a"}},
        tolerations=[{"key": "gpu"}],
    )
    larger = dataclasses.replace(of, replicas=9, generation=4)

    assert read_spec(record(of), larger) == larger
    assert read_template(record(of), of) == make_pod_template(of, CONFIG)


def test_a_template_is_read_without_marks_of_other_tools():
    marks = {"annotations": {"team": "shop"}, "labels": {"tier": "gold"}}
    of = model(podTemplate={"metadata": marks})
    kept = record(of)
    template = msgspec.json.decode(kept.template)
    template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = "2026-01-01"
    template["metadata"]["labels"]["sidecar"] = "injected"
    edited = dataclasses.replace(kept, template=msgspec.json.encode(template))

    assert read_template(edited, of) == make_pod_template(of, CONFIG)


def test_an_upgrade_keeps_restarts_by_users():
    """The ReplicaSet of the first rendering is deleted; only the one of the restart exists."""
    of = model()
    older = dataclasses.replace(CONFIG, runtime_image="moorage/runtime:older")
    kept = record(of, older)
    template = msgspec.json.decode(kept.template)
    template["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-01"}
    edited = dataclasses.replace(kept, template=msgspec.json.encode(template))
    first = revision_of(make_pod_template(of, older))
    status = {"revisions": {"current": first, "specHash": of.written.hash, "lastGood": first}}

    plan = planned(of, observed(status=status, history={first: edited}))

    (deployment_,) = [each for each in plan.objects if each["kind"] == "Deployment"]
    assert revision_of(deployment_["spec"]["template"]) == first
    assert "annotations" not in deployment_["spec"]["template"]["metadata"]


def test_problems_of_the_current_spec_do_not_affect_a_record():
    present = model(replicas=-1)
    assert present.problems

    then = read_spec(record(GOOD), present)

    assert then is not None
    assert then.problems == ()


def test_defaults_are_not_stored():
    of = model(health={"periodSeconds": 5, "timeoutSeconds": 4}, runtime={"image": "a:1"})

    kept = json.loads(of.written.kept)

    assert kept == {
        "version": 1,
        "spec": {"runtime": {"image": "a:1"}, "health": {"timeoutSeconds": 4}},
    }


def test_a_record_with_explicit_defaults_is_read():
    outputs = [{"name": "y", "shape": []}]
    of = model(
        runtime={"image": "a:1"}, health={"timeoutSeconds": 4}, contract={"outputs": outputs}
    )
    spec = {
        "runtime": {"image": "a:1", "args": []},
        "health": {"timeoutSeconds": 4, "periodSeconds": 5},
        "contract": {"policy": "Warn", "outputs": outputs},
    }
    whole = json.dumps({"version": 1, "spec": spec}).encode()

    assert read_spec(RevisionRecord(b"{}", whole), of) == of
    assert read_spec(record(of), of) == of


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (b"", "was not kept"),
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b"AAAA", "damaged"),
        (b"eNqr", "damaged"),
        (b'{"version":1}', "damaged"),
        (b'{"runtime":{"image":"a:1"}}', "format None"),
        (b'{"version":2,"spec":{"runtime":{"image":"a:1"}}}', "format 2"),
        (b'{"version":1,"spec":{"runtime":3}}', "spec.runtime: 3 is invalid"),
        (b'{"version":1,"spec":{"runtime":{"image":"a:1"},"later":1}}', "spec.later"),
    ],
)
def test_a_record_that_cannot_be_read_says_why(spec, why):
    kept = RevisionRecord(b"{}", spec)

    assert read_spec(kept, GOOD) is None
    assert why in unreadable(kept, GOOD)


def with_annotation(text: str, **spec: object) -> InferenceModel:
    return model(podTemplate={"metadata": {"annotations": {"a": text}}}, **spec)


# What no compression makes smaller than three quarters, in the 64 characters that it has.
NOISE = base64.b64encode(hashlib.shake_128(b"noise").digest(200 << 10)).decode()


def test_a_long_spec_is_stored_compressed():
    of = with_annotation(" ".join(map(str, range(30_000))))

    kept = of.written.kept

    assert 0 < len(kept) <= SPEC_LIMIT_BYTES
    assert read_spec(record(of), of) == of


def test_a_rollout_is_rolled_back_to_a_long_spec():
    long = with_annotation(" ".join(map(str, range(30_000))), replicas=2)
    status = planned(BAD, trying(status=served(long), conditions=STUCK)).status
    history = {revision(long): record(long)}

    plan = planned(BAD, after(status, of=long, history=history))

    assert applied_revision(plan) == revision(long)
    assert verdict(plan, "UpToDate") == ("False", "RolledBack")


def test_a_spec_too_large_for_an_annotation_is_reported_and_not_stored():
    large = with_annotation(NOISE)

    plan = planned(large, serving(large))

    assert large.written.kept == ""
    assert verdict(plan, "Accepted") == ("True", "Valid")
    assert "larger than 128 KiB even when compressed" in condition(plan, "Accepted")["message"]
    assert condition(planned(GOOD, serving(GOOD)), "Accepted")["message"] == "the spec is valid"


def test_a_rollback_without_a_target_explains_why_it_is_paused():
    large = with_annotation(NOISE, replicas=2)
    status = planned(BAD, trying(status=served(large), conditions=STUCK)).status
    history = {revision(large): record(large)}

    plan = planned(BAD, after(status, of=large, history=history))

    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")
    message = condition(plan, "UpToDate")["message"]
    assert f"revision {revision(large)}, the last one that served, was not kept" in message
