"""Which revision runs: given up, rolled back, paused, tried again, pinned over an upgrade."""

import dataclasses
import json
from datetime import timedelta

import msgspec
import pytest

from moorage_operator import plan as planning
from moorage_operator.answers import AnswerReason
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.config import OperatorConfig
from moorage_operator.planned import Plan, PollPace
from moorage_operator.resources.kept_revision import make_kept_revision, read_kept_revision
from moorage_operator.resources.owned import applied_hash
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.revisions import read_spec, read_template, spec_hash, write_spec
from moorage_operator.state import Observed, RevisionRecord
from moorage_operator.watched import DeploymentCondition
from support.operator_values import (
    CONFIG,
    NOW,
    body,
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
BAD = model(replicas=2, generation=2, runtime={"image": "bad:1"})
STUCK = (DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),)
NEWER = OperatorConfig(runtime_image="moorage/runtime:newer")


HISTORY = {revision(GOOD): record(GOOD)}


def served(of: InferenceModel = GOOD) -> dict:
    """The status of a model that serves with all its replicas."""
    return planned(of, serving(of, of.replicas)).status


def trying(of: InferenceModel = BAD, **facts) -> Observed:
    """A rollout from GOOD under way: both old pods serve, a new one has not come up."""
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
    """The old revision alone, under a status that remembers."""
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


def test_what_is_kept_counts_as_the_same_whatever_an_api_server_adds_to_templates():
    told = HISTORY[revision(GOOD)]
    later = dataclasses.replace(told, template=told.template[:-1] + b',"added":1}')

    before = make_kept_revision(GOOD, revision(GOOD), told)
    after_upgrade = make_kept_revision(GOOD, revision(GOOD), later)

    assert before["data"] != after_upgrade["data"]
    assert applied_hash(before) == applied_hash(after_upgrade)


# ------------------------------------------------------------------ giving up


def test_a_rollout_under_way_is_not_given_up():
    plan = planned(BAD, trying())

    assert "rejected" not in plan.status["revisions"]
    assert plan.status["revisions"]["candidate"] == revision(BAD)
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RollingOut")


def test_past_its_deadline_a_revision_is_given_up_for_what_was_against_it():
    plan = planned(BAD, trying(conditions=STUCK))

    rejected = plan.status["revisions"]["rejected"]
    assert (rejected["revision"], rejected["reason"]) == (revision(BAD), "ModelLoading")
    assert [event.reason for event in plan.events] == [
        "ServingPreviousRevision",
        "RevisionGivenUp",
    ]
    assert applied_revision(plan) == revision(BAD)  # left once it stands in the status


def test_what_the_controller_says_of_an_older_deployment_gives_nothing_up():
    lagging = deployment(generation=2, revision=revision(BAD), conditions=STUCK)

    plan = planned(BAD, trying(deployment=lagging))

    assert "rejected" not in plan.status["revisions"]


def test_what_became_ready_after_the_controller_looked_is_progress():
    late = (dataclasses.replace(STUCK[0], updated=NOW - timedelta(minutes=1)),)
    new = pod("new", BAD, ready_since=NOW - timedelta(seconds=59))
    other = unready("other", BAD)
    probes = said(new) | said(other, no(AnswerReason.LOADING))
    old = (pod("old-1", GOOD), pod("old-2", GOOD))
    of = deployment(revision=revision(BAD), conditions=late)

    plan = planned(BAD, observed(*old, new, other, deployment=of, status=served(), probes=probes))

    assert "rejected" not in plan.status["revisions"]


def test_what_waits_for_an_operator_that_was_away_is_not_given_up():
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
def test_a_definite_failure_is_believed_once_it_has_stood(reason, waits):
    new = pod("new", BAD, ready=False)
    answers = said(new, no(reason, "bad magic"))
    first = planned(BAD, trying(new=new, probes=answers))
    standing = trying(new=new, probes=answers, status=first.status)
    second = planned(BAD, standing)
    later = planned(BAD, standing, NOW + timedelta(seconds=15))

    assert "rejected" not in first.status["revisions"]
    assert second.requeue_after == waits
    assert ("rejected" in later.status["revisions"]) == (waits is not None)


def test_a_broken_contract_is_definite_where_it_is_enforced():
    contract = {"policy": "Enforce", "inputs": [{"name": "other"}]}
    of = model(replicas=2, generation=2, contract=contract)
    new = pod("new", of, ready=False, gated=True)
    seen = trying(of, new=new, probes=said(new))
    standing = dataclasses.replace(seen, status=planned(of, seen).status)

    later = planned(of, standing, NOW + timedelta(seconds=20))

    assert later.status["revisions"]["rejected"]["reason"] == "InputMissing"


