"""The steps of a canary: when a step ends, its message, and failures."""

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason, timestamp
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.decide.rollout.canary import (
    Split,
    advance,
    describe_progress,
    make_split,
    seconds_left,
    stopped,
)
from moorage_operator.decide.rollout.course import Course
from moorage_operator.decide.rollout.releases import Arrangement, Release
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import CanaryProgress, Revisions
from support.operator_values import NOW, model, no, pod, running, said

STEPS = [{"weight": 20}, {"weight": 50, "pauseSeconds": 60}]
MODEL = model(
    route={"parentRefs": [{"name": "web"}]},
    rollout={"strategy": "Canary", "canary": {"steps": STEPS}},
)
SINCE = timestamp(NOW)
COURSE = Course(Revisions(), "new", MODEL, {})
TAKEN = Condition(
    ConditionType.ROUTE_ACCEPTED, status=True, finding=Finding(Reason.GATEWAY_ACCEPTED, "taken")
)
REFUSED = dataclasses.replace(
    TAKEN, status=False, finding=Finding(Reason.GATEWAY_REFUSED, "no such port")
)


def split(step: int, weight: int, since: str = SINCE, **facts: Any) -> Split:
    of = dataclasses.replace(MODEL, **facts)
    return Split(of, CanaryProgress("new", step, weight, since), is_ready=True)


def replica(of: PodObserved, **facts: Any) -> Replica:
    """A replica of the new revision that does not serve, without a reason."""
    fallen = Replica(of, current=True, serving=False, model_ready=False, admitted=False)
    return dataclasses.replace(fallen, **facts)


def seen(**entry: Any) -> Observed:
    return Observed(status={"replicaStatuses": [{"pod": "p", **entry}]})


def test_a_service_that_selects_all_pods_has_no_split() -> None:
    every = Arrangement(Release("new", MODEL, {}, "digits"), selected="")

    assert make_split(COURSE, every, Observed(available_kinds=frozenset({"HTTPRoute"}))) is None


def test_a_canary_beyond_the_edited_steps_gets_all_requests() -> None:
    after = advance(split(9, 70), TAKEN, serves=True, now=NOW)

    assert after == CanaryProgress("new", 3, 100)


def test_an_approval_after_the_last_step_changes_nothing() -> None:
    rollout = dataclasses.replace(MODEL.rollout, promote="new")
    last = split(3, 100, rollout=rollout)

    assert advance(last, TAKEN, serves=True, now=NOW) == last.progress


@pytest.mark.parametrize(("passed", "left"), [(59, 1), (60, None), (61, None)])
def test_a_pause_has_seconds_left_until_it_is_over(passed: int, left: float | None) -> None:
    assert seconds_left(split(2, 50), NOW + timedelta(seconds=passed)) == left


def test_there_is_no_pause_before_the_first_step() -> None:
    assert seconds_left(split(0, 0), NOW) is None


@pytest.mark.parametrize(
    ("of", "route", "reason", "facts"),
    [
        (split(0, 0, ""), TAKEN, Reason.ROLLING_OUT, ["0 percent"]),
        (
            split(1, 20),
            TAKEN,
            Reason.AWAITING_APPROVAL,
            ["20 percent", "step 1 of 2", "spec.rollout.promote to new/1", "to new for all"],
        ),
        (
            split(2, 50),
            TAKEN,
            Reason.ROLLING_OUT,
            ["50 percent", "step 2 of 2", "until 2026-03-04T05:07:07Z"],
        ),
        (
            split(2, 50),
            REFUSED,
            Reason.ROLLING_OUT,
            ["50 percent", "step 2 of 2", "waiting: no such port"],
        ),
        (split(3, 100), TAKEN, Reason.ROLLING_OUT, ["100 percent"]),
    ],
)
def test_the_progress_of_a_canary_shows_its_share_step_and_obstacle(
    of: Split, route: Condition, reason: Reason, facts: list[str]
) -> None:
    found = describe_progress(of, route, "")

    assert found.reason is reason
    assert found.message.startswith("canary new ")
    assert all(fact in found.message for fact in facts)
    assert ("step" in found.message) is (len(facts) > 1)
    assert ("; " in found.message) is (len(facts) > 2 and "until" not in facts[2])


def test_the_last_step_has_no_remaining_ones_to_approve() -> None:
    canary = dataclasses.replace(MODEL.rollout.canary, steps=MODEL.rollout.canary.steps[:1])
    last = split(1, 20, rollout=dataclasses.replace(MODEL.rollout, canary=canary))

    message = describe_progress(last, TAKEN, "").message

    assert message.endswith("step 1 of 1; to approve this step, set spec.rollout.promote to new/1")


@pytest.mark.parametrize(
    ("promote", "named"),
    [("", ""), ("new", ""), ("new/1", ""), ("good", ""), ("odd", "odd"), ("odd/1", "odd")],
)
def test_a_promotion_that_is_not_of_this_canary_is_named(promote: str, named: str) -> None:
    of = split(2, 50, rollout=dataclasses.replace(MODEL.rollout, promote=promote))

    message = describe_progress(of, TAKEN, "good").message

    assert message.startswith("canary new receives 50 percent")
    assert (f"; spec.rollout.promote names {named}, which" in message) is bool(named)
    assert ("promote names" in message) is bool(named)


