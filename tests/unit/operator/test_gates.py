"""Readiness gates: which are opened and shut, and how they are written."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator import observe
from moorage_operator.apply import Applier
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.state import AnswerReason, PodGate
from moorage_operator.store import Store
from support.operator_values import (
    YES,
    condition,
    model,
    no,
    observed,
    planned,
    pod,
    said,
    unready,
    verdict,
)

OF = model(transport="GRPC", runtime={"image": "other:1"})


def gates(answer, *, gated=True, gate_open=None, of=OF, **facts):
    one = pod("p", OF, gated=gated, gate_open=gate_open, **facts)
    return planned(of, observed(one, probes=said(one, answer))).gates


@pytest.mark.parametrize(
    ("answer", "before", "after"),
    [
        (YES, None, True),
        (YES, False, True),
        (YES, True, None),
        (no(AnswerReason.LOADING), None, None),
        (no(AnswerReason.LOADING), False, None),
        (no(AnswerReason.LOADING), True, False),
    ],
)
def test_a_gate_follows_the_models_answer_and_is_written_when_it_changes(answer, before, after):
    written = gates(answer, gate_open=before)

    assert [gate.is_open for gate in written] == ([] if after is None else [after])


def test_a_pod_without_a_gate_gets_none():
    assert gates(YES, gated=False) == ()


def test_a_restarted_container_shuts_the_gate_until_it_has_answered():
    before = pod("p", OF, gated=True, gate_open=True)
    status = planned(OF, observed(before, probes=said(before))).status
    again = replace(before.runtime, container_id="containerd://second", restart_count=1)

    plan = planned(OF, observed(replace(before, runtime=again), status=status))

    assert [(gate.pod, gate.is_open) for gate in plan.gates] == [("p", False)]


def test_an_operator_that_restarts_leaves_gates_as_they_are():
    before = pod("p", OF, gated=True, gate_open=True)
    status = planned(OF, observed(before, probes=said(before))).status

    assert planned(OF, observed(before, status=status)).gates == ()


def test_the_gates_of_an_earlier_revision_are_left():
    old = pod("p", "earlier", gated=True, gate_open=True)

    assert planned(OF, observed(old)).gates == ()


def test_a_pod_that_waits_for_its_gate_says_so():
    one = unready("p", OF, gated=True)

    plan = planned(OF, observed(one, probes=said(one)))

    assert verdict(plan) == ("False", "PodNotReady")
    assert "readiness gate is not open yet" in condition(plan, "Ready")["message"]


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [([], None), (["True"], True), (["False"], False), (["Unknown"], None)],
)
def test_a_gate_is_observed(conditions, expected):
    body: dict[str, Any] = {
        "metadata": {
            "name": "p",
            "uid": "u",
            "namespace": "ns",
            "creationTimestamp": "2026-03-04T05:06:07Z",
        },
        "spec": {"readinessGates": [{"conditionType": "moorage.dev/model-ready"}]},
        "status": {
            "conditions": [
                {"type": "moorage.dev/model-ready", "status": each} for each in conditions
            ]
        },
    }

    seen = observe.pod(body)
    plain = observe.pod({**body, "spec": {"readinessGates": [{"conditionType": "other"}]}})

    assert (seen.gated, seen.gate_open) == (True, expected)
    assert not plain.gated


class Pods:
    """The API's side of a gate."""

    def __init__(self, error: errors.ApiError | None = None) -> None:
        self.error = error
        self.written: list[dict[str, Any]] = []

    async def apply(self, kind: Kind, body: dict[str, Any], *, field_manager: str) -> Any:
        assert (kind, field_manager) == (kinds.POD_STATUS, "moorage-status")
        if self.error:
            raise self.error
        self.written.append(body)
        return body


def applier(pods: Pods, wrote: list[str]) -> tuple[Applier, Any]:
    store = Store(changed=lambda _: None, pod_moved=lambda _: None)
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    store.put_model({"metadata": metadata, "spec": {}})
    (record,) = store.models()
    made = Applier(pods, store, {}, wrote=wrote.append, clock=lambda: 0.0)  # type: ignore[arg-type]
    return made, record


GATE = PodGate("p", "uid-p", is_open=True, reason="ModelReady", since="2026-03-04T05:06:07Z")


async def test_a_gate_is_a_condition_of_the_pod_alone():
    pods, wrote = Pods(), []
    made, record = applier(pods, wrote)

    await made.write_gates(record, (GATE,))

    (body,) = pods.written
    assert body["metadata"] == {"name": "p", "namespace": "ns", "uid": "uid-p"}
    assert body["status"] == {
        "conditions": [
            {
                "type": "moorage.dev/model-ready",
                "status": "True",
                "reason": "ModelReady",
                "lastTransitionTime": "2026-03-04T05:06:07Z",
            }
        ]
    }
    assert wrote == ["Pod"]


@pytest.mark.parametrize(
    "error", [errors.NotFound("gone", code=404), errors.Conflict("uid", code=409)]
)
async def test_the_gate_of_a_pod_that_is_gone_is_forgotten(error):
    wrote: list[str] = []
    made, record = applier(Pods(error), wrote)

    await made.write_gates(record, (GATE,))

    assert wrote == []


async def test_a_gate_that_may_not_be_written_is_tried_again():
    made, record = applier(Pods(errors.Forbidden("no", code=403)), [])

    with pytest.raises(errors.Forbidden):
        await made.write_gates(record, (GATE,))