def test_a_suspended_model_gives_nothing_up():
    of = model(replicas=2, suspend=True, generation=2, runtime={"image": "bad:1"})

    assert "rejected" not in planned(of, trying(of, conditions=STUCK)).status["revisions"]


# ------------------------------------------------------------------ back to what served


def test_a_plan_that_lacks_the_earlier_revision_asks_for_it_and_does_nothing():
    seen = after(given_up(), of=BAD, history={})

    plan = planning.plan(BAD, seen, now=NOW, config=CONFIG)

    assert plan.history == {revision(GOOD)}
    assert plan.objects == ()
    assert plan.status == given_up()


def test_what_was_given_up_makes_place_for_what_served():
    plan = planned(BAD, after(given_up(), of=BAD))

    assert applied_revision(plan) == revision(GOOD)
    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, CONFIG)
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RolledBack")
    assert verdict(plan, "WorkloadAvailable")[0] == "True"
    assert plan.status["revisions"]["lastGood"] == revision(GOOD)
    assert plan.status["revisions"]["rejected"] == given_up()["revisions"]["rejected"]


def test_what_runs_after_a_rollback_is_judged_and_asked_as_what_it_is():
    renamed = model(replicas=2, generation=2, model={"name": "other"}, runtime={"image": "bad:1"})
    seen = after(given_up(renamed), of=renamed)

    plan = planned(renamed, seen)

    assert {target.model_name for target in plan.targets} == {"digits"}
    assert plan.poll is PollPace.STABLE
    assert plan.status["replicaSummary"] == "2/2"


def test_a_new_pod_of_the_earlier_revision_has_its_gate_opened():
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


def test_scaling_and_suspending_keep_a_rollback():
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
def test_an_edit_is_another_try(again):
    plan = planned(again, after(planned(BAD, after(given_up())).status))

    assert applied_revision(plan) == revision(again)
    assert "rejected" not in plan.status["revisions"]
    assert verdict(plan) == ("True", "ServingPreviousRevision")


def test_a_rollout_request_is_another_try_of_the_same_spec():
    rolled_back = planned(BAD, after(given_up())).status
    asked = dataclasses.replace(BAD, rollout_request="the claim is mended")

    plan = planned(asked, after(rolled_back))
    later = planned(asked, after(plan.status))

    assert applied_revision(plan) == applied_revision(later) == revision(BAD)


def test_what_served_applied_again_ends_a_rollback():
    restored = dataclasses.replace(GOOD, generation=3)

    plan = planned(restored, after(planned(BAD, after(given_up())).status))

    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert applied(plan) == applied(planned(GOOD, serving(GOOD, 2)))


def test_without_a_record_of_what_served_everything_is_left_as_it_is():
    seen = after(given_up(), of=BAD, history={revision(GOOD): None})

    plan = planned(BAD, seen)

    assert applied_revision(plan) == revision(BAD)
    assert applied(plan)["spec"]["paused"] is True
    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")


# ------------------------------------------------------------------ pause


PAUSING = model(
    replicas=2, generation=2, runtime={"image": "bad:1"}, rollout={"onFailure": "Pause"}
)


def test_pause_leaves_both_revisions_as_they_are():
    status = given_up(PAUSING)
    new = unready("new", PAUSING)
    seen = trying(PAUSING, status=status, conditions=STUCK, new=new, history=HISTORY)

    plan = planned(PAUSING, seen)

    assert applied_revision(plan) == revision(PAUSING)
    assert applied(plan)["spec"]["paused"] is True
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")


def test_a_paused_revision_that_comes_to_serve_goes_on():
    seen = dataclasses.replace(serving(PAUSING, 2), status=given_up(PAUSING), history=HISTORY)

    plan = planned(PAUSING, seen)
    later = planned(PAUSING, dataclasses.replace(seen, status=plan.status))

    assert "rejected" not in plan.status["revisions"]
    assert "paused" not in applied(later)["spec"]
    assert verdict(later, "UpToDate") == ("True", "RolloutComplete")


# ------------------------------------------------------------------ a newer operator


def upgraded(of: InferenceModel, seen: Observed) -> Plan:
    """What a version with another image, and so another template, plans."""
    return planning.plan(of, seen, now=NOW, config=NEWER)