YOUNG = pod("p", "new", ready=False, unready_message="unready", created=NOW)
OLDER = dataclasses.replace(YOUNG, created=NOW - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("entry", "stops"),
    [
        ({"ready": True, "modelReady": True}, True),
        ({"ready": True, "modelReady": False}, False),
        ({"ready": False, "modelReady": True}, False),
        ({}, False),
    ],
)
def test_a_new_replica_has_served_if_the_status_says_so(
    entry: dict[str, bool], stops: bool
) -> None:
    found = stopped(split(1, 20), [replica(YOUNG)], seen(**entry))

    assert (found is not None) is stops


STARTS = dataclasses.replace(OLDER, runtime=running(started=False, ready=False))
RESTARTS = dataclasses.replace(OLDER, runtime=running(started=False, restart_count=1))


@pytest.mark.parametrize(
    ("of", "stops"), [(OLDER, True), (RESTARTS, True), (STARTS, False), (YOUNG, False)]
)
def test_a_replica_that_started_before_the_step_has_served(of: PodObserved, stops: bool) -> None:
    found = stopped(split(1, 20), [replica(of)], Observed())

    assert (found is not None) is stops


def test_no_replica_has_served_during_a_step_that_has_not_begun() -> None:
    assert stopped(split(1, 20, since=""), [replica(OLDER)], Observed()) is None


@pytest.mark.parametrize(
    ("facts", "stops"),
    [
        ({"ready_since": NOW}, False),
        ({"ready_since": NOW, "runtime": running(restart_count=1)}, True),
        ({"ready_since": NOW - timedelta(seconds=1)}, True),
        ({"ready_since": None}, True),
        ({"ready_since": NOW, "ready": False}, True),
    ],
)
def test_a_replica_that_became_ready_during_the_step_has_not_served(
    facts: dict[str, Any], stops: bool
) -> None:
    ready = dataclasses.replace(OLDER, **{"ready": True, "unready_message": "", **facts})
    asked = dataclasses.replace(said(ready)[ready.uid], model_ready=no(AnswerReason.LOADING))

    found = stopped(split(1, 20), [replica(ready, result=asked)], Observed())

    assert (found is not None) is stops


STARTED = NOW - timedelta(minutes=1)


@pytest.mark.parametrize(
    ("facts", "stops"),
    [
        ({"ready_since": STARTED}, False),
        ({"ready_since": STARTED - timedelta(seconds=1)}, False),
        ({"ready_since": STARTED + timedelta(seconds=1)}, True),
        ({"ready_since": STARTED, "ready": True, "unready_message": ""}, True),
        ({"ready_since": STARTED, "runtime": running(running_since=None)}, True),
        ({"ready_since": STARTED, "runtime": running(restart_count=1)}, True),
    ],
)
def test_a_replica_that_waits_for_its_first_gate_has_not_served(
    facts: dict[str, Any], stops: bool
) -> None:
    waits = dataclasses.replace(OLDER, **facts)
    asked = dataclasses.replace(said(waits)[waits.uid], model_ready=no(AnswerReason.LOADING))

    found = stopped(split(1, 20), [replica(waits, result=asked)], Observed())

    assert (found is not None) is stops


@pytest.mark.parametrize("facts", [{}, {"gated": True, "gate_open": True}])
def test_a_replica_of_a_failed_node_has_not_stopped(facts: dict[str, bool]) -> None:
    lost = dataclasses.replace(OLDER, unready_message="", **facts)
    asked = dataclasses.replace(said(lost)[lost.uid], model_ready=no(AnswerReason.LOADING))

    assert stopped(split(1, 20), [replica(lost)], Observed()) is None
    assert stopped(split(1, 20), [replica(lost, result=asked)], Observed()) is not None


def test_a_canary_stops_with_the_finding_of_its_replica() -> None:
    crashed = Finding(Reason.CRASH_LOOP_BACK_OFF, "it crashes")

    plain = stopped(split(1, 20), [replica(OLDER)], Observed())
    blamed = stopped(split(1, 20), [replica(OLDER, workload=crashed)], Observed())

    assert plain
    assert plain.reason is Reason.POD_NOT_READY
    assert plain.message.endswith(" at step 1: pod p")
    assert blamed
    assert blamed.reason is Reason.CRASH_LOOP_BACK_OFF
    assert blamed.message.endswith(" at step 1: it crashes")


def test_a_replica_that_serves_stops_nothing() -> None:
    serving = replica(OLDER, serving=True, result=said(OLDER)[OLDER.uid])

    assert stopped(split(1, 20), [serving], Observed()) is None


@pytest.mark.parametrize(
    ("admitted", "gated", "runs", "stops"),
    [
        (True, True, True, False),
        (False, True, True, True),
        (True, False, True, True),
        (True, True, False, True),
    ],
)
def test_a_replica_that_only_waits_for_its_gate_has_not_stopped(
    admitted: bool, gated: bool, runs: bool, stops: bool
) -> None:
    container = dataclasses.replace(OLDER.runtime, ready=runs)
    of = dataclasses.replace(OLDER, gated=gated, runtime=container)
    waiting = replica(of, admitted=admitted, model_ready=True, result=said(of)[of.uid])

    assert (stopped(split(1, 20), [waiting], Observed()) is not None) is stops
