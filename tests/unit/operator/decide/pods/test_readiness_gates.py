"""Readiness gates: when they open and close, and how they are written."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import ReadinessTarget
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.store import parse_objects
from moorage_operator.store.existence import Existence
from moorage_operator.values.answers import NOT_ASKED, AnswerReason, TensorInfo
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import PodGate
from moorage_operator.write.statuses import StatusWriter
from moorage_operator.write.turns import Turns
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
from support.recorded_turns import RecordedTurns

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


SHARED = replace(OF, health=replace(OF.health, readiness_target=ReadinessTarget.SERVER))


@pytest.mark.parametrize(
    ("server", "before", "after"),
    [
        (YES, False, True),
        (YES, True, None),
        (no(AnswerReason.NOT_READY), True, False),
        (no(AnswerReason.NOT_READY), False, None),
        # The server was not asked.
        (NOT_ASKED, True, None),
        (NOT_ASKED, False, None),
    ],
)
def test_the_gate_of_a_server_with_other_models_follows_the_server(server, before, after):
    one = pod("p", SHARED, gated=True, gate_open=before)
    probes = said(one, no(AnswerReason.MODEL_NOT_FOUND), ready=server)

    made = planned(SHARED, observed(one, probes=probes))

    assert [gate.is_open for gate in made.gates] == ([] if after is None else [after])
    assert all(gate.reason == "ServerReady" for gate in made.gates if gate.is_open)
    assert condition(made, "ModelReady")["status"] == "False"


def test_the_gate_of_a_server_with_other_models_stays_open_when_the_operator_restarts():
    one = pod("p", SHARED, gated=True, gate_open=True)
    seen = observed(one, probes=said(one, no(AnswerReason.MODEL_NOT_FOUND), ready=YES))
    before = replace(seen, status=planned(SHARED, seen).status, probes={})
    restarted = replace(one, runtime=running(restart_count=1))

    assert planned(SHARED, before).gates == ()
    (gate,) = planned(SHARED, replace(before, pods=(restarted,))).gates
    assert not gate.is_open


def test_an_enforced_contract_keeps_a_server_without_its_model_out():
    enforced = replace(ENFORCED, health=SHARED.health)
    one = pod("p", enforced, gated=True, gate_open=True)
    probes = said(one, no(AnswerReason.MODEL_NOT_FOUND), ready=YES)

    (gate,) = planned(enforced, observed(one, probes=probes)).gates

    assert not gate.is_open


def test_a_gate_has_the_pods_uid_a_reason_and_a_time():
    (opened,) = gates(YES)
    (shut,) = gates(no(AnswerReason.LOADING), gate_open=True)

    since = "2026-03-04T05:06:07Z"
    assert opened == PodGate("p", "uid-p", is_open=True, reason="ModelReady", since=since)
    assert shut == PodGate("p", "uid-p", is_open=False, reason="ModelNotReady", since=since)


def test_the_gate_of_a_ready_model_that_breaks_its_contract_says_not_admitted():
    one = pod("p", ENFORCED, gated=True, gate_open=True)

    (gate,) = planned(ENFORCED, observed(one, probes=said(one, model=BROKEN))).gates

    assert (gate.is_open, gate.reason) == (False, "NotAdmitted")


def test_a_pod_without_a_gate_is_not_gated():
    assert gates(YES, gated=False) == ()


def test_a_restarted_container_closes_the_gate_until_it_answers():
    before = pod("p", OF, gated=True, gate_open=True)
    status = planned(OF, observed(before, probes=said(before))).status
    again = replace(before.runtime, container_id="containerd://second", restart_count=1)

    plan = planned(OF, observed(replace(before, runtime=again), status=status))

    assert [(gate.pod, gate.is_open) for gate in plan.gates] == [("p", False)]


def test_a_restarted_operator_does_not_change_gates():
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
        pytest.param(None, None, id="not reported yet"),
    ],
)
def test_an_enforced_contract_keeps_the_gate_closed(metadata, opens, gate_open):
    one = pod("p", ENFORCED, gated=True, gate_open=gate_open)
    plan = planned(ENFORCED, observed(one, probes=said(one, model=metadata)))

    expected = bool(gate_open) if opens is None else opens
    changes = [] if expected is bool(gate_open) else [expected]
    assert [gate.is_open for gate in plan.gates] == changes


def test_a_broken_contract_is_the_reason_and_not_its_closed_gate():
    of = replace(ENFORCED, replicas=1)
    one = unready("p", of, gated=True, runtime=running())

    plan = planned(of, observed(one, probes=said(one, model=BROKEN)))

    assert plan.gates == ()
    assert verdict(plan) == ("False", "DatatypeMismatch")


def test_a_new_disagreeing_replica_is_not_admitted_and_removes_no_other():
    inside = pod("a", ENFORCED, gated=True, gate_open=True)
    newcomer = unready("b", ENFORCED, gated=True, runtime=running())
    answers = {**said(inside), **said(newcomer, model=OTHER)}

    plan = planned(ENFORCED, observed(inside, newcomer, probes=answers))

    assert plan.gates == ()
    assert verdict(plan, "MetadataMatched") == ("False", "ReplicasDisagree")
    assert plan.status["replicaSummary"] == "1/2"


@pytest.mark.parametrize("reason", [AnswerReason.TIMED_OUT, AnswerReason.REFUSED])
@pytest.mark.parametrize("other", [YES, silence(AnswerReason.TIMED_OUT)])
def test_a_silent_replica_is_removed_only_if_its_kubelet_agrees(reason, other):
    first, second = (pod(name, OF, gated=True, gate_open=True) for name in "ab")
    failing = replace(first, ready=False, runtime=running(ready=False))
    quiet = said(first, silence(reason), consecutive_unknown=9)
    answers = {**quiet, **said(second, other, consecutive_unknown=9)}

    heard_by_kubelet = planned(OF, observed(first, second, probes=answers))
    heard_by_nobody = planned(OF, observed(failing, second, probes=answers))

    assert heard_by_kubelet.gates == ()
    assert [(gate.pod, gate.is_open) for gate in heard_by_nobody.gates] == [("a", False)]


def test_silence_opens_no_gate():
    newcomer = pod("a", OF, gated=True, gate_open=None, ready=False)
    quiet = said(newcomer, silence(AnswerReason.TIMED_OUT), consecutive_unknown=9)

    assert planned(OF, observed(newcomer, probes=quiet)).gates == ()


def test_an_omitted_replica_keeps_its_traffic_when_the_operator_restarts():
    of = replace(OF, replicas=40)
    pods = [pod(f"p{index:02}", of, gated=True, gate_open=True) for index in range(40)]
    answers = {uid: result for each in pods for uid, result in said(each).items()}
    status = planned(of, observed(*pods, probes=answers)).status
    assert status["omittedReplicas"] == 8

    restarted = planned(of, observed(*pods, status=status))

    assert restarted.gates == ()
    assert restarted.status == status


def test_the_gates_of_an_earlier_revision_are_unchanged():
    old = pod("p", "earlier", gated=True, gate_open=True)

    assert planned(OF, observed(old)).gates == ()


def test_a_pod_that_waits_for_its_gate_is_reported():
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

    seen = parse_objects.pod(body)
    plain = parse_objects.pod({**body, "spec": {"readinessGates": [{"conditionType": "other"}]}})

    assert (seen.gated, seen.gate_open) == (True, expected)
    assert not plain.gated


class Pods:
    """A fake API that receives gates."""

    def __init__(self, error: errors.ApiError | None = None) -> None:
        self.error = error
        self.written: list[dict[str, Any]] = []

    async def apply(self, kind: Kind, body: dict[str, Any], *, field_manager: str) -> Any:
        assert (kind, field_manager) == (kinds.POD_STATUS, "moorage-status")
        if self.error:
            raise self.error
        self.written.append(body)
        return body


def writer(pods: Pods, wrote: list[str], turns: Turns | None = None) -> tuple[StatusWriter, Any]:
    store = deaf_store()
    metadata = {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"}
    store.put_model({"metadata": metadata, "spec": {}})
    record = store.model(ObjectKey("ns", "iris"))
    made = StatusWriter(
        pods,  # type: ignore[arg-type]
        store,
        Existence(lambda: 0.0),
        selector="",
        turns=turns or Turns(1),
        wrote=wrote.append,
        clock=lambda: 0.0,
    )
    return made, record


async def test_a_gate_takes_a_turn_of_its_namespace():
    turns = RecordedTurns(1)
    made, record = writer(Pods(), [], turns)

    await made.write_gates(record, (GATE,))

    assert turns.asked == [("ns", "Pod", False)]


GATE = PodGate("p", "uid-p", is_open=True, reason="ModelReady", since="2026-03-04T05:06:07Z")


@pytest.mark.parametrize(("is_open", "status"), [(True, "True"), (False, "False")])
async def test_only_the_pods_own_condition_is_its_gate(is_open, status):
    pods, wrote = Pods(), []
    made, record = writer(pods, wrote)

    await made.write_gates(record, (replace(GATE, is_open=is_open),))

    condition = {
        "type": "moorage.dev/model-ready",
        "status": status,
        "reason": "ModelReady",
        "lastTransitionTime": "2026-03-04T05:06:07Z",
    }
    assert pods.written == [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "ns", "uid": "uid-p"},
            "status": {"conditions": [condition]},
        }
    ]
    assert wrote == ["Pod"]


@pytest.mark.parametrize(
    "error", [errors.NotFound("gone", code=404), errors.Conflict("uid", code=409)]
)
async def test_the_gate_of_a_deleted_pod_is_skipped(error):
    wrote: list[str] = []
    made, record = writer(Pods(error), wrote)

    await made.write_gates(record, (GATE,))

    assert wrote == []


async def test_a_gate_that_cannot_be_written_is_retried():
    made, record = writer(Pods(errors.Forbidden("no", code=403)), [])

    with pytest.raises(errors.Forbidden):
        await made.write_gates(record, (GATE,))


async def test_a_gate_that_fails_does_not_stop_the_others():
    class FailingOnce(Pods):
        async def apply(self, kind: Kind, body: dict[str, Any], *, field_manager: str) -> Any:
            error, self.error = self.error, None
            if error:
                raise error
            return await super().apply(kind, body, field_manager=field_manager)

    pods = FailingOnce(errors.ServerError("a webhook does not answer", code=500))
    made, record = writer(pods, [])

    with pytest.raises(errors.ServerError):
        await made.write_gates(record, (GATE, replace(GATE, pod="q", uid="uid-q")))

    assert [body["metadata"]["name"] for body in pods.written] == ["q"]
