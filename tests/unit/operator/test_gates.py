"""Readiness gates: which are opened and shut, and how they are written."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator import observe
from moorage_operator.answers import AnswerReason, TensorInfo
from moorage_operator.existence import Existence
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.planned import PodGate
from moorage_operator.state import ObjectKey
from moorage_operator.status_writes import StatusWriter
from support.operator_values import (
    DIGITS,
    YES,
    condition,
    deaf_store,
    model,
    no,
    observed,
    planned,
    pod,
    running,
    said,
    silence,
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


ENFORCED = model(
    replicas=2,
    contract={"policy": "Enforce", "inputs": [{"name": "image", "datatype": "FP32"}]},
)
OTHER = replace(DIGITS, outputs=(TensorInfo("label", "INT32", (-1,)),))
BROKEN = replace(DIGITS, inputs=(TensorInfo("image", "FP64", (-1, 8, 8)),))


@pytest.mark.parametrize("gate_open", [None, False, True])
@pytest.mark.parametrize(
    ("metadata", "opens"),
    [
        pytest.param(DIGITS, True, id="kept"),
        pytest.param(BROKEN, False, id="broken"),
        pytest.param(None, None, id="not told yet"),
    ],
)
def test_an_enforced_contract_holds_the_gate(metadata, opens, gate_open):
    one = pod("p", ENFORCED, gated=True, gate_open=gate_open)
    plan = planned(ENFORCED, observed(one, probes=said(one, model=metadata)))

    expected = bool(gate_open) if opens is None else opens
    changes = [] if expected is bool(gate_open) else [expected]
    assert [gate.is_open for gate in plan.gates] == changes


def test_a_contract_that_keeps_the_gate_shut_is_the_reason_and_not_the_gate():
    of = replace(ENFORCED, replicas=1)
    one = unready("p", of, gated=True, runtime=running())

    plan = planned(of, observed(one, probes=said(one, model=BROKEN)))

    assert plan.gates == ()
    assert verdict(plan) == ("False", "DatatypeMismatch")


def test_a_newcomer_that_disagrees_is_kept_out_and_turns_nobody_out():
    inside = pod("a", ENFORCED, gated=True, gate_open=True)
    newcomer = unready("b", ENFORCED, gated=True, runtime=running())
    answers = {**said(inside), **said(newcomer, model=OTHER)}

    plan = planned(ENFORCED, observed(inside, newcomer, probes=answers))

    assert plan.gates == ()
    assert verdict(plan, "MetadataMatched") == ("False", "ReplicasDisagree")
    assert plan.status["replicaSummary"] == "1/2"


def test_silence_shuts_no_gate_while_nobody_answers():
    first, second = (pod(name, OF, gated=True, gate_open=True) for name in "ab")
    quiet = said(first, silence(AnswerReason.TIMED_OUT), consecutive_unknown=9)["uid-a"]
    of_second = replace(quiet, pod_uid="uid-b")

    nobody = observed(first, second, probes={"uid-a": quiet, "uid-b": of_second})
    somebody = observed(first, second, probes={"uid-a": quiet, **said(second)})

    assert planned(OF, nobody).gates == ()
    assert [gate.pod for gate in planned(OF, somebody).gates] == ["a"]


def test_a_replica_beyond_those_that_the_status_lists_stays_in_when_the_operator_restarts():
    of = replace(OF, replicas=40)
    pods = [pod(f"p{index:02}", of, gated=True, gate_open=True) for index in range(40)]
    answers = {uid: result for each in pods for uid, result in said(each).items()}
    status = planned(of, observed(*pods, probes=answers)).status
    assert status["omittedReplicas"] == 8

    restarted = planned(of, observed(*pods, status=status))

    assert restarted.gates == ()
    assert restarted.status == status


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


def writer(pods: Pods, wrote: list[str]) -> tuple[StatusWriter, Any]:
    store = deaf_store()
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    store.put_model({"metadata": metadata, "spec": {}})
    record = store.model(ObjectKey("ns", "iris"))
    made = StatusWriter(pods, store, Existence(lambda: 0.0), wrote=wrote.append)  # type: ignore[arg-type]
    return made, record


GATE = PodGate("p", "uid-p", is_open=True, reason="ModelReady", since="2026-03-04T05:06:07Z")


async def test_a_gate_is_a_condition_of_the_pod_alone():
    pods, wrote = Pods(), []
    made, record = writer(pods, wrote)

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
    made, record = writer(Pods(error), wrote)

    await made.write_gates(record, (GATE,))

    assert wrote == []


async def test_a_gate_that_may_not_be_written_is_tried_again():
    made, record = writer(Pods(errors.Forbidden("no", code=403)), [])

    with pytest.raises(errors.Forbidden):
        await made.write_gates(record, (GATE,))
