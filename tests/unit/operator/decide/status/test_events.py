"""Which events a reconcile posts: each is posted once, when something changes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason, written
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.status.conditions import Judgement
from moorage_operator.decide.status.events import planned_events
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import Plan, PlannedEvent
from moorage_operator.values.revisions import (
    CanaryProgress,
    Rejection,
    Revisions,
    write_revisions,
)
from moorage_operator.values.runtimes import RuntimeState, RuntimeUse
from support.operator_values import NOW, model, planned, serving, with_service

TOLD = {
    *("RuntimeChanged", "RuntimeNotFound", "RuntimeFollowed", "Paused", "Resumed"),
    *("GatewayAccepted", "GatewayAPIMissing", "AwaitingGateway"),
}
USE = RuntimeUse("triton", 1, "mark", "{}")
NEWER = replace(USE, generation=2, content='{"runtime":{"image":"a"}}')
CHANGED = Finding(Reason.RUNTIME_CHANGED, "the InferenceRuntime 'triton' was edited")
GONE = Finding(Reason.RUNTIME_NOT_FOUND, "the InferenceRuntime 'triton' does not exist")


def told(plan: Plan) -> list[tuple[str, str]]:
    """Types and reasons of the events that these tests are about."""
    return [(each.type, each.reason) for each in plan.events if each.reason in TOLD]


class History:
    """Reconciles of a model that serves, each with the status of the one before."""

    def __init__(self, of: InferenceModel | None = None) -> None:
        self.of = of or model()
        self.plan = planned(self.of, serving(self.of))

    def then(self, of: InferenceModel | None = None, **facts: Any) -> list[tuple[str, str]]:
        """The events of the next reconcile."""
        self.of = of or self.of
        seen = with_service(serving(self.of, status=self.plan.status, **facts), self.of)
        self.plan = planned(self.of, seen)
        return told(self.plan)


def test_an_edited_runtime_is_reported_once_and_again_when_the_model_follows() -> None:
    history = History()
    assert history.then(runtime=RuntimeState(USE)) == []
    waits = RuntimeState(USE, CHANGED)

    assert history.then(runtime=waits) == [("Normal", "RuntimeChanged")]
    assert history.then(runtime=waits) == []
    assert history.then(runtime=RuntimeState(NEWER)) == [("Normal", "RuntimeFollowed")]
    assert history.then(runtime=RuntimeState(NEWER)) == []


def test_another_runtime_is_named_with_the_former_one() -> None:
    history = History()
    history.then(runtime=RuntimeState(USE))

    history.then(runtime=RuntimeState(replace(USE, name="mlserver")))

    (message,) = (e.message for e in history.plan.events if e.reason == "RuntimeFollowed")
    assert message == "generation 1 of InferenceRuntime 'mlserver' is used instead of 'triton'"


def test_a_deleted_runtime_is_a_warning() -> None:
    history = History()
    history.then(runtime=RuntimeState(USE))

    assert history.then(runtime=RuntimeState(USE, GONE)) == [("Warning", "RuntimeNotFound")]


def test_a_pause_and_its_end_are_reported_once() -> None:
    history = History()
    paused = model(generation=2, paused=True)

    assert history.then(paused) == [("Normal", "Paused")]
    assert history.then(paused) == []
    assert history.then(model(generation=3)) == [("Normal", "Resumed")]
    (message,) = (e.message for e in history.plan.events if e.reason == "Resumed")
    assert message == (
        "spec.paused is false, so the operator writes to the objects of the model again"
    )
    assert history.then() == []


def test_a_route_that_the_cluster_cannot_have_is_a_warning() -> None:
    routed = model(generation=2, route={"parentRefs": [{"name": "web"}]})
    history = History()

    assert history.then(routed) == [("Warning", "GatewayAPIMissing")]
    assert history.then(routed) == []
    # unknown until the Gateway answers, as after every change of the route
    assert history.then(routed, available_kinds=frozenset({"HTTPRoute"})) == []


# ------------------------------------------------------------------ transitions of one status

State = tuple[bool | None, Reason]
"""Status and reason of a condition."""

WHY = "the file is broken"
LOADING, SERVING = (False, Reason.MODEL_LOADING), (True, Reason.SERVING)
FAILED, PREVIOUS = (False, Reason.MODEL_LOAD_FAILED), (True, Reason.SERVING_PREVIOUS_REVISION)
CUT_OFF = (None, Reason.OPERATOR_CUT_OFF)


def in_state(type_: ConditionType, state: State) -> Condition:
    status, reason = state
    return Condition(type_, status=status, finding=Finding(reason, WHY))


READY = in_state(ConditionType.READY, SERVING)


NO_REVISIONS = Revisions()


def written_before(*conditions: Condition, revisions: Revisions = NO_REVISIONS) -> Observed:
    """The status of the reconcile before."""
    found = written(conditions, {}, generation=1, now=NOW)
    return Observed(status={"conditions": found, "revisions": write_revisions(revisions)})


def judged(*conditions: Condition, **facts: Any) -> Judgement:
    return replace(Judgement(conditions, READY, None, NO_REVISIONS), **facts)


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [
        (None, LOADING, None),
        (None, FAILED, "Warning"),
        (None, SERVING, "Normal"),
        (LOADING, FAILED, "Warning"),
        (LOADING, SERVING, "Normal"),
        (FAILED, FAILED, None),
        (FAILED, LOADING, None),
        (FAILED, SERVING, "Normal"),
        (SERVING, SERVING, None),
        (SERVING, PREVIOUS, "Normal"),
        (SERVING, LOADING, "Warning"),
        (SERVING, FAILED, "Warning"),
        # an outage of the operator and its end
        (SERVING, CUT_OFF, None),
        (FAILED, CUT_OFF, None),
        (CUT_OFF, SERVING, None),
        (CUT_OFF, FAILED, "Warning"),
    ],
)
def test_ready_has_an_event_when_it_changes_or_has_a_lasting_reason(
    before: State | None, after: State, kind: str | None
) -> None:
    earlier = [in_state(ConditionType.READY, before)] if before else []
    ready = in_state(ConditionType.READY, after)

    events = planned_events(judged(ready, ready=ready), written_before(*earlier))

    assert events == ((PlannedEvent(kind, str(after[1]), WHY),) if kind else ())


MISSING, SHAPE = (False, Reason.INPUT_MISSING), (False, Reason.SHAPE_MISMATCH)


@pytest.mark.parametrize(
    ("type_", "before", "after", "is_told"),
    [
        (ConditionType.METADATA_MATCHED, None, MISSING, True),
        (ConditionType.METADATA_MATCHED, SHAPE, MISSING, True),
        (ConditionType.METADATA_MATCHED, MISSING, MISSING, False),
        (ConditionType.METADATA_MATCHED, None, (None, Reason.METADATA_UNSUPPORTED), False),
        (ConditionType.METADATA_MATCHED, MISSING, (True, Reason.MATCHED), False),
        (ConditionType.SMOKE_TEST_PASSED, None, (False, Reason.OUTPUT_MISMATCH), True),
        (ConditionType.MODEL_READY, None, FAILED, False),
    ],
)
def test_a_check_that_is_not_enforced_has_an_event_when_it_fails(
    type_: ConditionType, before: State | None, after: State, *, is_told: bool
) -> None:
    earlier = [in_state(type_, before)] if before else []
    condition = in_state(type_, after)
    observed = written_before(READY, *earlier)

    events = planned_events(judged(condition), observed)

    assert events == ((PlannedEvent("Warning", str(after[1]), WHY),) if is_told else ())
    # If the spec enforces the check, the event of Ready reports it.
    assert planned_events(judged(condition, blamed=condition.finding), observed) == ()


REJECTED = Rejection("new", "ModelLoadFailed", WHY, "2026-03-04T05:06:07Z")
GIVEN_UP = f"revision new of this spec was given up: ModelLoadFailed: {WHY}"


@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        (None, REJECTED, True),
        (REJECTED, REJECTED, False),
        (replace(REJECTED, revision="earlier"), REJECTED, True),
        (REJECTED, None, False),
    ],
)
def test_a_revision_that_is_given_up_has_one_event(
    before: Rejection | None, after: Rejection | None, *, is_told: bool
) -> None:
    observed = written_before(READY, revisions=Revisions(rejected=before))

    events = planned_events(judged(revisions=Revisions(rejected=after)), observed)

    assert events == ((PlannedEvent("Warning", "RevisionGivenUp", GIVEN_UP),) if is_told else ())


START, FIRST, SECOND = (CanaryProgress("new", *each) for each in ((0, 0), (1, 20), (2, 50)))
OTHER = replace(FIRST, revision="other")


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        (None, START, []),
        (None, FIRST, [20]),
        (START, FIRST, [20]),
        (FIRST, FIRST, []),
        (FIRST, SECOND, [50]),
        (SECOND, START, [0]),
        (OTHER, START, []),
        (OTHER, FIRST, [20]),
        (FIRST, None, []),
    ],
)
def test_each_step_of_a_canary_has_one_event(
    before: CanaryProgress | None, after: CanaryProgress | None, percent: Sequence[int]
) -> None:
    observed = written_before(READY, revisions=Revisions(canary=before))

    events = planned_events(judged(revisions=Revisions(canary=after)), observed)

    assert events == tuple(
        PlannedEvent("Normal", "CanaryStep", f"setting the share of canary new to {each} percent")
        for each in percent
    )


def test_the_texts_of_events_are_short() -> None:
    long = "x" * 5000
    conditions = [
        replace(in_state(*each), finding=Finding(each[1][1], long))
        for each in (
            (ConditionType.READY, FAILED),
            (ConditionType.METADATA_MATCHED, MISSING),
            (ConditionType.PAUSED, (True, Reason.PAUSED)),
        )
    ]
    revisions = Revisions(rejected=replace(REJECTED, message=long))

    events = planned_events(
        judged(*conditions, ready=conditions[0], revisions=revisions), Observed()
    )

    assert len(events) == 4
    assert all(len(each.message) == 1023 for each in events)
