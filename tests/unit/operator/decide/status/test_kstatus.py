"""The conditions Reconciling and Stalled for kstatus."""

import pytest

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.decide.status.kstatus import reconciling_or_stalled
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import ContainerObserved, DeploymentCondition
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import Plan
from support.operator_values import (
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    said,
    serving,
    unready,
)

MODEL = model()


def up_to_date(reason: Reason, *, status: bool | None = False) -> Condition:
    return Condition(ConditionType.UP_TO_DATE, status, Finding(reason, f"up to date: {reason}"))


def blame(reason: Reason) -> Finding:
    return Finding(reason, f"blamed: {reason}")


ROLLING_OUT = up_to_date(Reason.ROLLING_OUT)
COMPLETE = up_to_date(Reason.ROLLOUT_COMPLETE, status=True)
PENDING_UPDATE = up_to_date(Reason.OPERATOR_UPDATE_PENDING)
PAUSED = up_to_date(Reason.ROLLOUT_PAUSED)


@pytest.mark.parametrize(
    ("of", "blamed", "type_", "finding"),
    [
        (PAUSED, None, "Stalled", PAUSED.finding),
        (PAUSED, blame(Reason.INVALID_SPEC), "Stalled", PAUSED.finding),
        (COMPLETE, blame(Reason.INVALID_SPEC), "Stalled", blame(Reason.INVALID_SPEC)),
        (ROLLING_OUT, blame(Reason.APPLY_REFUSED), "Stalled", blame(Reason.APPLY_REFUSED)),
        (COMPLETE, blame(Reason.APPLY_FAILED), "Reconciling", blame(Reason.APPLY_FAILED)),
        (ROLLING_OUT, blame(Reason.MODEL_LOADING), "Reconciling", ROLLING_OUT.finding),
        (ROLLING_OUT, None, "Reconciling", ROLLING_OUT.finding),
    ],
)
def test_the_condition_has_the_finding_of_its_cause(
    of: Condition, blamed: Finding | None, type_: str, finding: Finding
) -> None:
    expected = (Condition(ConditionType(type_), status=True, finding=finding),)

    assert reconciling_or_stalled(of, blamed) == expected


@pytest.mark.parametrize("of", [COMPLETE, PENDING_UPDATE])
@pytest.mark.parametrize("blamed", [None, blame(Reason.MODEL_LOADING)])
def test_a_complete_rollout_has_neither_condition(of: Condition, blamed: Finding | None) -> None:
    assert reconciling_or_stalled(of, blamed) == ()


def progress(plan: Plan) -> list[tuple[str, str]]:
    return [
        (each["type"], each["reason"])
        for each in plan.status["conditions"]
        if each["type"] in {"Reconciling", "Stalled"}
    ]


def bad(reason: AnswerReason) -> Observed:
    of = unready("p", MODEL)
    return observed(of, probes=said(of, no(reason, "broken")))


NO_IMAGE = ContainerObserved("runtime", waiting_reason="InvalidImageName")


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (planned(MODEL, serving(MODEL)), []),
        (planned(model(suspend=True), observed()), []),
        (planned(MODEL, Observed()), [("Reconciling", "RollingOut")]),
        (planned(MODEL, observed(pending("p", MODEL))), [("Reconciling", "RollingOut")]),
        (planned(MODEL, bad(AnswerReason.LOADING)), [("Reconciling", "RollingOut")]),
        (planned(MODEL, bad(AnswerReason.LOAD_FAILED)), [("Stalled", "ModelLoadFailed")]),
        (
            planned(MODEL, observed(pending("p", MODEL, runtime=NO_IMAGE))),
            [("Stalled", "InvalidImageName")],
        ),
        (planned(model(replicas="many"), Observed()), [("Stalled", "InvalidSpec")]),
    ],
)
def test_a_spec_is_reconciling_or_stalled_or_neither(
    plan: Plan, expected: list[tuple[str, str]]
) -> None:
    assert progress(plan) == expected


def test_a_rollout_without_progress_is_stalled() -> None:
    late = DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded")
    stuck = observed(pending("p", MODEL), deployment=deployment(conditions=(late,)))

    plan = planned(MODEL, stuck)

    assert progress(plan) == [("Stalled", "ProgressDeadlineExceeded")]
