"""The health check for Flux, evaluated as CEL on statuses that the operator writes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import celpy
import pytest
import yaml

from moorage_operator.api import conditions
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide.status.kstatus import reconciling_or_stalled
from moorage_operator.values.answers import AnswerReason
from moorage_operator.values.observed import Observed
from support.operator_values import (
    NOW,
    body,
    model,
    no,
    observed,
    planned,
    said,
    serving,
    unready,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "flux.md"
EXAMPLE = ROOT / "examples" / "22-gitops" / "flux.yaml"
ORDER = (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current"))
"""Flux evaluates the expressions in this order; if none is true, the object is in progress."""

MODEL = model()


def kustomization(text: str) -> dict[str, Any]:
    (found,) = [
        each for each in yaml.safe_load_all(text) if each and each.get("kind") == "Kustomization"
    ]
    return found


CHECK = kustomization(EXAMPLE.read_text())["spec"]["healthCheckExprs"][0]


def health(status: Mapping[str, Any]) -> str:
    """The health of an object whose spec the status describes."""
    for field, name in ORDER:
        environment = celpy.Environment()
        program = environment.program(environment.compile(CHECK[field]))
        if program.evaluate({"status": celpy.json_to_cel(status)}):
            return name
    return "InProgress"


def planned_status(seen: Observed, **spec: Any) -> dict[str, Any]:
    return planned(parse(body(**spec)), seen).status


def load_failed() -> Observed:
    """A container that has not started, whose server reports that the model does not load."""
    of = unready("p", MODEL)
    return observed(of, probes=said(of, no(AnswerReason.LOAD_FAILED, "broken")))


def of_up_to_date(reason: Reason, *, status: bool = False) -> dict[str, Any]:
    """A status of which only UpToDate, and what follows from it, matters."""
    found = Condition(ConditionType.UP_TO_DATE, status, Finding(reason, "a message"))
    all_ = (found, *reconciling_or_stalled(found, None))
    return {"conditions": conditions.written(all_, {}, generation=1, now=NOW)}


def test_the_page_and_the_example_have_the_same_kustomization():
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

    assert kustomization(blocks[0]) == kustomization(EXAMPLE.read_text())
    assert (CHECK["apiVersion"], CHECK["kind"]) == ("moorage.dev/v1alpha1", "InferenceModel")


@pytest.mark.parametrize(
    ("seen", "spec", "expected"),
    [
        (serving(MODEL), {}, "Current"),
        (observed(), {"replicas": 0}, "Current"),
        (observed(), {"suspend": True}, "Current"),
        (Observed(), {}, "InProgress"),
        (serving(MODEL), {"replicas": 2}, "InProgress"),
        (load_failed(), {}, "Failed"),
        (observed(), {"replicas": "many"}, "Failed"),
        (serving(MODEL), {"paused": True, "replicas": 2}, "Failed"),
    ],
    ids=[
        "it serves",
        "no replicas",
        "suspended",
        "nothing exists",
        "one of two",
        "the model does not load",
        "an invalid spec",
        "an edit of a paused model",
    ],
)
def test_the_health_of_a_model(seen: Observed, spec: dict[str, Any], expected: str) -> None:
    assert health(planned_status(seen, **spec)) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (Reason.ROLLING_OUT, "InProgress"),
        (Reason.AWAITING_APPROVAL, "InProgress"),
        (Reason.OPERATOR_UPDATE_PENDING, "Current"),
        (Reason.ROLLED_BACK, "Failed"),
        (Reason.ROLLOUT_PAUSED, "Failed"),
        (Reason.ROLLOUT_ABORTED, "Failed"),
        (Reason.PROGRESS_DEADLINE_EXCEEDED, "Failed"),
    ],
)
def test_the_health_of_a_rollout(reason: Reason, expected: str) -> None:
    assert health(of_up_to_date(reason)) == expected
