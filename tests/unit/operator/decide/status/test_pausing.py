"""A paused model: its status goes on, and nothing is written to its children."""

import dataclasses
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.status.pausing import pending_changes
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import ChildObserved, DeploymentCondition
from moorage_operator.values.observed import Observed, Refusal
from moorage_operator.values.plan import Plan
from support.operator_values import (
    children,
    condition,
    deployment,
    model,
    no,
    observed,
    pending,
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
STUCK = (DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded"),)


def paused(generation: int = 2, **spec: Any) -> InferenceModel:
    return model(**{"replicas": 2, "generation": generation, "paused": True, **spec})


def message(plan: Plan, type_: str = "Paused") -> str:
    return condition(plan, type_)["message"]


def in_place(of: InferenceModel) -> dict[Any, Any]:
    """The children as the operator applies them."""
    return {
        (each["kind"], each["metadata"]["name"]): (
            deployment(revision=revision(of), applied_hash=applied_hash(each))
            if each["kind"] == "Deployment"
            else ChildObserved("u", applied_hash(each))
        )
        for each in planned(of, observed()).objects
    }


def serves(of: InferenceModel, **facts: Any) -> Observed:
    status = planned(GOOD, serving(GOOD, 2)).status
    seen = serving(of, 2, status=status, history={revision(GOOD): record(GOOD)})
    return dataclasses.replace(seen, **{"children": in_place(GOOD), **facts})


def test_a_paused_model_serves_and_shows_its_condition() -> None:
    plan = planned(paused(), serves(GOOD))

    assert plan.objects == ()
    assert plan.leaves_children
    assert verdict(plan) == ("True", "Serving")
    assert verdict(plan, "UpToDate") == ("True", "RolloutComplete")
    assert verdict(plan, "Paused") == ("True", "Paused")
    assert message(plan) == (
        "spec.paused is true, so the operator creates, changes and deletes nothing; no edit of "
        "the spec is pending; to resume, set spec.paused to false"
    )
    assert plan.targets
    assert plan.status["observedGeneration"] == 2
    assert {"Reconciling", "Stalled"}.isdisjoint(
        each["type"] for each in plan.status["conditions"]
    )


def test_a_model_that_is_not_paused_has_no_such_condition() -> None:
    plan = planned(model(replicas=2, generation=2), serves(GOOD))

    assert "Paused" not in {each["type"] for each in plan.status["conditions"]}
    assert not plan.leaves_children


def test_a_pending_edit_is_named_and_stalls() -> None:
    plan = planned(paused(runtime={"image": "new:1"}), serves(GOOD))

    assert plan.objects == ()
    assert verdict(plan) == ("True", "ServingPreviousRevision")
    assert verdict(plan, "UpToDate") == ("False", "Paused")
    assert verdict(plan, "Stalled") == ("True", "Paused")
    assert 'change Deployment "digits"' in message(plan)
    assert plan.status["revisions"]["lastGood"] == revision(GOOD)


def test_children_that_would_be_created_and_deleted_are_named() -> None:
    extra = {**in_place(GOOD), ("NetworkPolicy", "digits"): ChildObserved("u", "h")}
    del extra["Service", "digits"]

    plan = planned(paused(), serves(GOOD, children=extra))

    would = 'it would create Service "digits", delete NetworkPolicy "digits"; to resume'
    assert would in message(plan)
    assert verdict(plan) == ("False", "Paused")
    missing = "the Service does not exist; spec.paused is true, so it is not created"
    assert message(plan, "Ready") == missing
    assert missing in {each.message for each in plan.events}


def test_children_that_are_kept_are_not_named() -> None:
    extra = Observed(children={("NetworkPolicy", "digits"): ChildObserved("u", "h")})

    assert pending_changes((), extra, keeps_others=True) == ()
    assert pending_changes((), extra, keeps_others=False) == ('delete NetworkPolicy "digits"',)


def test_a_new_model_that_is_paused_says_why_it_has_no_pod() -> None:
    plan = planned(paused(generation=1), Observed())

    assert plan.objects == ()
    assert verdict(plan) == ("False", "Paused")
    assert "spec.paused is true, so none is created" in message(plan, "Ready")


def test_a_failure_of_a_paused_model_keeps_its_own_reason() -> None:
    of = paused()
    waits = pending("p", of)

    assert verdict(planned(of, observed(waits)))[1] != "Paused"


def test_a_failed_rollout_is_not_rolled_back_before_the_model_is_resumed() -> None:
    bad = {"runtime": {"image": "bad:1"}}
    of, resumed = paused(3, **bad), model(replicas=2, generation=4, **bad)
    tried = deployment(revision=revision(of), conditions=STUCK)
    pods = (pod("old-1", GOOD), pod("old-2", GOOD), unready("new", of))
    probes = {uid: result for each in pods[:2] for uid, result in said(each).items()}
    probes |= said(pods[2], no(AnswerReason.LOADING))
    seen = serves(GOOD, pods=pods, probes=probes, children=children(tried))

    assert "rejected" not in planned(of, seen).status["revisions"]
    assert "rejected" in planned(resumed, seen).status["revisions"]


def test_a_rollout_that_completes_is_recorded_only_when_the_model_is_resumed() -> None:
    new = {"runtime": {"image": "new:1"}}
    of, resumed = paused(2, **new), model(replicas=2, generation=3, **new)
    pods = (pod("new-1", of), pod("new-2", of))
    probes = {uid: result for each in pods for uid, result in said(each).items()}
    seen = serves(GOOD, pods=pods, probes=probes, children=in_place(resumed))

    assert planned(of, seen).status["revisions"]["lastGood"] == revision(GOOD)
    assert planned(resumed, seen).status["revisions"]["lastGood"] == revision(of)


def test_nothing_that_is_never_done_requests_a_reconcile() -> None:
    of = paused()
    planned_hash = applied_hash(planned(model(replicas=2), observed()).objects[0])
    refused = Refusal("Service", "digits", planned_hash, 403, "Forbidden", "no")

    assert planned(of, serves(GOOD, refusals=(refused,))).requeue_after is None


@pytest.mark.parametrize("spec", [{"replicas": -1}, {}])
def test_an_invalid_and_a_valid_spec_can_be_paused(spec: dict[str, Any]) -> None:
    plan = planned(paused(**spec), serves(GOOD))

    assert plan.leaves_children
    assert verdict(plan, "Paused") == ("True", "Paused")


def test_resuming_applies_what_was_pending() -> None:
    seen = serves(GOOD)
    edited = paused(runtime={"image": "new:1"})
    status = planned(edited, seen).status
    resumed = model(replicas=2, generation=3, runtime={"image": "new:1"})

    plan = planned(resumed, serves(GOOD, status=status))

    (applied,) = [each for each in plan.objects if each["kind"] == "Deployment"]
    assert applied["spec"]["template"]["metadata"]["labels"]["moorage.dev/revision"] == (
        revision(edited)
    )
