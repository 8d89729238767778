"""The health check for Argo CD, run by a Lua interpreter on statuses that the operator writes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from lupa import lua51

from moorage_operator.api import conditions
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide.plan import status_of_deleted
from moorage_operator.decide.status.kstatus import reconciling_or_stalled
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.objects import DeploymentCondition
from moorage_operator.values.observed import Observed
from support.operator_values import (
    NOW,
    body,
    deployment,
    model,
    no,
    observed,
    pending,
    planned,
    said,
    serving,
    unready,
    with_service,
)

CHECK = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "argo-cd" / "health.lua"
# Argo CD runs Lua 5.1 and opens the basic functions, `package`, `table` and a part of `os`.
CLOSED = ("string", "math", "io", "debug", "coroutine", "python")

MODEL = model()
LATE = DeploymentCondition("Progressing", status=False, reason="ProgressDeadlineExceeded")


def check(resource: Mapping[str, Any]) -> tuple[str, str]:
    """Health and message of this resource."""
    lua = lua51.LuaRuntime()
    variables = lua.globals()
    for name in CLOSED:
        variables[name] = None
    variables["obj"] = lua.table_from(resource, recursive=True)
    found = dict(lua.execute(CHECK.read_text()))
    assert found.keys() == {"status", "message"}
    assert found["message"]
    return found["status"], found["message"]


def resource(seen: Observed, **spec: Any) -> dict[str, Any]:
    """An InferenceModel with the status that the operator plans for what it observed."""
    made = body(**spec)
    return {**made, "status": planned(parse(made), seen).status}


def answered(reason: AnswerReason) -> Observed:
    """A container that runs, has not started, and whose server gives this answer."""
    of = unready("p", MODEL)
    return observed(of, probes=said(of, no(reason, "broken")))


@pytest.mark.parametrize(
    ("seen", "spec", "expected"),
    [
        (serving(MODEL), {}, ("Healthy", "1 of 1 replicas serve the model")),
        (observed(), {"replicas": 0}, ("Healthy", "spec.replicas is 0; scale up to serve")),
        (
            observed(),
            {"suspend": True},
            ("Suspended", "spec.suspend is true; set it to false to serve"),
        ),
        (
            with_service(serving(MODEL), MODEL),
            {"paused": True},
            ("Healthy", "1 of 1 replicas serve the model"),
        ),
    ],
)
def test_a_settled_model_has_the_message_of_ready(
    seen: Observed, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert check(resource(seen, **spec)) == expected


def test_an_edit_of_a_paused_model_is_suspended() -> None:
    status, message = check(resource(serving(MODEL), paused=True, replicas=2))

    assert status == "Suspended"
    assert "spec.paused is true" in message


@pytest.mark.parametrize(
    ("seen", "spec"),
    [
        (Observed(), {}),
        (observed(pending("p", MODEL)), {}),
        (answered(AnswerReason.LOADING), {}),
        (serving(MODEL), {"replicas": 2}),
        (serving(MODEL), {"suspend": True}),
    ],
    ids=["nothing exists", "a pod starts", "the model loads", "one of two", "pods still run"],
)
def test_a_rollout_is_progressing(seen: Observed, spec: dict[str, Any]) -> None:
    status, message = check(resource(seen, **spec))

    assert status == "Progressing"
    assert "replicas of this spec serve" in message


@pytest.mark.parametrize(
    ("seen", "spec", "message"),
    [
        (answered(AnswerReason.LOAD_FAILED), {}, "broken"),
        (
            observed(pending("p", MODEL), deployment=deployment(conditions=(LATE,))),
            {},
            "0 of 1 replicas of this spec serve",
        ),
        (Observed(), {"replicas": "many"}, "spec.replicas"),
        (observed(), {"replicas": "many", "suspend": True}, "spec.replicas"),
    ],
)
def test_a_model_that_needs_an_edit_is_degraded(
    seen: Observed, spec: dict[str, Any], message: str
) -> None:
    status, found = check(resource(seen, **spec))

    assert status == "Degraded"
    assert message in found


def test_a_model_without_a_status_waits_for_the_operator() -> None:
    assert check(body()) == ("Progressing", "Waiting for the operator to process this spec.")


@pytest.mark.parametrize("seen", [serving(MODEL), answered(AnswerReason.LOAD_FAILED)])
def test_the_status_of_an_earlier_spec_is_not_used(seen: Observed) -> None:
    edited = resource(seen)
    edited["metadata"]["generation"] += 1

    assert check(edited) == ("Progressing", "Waiting for the operator to process this spec.")


def told(ready: Condition, up_to_date: Condition) -> dict[str, Any]:
    """An InferenceModel of whose status only these conditions, and what follows, matter."""
    found = (ready, up_to_date, *reconciling_or_stalled(up_to_date, None))
    written = conditions.written(found, {}, generation=1, now=NOW)
    return {**body(), "status": {"observedGeneration": 1, "conditions": written}}


def ready(reason: Reason, *, status: bool | None) -> Condition:
    return Condition(ConditionType.READY, status, Finding(reason, f"ready: {reason}"))


def up_to_date(reason: Reason, *, status: bool = False) -> Condition:
    finding = Finding(reason, f"up to date: {reason}")
    return Condition(ConditionType.UP_TO_DATE, status, finding)


SERVES = ready(Reason.SERVING, status=True)
EARLIER = ready(Reason.SERVING_PREVIOUS_REVISION, status=True)
COMPLETE = up_to_date(Reason.ROLLOUT_COMPLETE, status=True)


@pytest.mark.parametrize(
    ("of_ready", "of_up_to_date", "expected"),
    [
        (SERVES, COMPLETE, "Healthy"),
        (SERVES, up_to_date(Reason.OPERATOR_UPDATE_PENDING), "Healthy"),
        (ready(Reason.SCALED_TO_ZERO, status=False), COMPLETE, "Healthy"),
        (ready(Reason.CRASH_LOOP_BACK_OFF, status=False), COMPLETE, "Progressing"),
        (ready(Reason.OPERATOR_CUT_OFF, status=None), COMPLETE, "Progressing"),
        (EARLIER, up_to_date(Reason.ROLLING_OUT), "Progressing"),
        (EARLIER, up_to_date(Reason.AWAITING_APPROVAL), "Suspended"),
        (EARLIER, up_to_date(Reason.ROLLED_BACK), "Degraded"),
        (EARLIER, up_to_date(Reason.ROLLOUT_PAUSED), "Degraded"),
    ],
    ids=lambda of: of if isinstance(of, str) else of.finding.reason,
)
def test_ready_and_up_to_date_decide(
    of_ready: Condition, of_up_to_date: Condition, expected: str
) -> None:
    assert check(told(of_ready, of_up_to_date))[0] == expected


def test_a_model_that_is_being_deleted_is_progressing() -> None:
    before = resource(observed())
    status = status_of_deleted(before["status"], generation=1, now=NOW)

    health, message = check({**before, "status": status})

    assert (health, "being deleted" in message) == ("Progressing", True)
