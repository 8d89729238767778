"""spec.rollout.abort and restartedAt: a rollout that a user gives up or starts again."""

import dataclasses
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import DeploymentCondition
from moorage_operator.values.observed import Observed, RevisionRecord
from moorage_operator.values.plan import Plan
from support.operator_values import (
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
NEW = {"replicas": 2, "generation": 2, "runtime": {"image": "new:1"}}
CANDIDATE = revision(model(**NEW))
STUCK = (DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),)
HISTORY = {revision(GOOD): record(GOOD), CANDIDATE: record(model(**NEW))}


def new(abort: str = "", **rollout: Any) -> InferenceModel:
    """The new spec, perhaps with a verb."""
    verb = {"abort": abort} if abort else {}
    return model(**{**NEW, "generation": 3, "rollout": {**rollout, **verb}})


def trying(status: dict[str, Any] | None = None, **facts: Any) -> Observed:
    """A rollout in progress: both old pods serve, a new one has not started."""
    pods = (pod("old-1", GOOD), pod("old-2", GOOD), unready("new", model(**NEW)))
    probes = {uid: result for each in pods[:2] for uid, result in said(each).items()}
    probes |= said(pods[2], no(AnswerReason.LOADING))
    before = planned(GOOD, serving(GOOD, 2)).status
    seen = {
        "deployment": deployment(revision=CANDIDATE, conditions=facts.pop("conditions", ())),
        "status": status or before,
        "probes": probes,
        "history": HISTORY,
    }
    return observed(*pods, **seen, **facts)


def applied_revision(plan: Plan) -> str:
    (found,) = [each for each in plan.objects if each["kind"] == "Deployment"]
    return found["spec"]["template"]["metadata"]["labels"]["moorage.dev/revision"]


def message(plan: Plan, type_: str = "UpToDate") -> str:
    return condition(plan, type_)["message"]


def test_an_aborted_rollout_returns_to_the_revision_that_served() -> None:
    recorded = planned(new(CANDIDATE), trying())
    plan = planned(new(CANDIDATE), trying(recorded.status))

    rejected = recorded.status["revisions"]["rejected"]
    assert (rejected["revision"], rejected["reason"]) == (CANDIDATE, "RolloutAborted")
    assert "candidate" not in recorded.status["revisions"]
    assert applied_revision(plan) == revision(GOOD)
    assert verdict(plan, "UpToDate") == ("False", "RolloutAborted")
    assert verdict(plan, "Stalled") == ("True", "RolloutAborted")
    assert "remove spec.rollout.abort" in message(plan)
    assert verdict(plan) == ("True", "ServingPreviousRevision")


def test_abort_ends_a_failed_rollout_that_is_paused() -> None:
    status = planned(new(onFailure="Pause"), trying(conditions=STUCK)).status
    assert verdict(planned(new(onFailure="Pause"), trying(status)), "UpToDate")[1] == (
        "RolloutPaused"
    )

    aborted = planned(new(CANDIDATE, onFailure="Pause"), trying(status)).status
    plan = planned(new(CANDIDATE, onFailure="Pause"), trying(aborted))

    assert applied_revision(plan) == revision(GOOD)
    assert verdict(plan, "UpToDate") == ("False", "RolloutAborted")


@pytest.mark.parametrize("abort", ["", "another"])
def test_removing_abort_retries_the_revision(abort: str) -> None:
    aborted = planned(new(CANDIDATE), trying()).status

    plan = planned(new(abort), trying(aborted))

    assert applied_revision(plan) == CANDIDATE
    assert "rejected" not in plan.status["revisions"]


def test_an_aborted_revision_stays_aborted_while_other_fields_change() -> None:
    aborted = planned(new(CANDIDATE), trying()).status
    scaled = model(**{**NEW, "generation": 4, "replicas": 3, "rollout": {"abort": CANDIDATE}})

    assert applied_revision(planned(scaled, trying(aborted))) == revision(GOOD)


def test_another_spec_ends_an_abort() -> None:
    aborted = planned(new(CANDIDATE), trying()).status
    third = {**NEW, "runtime": {"image": "third:1"}, "rollout": {"abort": CANDIDATE}}
    edited = model(**{**third, "generation": 4})

    plan = planned(edited, trying(aborted))

    assert applied_revision(plan) == revision(edited)
    assert plan.status["revisions"]["unproven"] == [CANDIDATE]
    assert "rollout.abort" not in message(plan)


def test_a_misspelt_abort_is_reported_and_has_no_effect() -> None:
    plan = planned(new("misspelt"), trying())

    assert "rejected" not in plan.status["revisions"]
    assert f"names misspelt, but revision {CANDIDATE} is rolled out" in message(plan)


def test_a_complete_rollout_cannot_be_aborted() -> None:
    of = model(replicas=2, generation=2, rollout={"abort": revision(GOOD)})
    before = planned(GOOD, serving(GOOD, 2)).status

    plan = planned(of, serving(GOOD, 2, status=before))

    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert "whose rollout is complete" in message(plan)


def test_the_first_revision_cannot_be_aborted() -> None:
    of = new(CANDIDATE)

    plan = planned(of, observed(unready("p", of)))

    assert "rejected" not in plan.status["revisions"]
    assert "there is none to return to" in message(plan)


def test_a_record_of_an_unknown_format_is_named() -> None:
    aborted = planned(new(CANDIDATE), trying()).status
    kept = RevisionRecord(record(GOOD).template, b'{"version":2,"spec":{}}')
    history = {**HISTORY, revision(GOOD): kept}

    plan = planned(new(CANDIDATE), dataclasses.replace(trying(aborted), history=history))

    assert verdict(plan, "UpToDate") == ("False", "RolloutPaused")
    assert "was kept in format 2" in message(plan)


def test_a_changed_restart_time_replaces_the_pods_of_the_same_spec() -> None:
    first, second = (
        model(rollout={"restartedAt": f"2026-03-04T05:06:0{second}Z"}) for second in (1, 2)
    )

    assert len({revision(each) for each in (model(), first, second)}) == 3
    assert first.written.kept == second.written.kept == model().written.kept
    plan = planned(first, serving(model(), status=planned(model(), serving(model())).status))
    (found,) = [each for each in plan.objects if each["kind"] == "Deployment"]
    annotations = found["spec"]["template"]["metadata"]["annotations"]
    assert annotations[names.RESTARTED_AT] == "2026-03-04T05:06:01Z"


@pytest.mark.parametrize(
    ("rollout", "path"),
    [
        ({"promote": "a/0"}, "spec.rollout.promote"),
        ({"promote": "a/b"}, "spec.rollout.promote"),
        ({"promote": "A"}, "spec.rollout.promote"),
        ({"abort": "a/1"}, "spec.rollout.abort"),
        ({"abort": 7}, "spec.rollout.abort"),
        ({"restartedAt": "yesterday"}, "spec.rollout.restartedAt"),
        ({"restartedAt": "2026-13-04T05:06:07Z"}, "spec.rollout.restartedAt"),
        ({"restartedAt": "2026-03-04T05:06:07"}, "spec.rollout.restartedAt"),
    ],
)
def test_a_malformed_verb_is_a_problem(rollout: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in model(rollout=rollout).problems] == [path]
