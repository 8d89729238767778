"""When a revision is given up: what counts as no progress, for how long, and with which cause."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.decide.rollout.course import Course, give_up, is_stuck, until_definite
from moorage_operator.values.objects import DeploymentCondition
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Rejection, Revisions
from support.operator_values import NOW, deployment, model, pending, pod, said

MODEL = model()
STUCK = DeploymentCondition(
    "Progressing", status=False, reason="ProgressDeadlineExceeded", updated=NOW
)
LATE = Observed(deployment=deployment(revision="new", conditions=(STUCK,)))
IN_TIME = Observed(deployment=deployment(revision="new"))
SECOND = timedelta(seconds=1)


def replica(name: str = "p", finding: Finding | None = None, **facts: Any) -> Replica:
    """A current replica that runs, was polled and does not serve."""
    of = facts.pop("of", pod(name, MODEL, ready=False, ready_since=None))
    asked = Replica(
        of,
        current=True,
        serving=False,
        model_ready=False,
        admitted=False,
        model=finding,
        result=said(of)[of.uid],
    )
    return replace(asked, **facts)


# ------------------------------------------------------------------ no progress


@pytest.mark.parametrize(
    ("observed", "expected"),
    [
        (LATE, True),
        (Observed(), False),
        (IN_TIME, False),
        (Observed(deployment=deployment(conditions=(STUCK,), generation=2)), False),
        (Observed(deployment=deployment(conditions=(replace(STUCK, reason="R"),))), False),
    ],
)
def test_a_rollout_is_stuck_if_the_controller_reports_it(
    observed: Observed, *, expected: bool
) -> None:
    assert is_stuck(observed, ()) is expected
    assert is_stuck(observed, [replica()]) is expected


GATED: dict[str, Any] = {"ready": False, "gated": True, "gate_open": None}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (replica(result=None), False),
        (replica(result=None, current=False), True),
        (replica(result=None, of=pending("p", MODEL)), True),
        (replica(admitted=True, of=pod("p", MODEL, **GATED)), False),
        (replica(admitted=True, of=pod("p", MODEL, **GATED), current=False), True),
        (replica(admitted=True, of=pod("p", MODEL, **{**GATED, "gate_open": True})), True),
        (replica(admitted=True, of=pod("p", MODEL, ready=False)), True),
        (replica(admitted=False, of=pod("p", MODEL, **GATED)), True),
    ],
)
def test_replicas_that_wait_for_the_operator_are_not_stuck(
    found: Replica, *, expected: bool
) -> None:
    assert is_stuck(LATE, [replica(), found]) is expected


@pytest.mark.parametrize(
    ("ready_since", "serving", "updated", "expected"),
    [
        (NOW, True, NOW, False),
        (NOW + SECOND, True, NOW, False),
        (NOW - SECOND, True, NOW, True),
        (NOW + SECOND, False, NOW, True),
        (None, True, NOW, True),
        (NOW, True, None, True),
    ],
)
def test_a_replica_that_serves_since_the_report_is_progress(
    ready_since: datetime | None, updated: datetime | None, *, serving: bool, expected: bool
) -> None:
    condition = replace(STUCK, updated=updated)
    observed = Observed(deployment=deployment(conditions=(condition,)))
    of = pod("p", MODEL, ready_since=ready_since)

    assert is_stuck(observed, [replica(of=of, serving=serving)]) is expected


# ------------------------------------------------------------------ the cause


REVISIONS = Revisions(current="new", last_good="good")


def course(of: InferenceModel = MODEL, **facts: Any) -> Course:
    return Course(replace(REVISIONS, **facts), "new", of, {})


FAILED = Finding(Reason.MODEL_LOAD_FAILED, "bad file")
LOADING = Finding(Reason.MODEL_LOADING, "40 %")
SILENT = Finding(Reason.SERVER_NOT_LIVE, "it does not listen")


def entries(*names: str, since: datetime) -> dict[str, Any]:
    """A status with replicas that cannot load the model."""
    moment = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = [{"pod": name, "reason": "ModelLoadFailed", "since": moment} for name in names]
    return {"replicaStatuses": found}


def test_a_rejection_names_the_revision_the_time_and_the_cause() -> None:
    assert give_up(course(), LATE, [replica(finding=LOADING)], None, now=NOW) == Rejection(
        "new", "ModelLoading", "40 %", "2026-03-04T05:06:07Z"
    )


@pytest.mark.parametrize(
    ("replicas", "blamed", "stopped", "reason", "message"),
    [
        ([replica(finding=LOADING)], SILENT, FAILED, FAILED.reason, FAILED.message),
        ([replica(finding=LOADING)], SILENT, None, LOADING.reason, LOADING.message),
        (
            [replica(finding=LOADING), replica(finding=SILENT)],
            None,
            None,
            SILENT.reason,
            "it does not listen (and 1 more not ready)",
        ),
        ([replica(finding=LOADING, current=False)], SILENT, None, SILENT.reason, SILENT.message),
        (
            [replica()],
            None,
            None,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            "no further replica started to serve within 900 s",
        ),
    ],
)
def test_the_most_telling_cause_is_recorded(
    replicas: list[Replica],
    blamed: Finding | None,
    stopped: Finding | None,
    reason: Reason,
    message: str,
) -> None:
    rejection = give_up(course(), LATE, replicas, blamed, now=NOW, stopped=stopped)

    assert rejection
    assert (rejection.reason, rejection.message) == (reason, message)


def test_a_canary_that_stopped_is_given_up_before_its_deadline() -> None:
    assert give_up(course(), IN_TIME, [replica()], None, now=NOW) is None
    assert give_up(course(), IN_TIME, [replica()], None, now=NOW, stopped=FAILED)


# ------------------------------------------------------------------ definite failures


@pytest.mark.parametrize(("lasted", "left"), [(0, 15.0), (14, 1.0), (15, None), (16, None)])
def test_a_failure_is_definite_after_the_failure_threshold(
    lasted: int, left: float | None
) -> None:
    status = entries("p", since=NOW - lasted * SECOND)
    observed = replace(IN_TIME, status=status)
    broken = [replica(finding=FAILED)]

    rejection = give_up(course(), observed, broken, None, now=NOW)

    assert (rejection is not None) == (left is None)
    assert until_definite(course(), observed, broken, now=NOW) == left


def test_the_threshold_is_that_of_the_spec() -> None:
    of = model(health={"failureThreshold": 4, "periodSeconds": 10})
    broken = [replica(finding=FAILED)]

    assert until_definite(course(of), IN_TIME, broken, now=NOW) == 40.0


def test_only_failures_of_the_revision_count() -> None:
    """Others may resolve by themselves, or belong to pods that go away."""
    for each in (replica(finding=LOADING), replica(), replica(finding=FAILED, current=False)):
        assert until_definite(course(), IN_TIME, [each], now=NOW) is None


def test_a_replica_without_a_failure_does_not_hide_that_of_another() -> None:
    replicas = [replica("a"), replica("b", FAILED), replica("c", FAILED)]
    observed = replace(IN_TIME, status=entries("c", since=NOW - 5 * SECOND))

    assert until_definite(course(), observed, replicas, now=NOW) == 10.0
    late = give_up(course(), observed, replicas, None, now=NOW + 10 * SECOND)
    assert late
    assert late.message == "bad file"


REJECTED = Rejection("new", "ModelLoadFailed", "m", "2026-03-04T05:06:07Z")


@pytest.mark.parametrize(
    ("of", "facts", "observed"),
    [
        (MODEL, {"last_good": ""}, LATE),
        (MODEL, {"last_good": "new"}, LATE),
        (model(replicas=0), {}, LATE),
        (MODEL, {}, replace(LATE, deployment=None)),
        (MODEL, {}, replace(LATE, deployment=deployment(revision="good", conditions=(STUCK,)))),
    ],
    ids=["nothing served", "it served", "no replica is wanted", "no Deployment", "not applied"],
)
def test_only_a_revision_that_replaces_another_is_given_up(
    of: InferenceModel, facts: dict[str, Any], observed: Observed
) -> None:
    broken = [replica(finding=FAILED)]

    assert give_up(course(of, **facts), observed, broken, None, now=NOW) is None
    assert until_definite(course(of, **facts), observed, broken, now=NOW) is None


def test_a_revision_is_given_up_once() -> None:
    rejected = course(rejected=REJECTED)

    assert give_up(rejected, LATE, [replica(finding=LOADING)], None, now=NOW + SECOND) is REJECTED
    assert until_definite(rejected, IN_TIME, [replica(finding=FAILED)], now=NOW) is None


# ------------------------------------------------------------------ spec.rollout.abort


ABORTING = model(rollout={"abort": "new"})
ABORTED = Rejection(
    "new", "RolloutAborted", "spec.rollout.abort names revision new", "2026-03-04T05:06:07Z"
)


@pytest.mark.parametrize(
    ("of", "facts", "expected"),
    [
        (ABORTING, {}, ABORTED),
        (ABORTING, {"rejected": REJECTED}, ABORTED),
        (
            ABORTING,
            {"rejected": replace(ABORTED, time="earlier")},
            replace(ABORTED, time="earlier"),
        ),
        (ABORTING, {"last_good": ""}, None),
        (model(rollout={"abort": "other"}), {}, None),
        (MODEL, {}, None),
    ],
)
def test_a_revision_that_the_spec_aborts_is_given_up_at_once(
    of: InferenceModel, facts: dict[str, Any], expected: Rejection | None
) -> None:
    assert give_up(course(of, **facts), IN_TIME, [replica()], None, now=NOW) == expected