def test_a_newer_operator_keeps_the_template_that_a_spec_was_first_given():
    seen = after(served())

    first = upgraded(GOOD, after(served(), history={}))
    plan = upgraded(GOOD, seen)

    assert first.history == {revision(GOOD)}
    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, CONFIG)
    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("False", "OperatorUpdatePending")


@pytest.mark.parametrize("size", [{"replicas": 3}, {"replicas": 2, "suspend": True}])
def test_another_size_does_not_bring_the_new_template(size):
    sized = model(generation=2, **size)

    plan = upgraded(sized, after(served()))

    assert applied_revision(plan) == revision(GOOD)
    assert applied(plan)["spec"]["replicas"] == sized.desired_replicas


def test_an_edit_or_a_request_brings_the_new_template():
    edited = model(replicas=2, generation=2, runtime={"env": [{"name": "A", "value": "1"}]})
    asked = dataclasses.replace(GOOD, rollout_request="now")

    for of in (edited, asked):
        template = applied(upgraded(of, after(served())))["spec"]["template"]
        assert template == make_pod_template(of, NEWER)


def test_a_new_model_gets_the_new_template():
    assert applied(upgraded(GOOD, observed()))["spec"]["template"] == make_pod_template(
        GOOD, NEWER
    )


def test_a_template_that_nothing_keeps_is_made_anew():
    plan = upgraded(GOOD, after(served(), history={revision(GOOD): None}))

    assert applied(plan)["spec"]["template"] == make_pod_template(GOOD, NEWER)
    assert "paused" not in applied(plan)["spec"]


def test_a_newer_operator_does_not_try_again_what_was_given_up():
    rolled_back = planned(BAD, after(given_up())).status

    plan = upgraded(BAD, after(rolled_back))

    assert applied_revision(plan) == revision(GOOD)
    assert verdict(plan, "UpToDate") == ("False", "RolledBack")


# ------------------------------------------------------------------ hashes and records


def test_fields_with_their_defaults_do_not_count_in_a_spec_hash():
    spelled = body(
        replicas=7,
        protocol="OpenInference",
        health={"periodSeconds": 5},
        rollout={"strategy": "RollingUpdate", "onFailure": "Rollback"},
        contract={"policy": "Warn"},
    )

    assert spec_hash(model(**spelled["spec"])) == spec_hash(GOOD)
    assert spec_hash(model(health={"periodSeconds": 6})) != spec_hash(GOOD)


def test_a_record_gives_back_spec_and_template():
    of = model(
        contract={"inputs": [{"name": "image", "shape": [-1, 8]}]},
        smokeTests=[
            {
                "name": "zeros",
                "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [[0, 1.5]]}],
                "outputs": [{"name": "y", "data": ["a"]}],
            }
        ],
        runtime={"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
        podTemplate={"spec": {"hostname": "a"}},
        tolerations=[{"key": "gpu"}],
    )
    larger = dataclasses.replace(of, replicas=9, generation=4)

    assert read_spec(record(of), larger) == larger
    assert read_template(record(of)) == make_pod_template(of, CONFIG)


def test_the_problems_of_the_present_spec_are_not_those_of_a_record():
    present = model(replicas=-1)
    assert present.problems

    then = read_spec(record(GOOD), present)

    assert then is not None
    assert then.problems == ()


def test_what_has_its_default_is_not_kept():
    of = model(health={"periodSeconds": 5, "timeoutSeconds": 4}, runtime={"image": "a:1"})

    kept = json.loads(write_spec(of))

    assert kept == {
        "model": {"name": of.name},
        "runtime": {"image": "a:1"},
        "health": {"timeout_seconds": 4},
    }


def test_a_record_with_all_defaults_spelled_out_is_read_too():
    of = model(health={"timeoutSeconds": 4}, contract={"outputs": [{"name": "y", "shape": []}]})
    whole = msgspec.json.encode(of)

    assert read_spec(RevisionRecord(b"{}", whole), of) == of
    assert read_spec(record(of), of) == of


@pytest.mark.parametrize("spec", [b"", b"{", b"[]", b'{"runtime":3}', b'{"protocol":{"a":1}}'])
def test_a_record_of_another_version_is_no_spec(spec):
    assert read_spec(RevisionRecord(b"{}", spec), GOOD) is None


def test_a_spec_too_large_for_an_annotation_is_not_kept():
    large = model(podTemplate={"metadata": {"annotations": {"a": "x" * (200 << 10)}}})

    assert write_spec(large) == ""
