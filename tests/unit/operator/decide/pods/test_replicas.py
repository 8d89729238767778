"""Which pods are replicas, whether each serves, and the message that says why not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from moorage_operator.api.conditions import Finding, Reason
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide.pods.replicas import (
    Replica,
    is_replica,
    judge,
    ready_subject,
    worst,
)
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, Spoken, TensorInfo
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.smoke import SmokeOutcome, SmokeVerdict
from support.operator_values import (
    DIGITS,
    NOW,
    YES,
    model,
    no,
    pending,
    pod,
    revision,
    running,
    said,
    silence,
    unready,
)

PENDING = Finding(Reason.PENDING, "pod a: waits")
FAILED = Finding(Reason.MODEL_LOAD_FAILED, "pod b: failed")
OF = model()


def judged(of: InferenceModel, *pods: PodObserved, **facts: Any) -> tuple[Replica, ...]:
    return judge(of, Observed(pods=pods, **facts), revision(of))


def one(of: InferenceModel, of_pod: PodObserved, **facts: Any) -> Replica:
    (found,) = judged(of, of_pod, **facts)
    return found


# ---------------------------------------------------------------------- several replicas


def test_the_most_informative_finding_has_the_number_of_others() -> None:
    assert worst([]) is None
    assert worst([PENDING]) == PENDING
    assert worst([PENDING, FAILED, PENDING]) == Finding(
        Reason.MODEL_LOAD_FAILED, "pod b: failed (and 2 more not ready)"
    )


def test_a_long_finding_is_cut_before_the_number_of_others() -> None:
    found = worst([replace(PENDING, message="x" * 100_000), PENDING])

    assert found is not None
    assert len(found.message) < 10_000
    assert found.message.endswith(" (and 1 more not ready)")


def test_pods_that_still_run_are_judged_in_the_order_of_their_names() -> None:
    pods = [
        pod("c", OF),
        pod("a", "earlier"),
        pod("b", OF, deleting=True),
        pod("d", OF, phase="Failed"),
        pod("e", OF, phase="Succeeded"),
    ]

    assert [(each.pod.name, each.current) for each in judged(OF, *pods)] == [
        ("a", False),
        ("c", True),
    ]
    found = judge(OF, Observed(pods=tuple(pods)), "")
    assert [(each.pod.name, each.current) for each in found] == [("a", False), ("c", False)]


@pytest.mark.parametrize("ready", [True, False])
def test_a_pod_of_an_earlier_revision_serves_while_its_kubelet_finds_it_ready(ready: bool) -> None:
    old = pod("old", "earlier", ready=ready)

    assert one(OF, old, probes=said(old, no(AnswerReason.LOAD_FAILED))) == Replica(
        old, current=False, serving=ready, model_ready=ready, admitted=ready
    )


@pytest.mark.parametrize(
    ("replica_set", "expected"), [("digits-5d8c", True), ("other-5d8c", False), ("", False)]
)
def test_only_a_pod_of_the_models_deployment_is_a_replica(
    replica_set: str, expected: bool
) -> None:
    assert is_replica(pod("p", OF, replica_set=replica_set), OF) is expected


# ---------------------------------------------------------------------- a single replica


def test_a_ready_pod_with_a_ready_model_serves() -> None:
    of_pod = pod("p", OF)
    answers = said(of_pod)

    assert one(OF, of_pod, probes=answers) == Replica(
        of_pod,
        current=True,
        serving=True,
        model_ready=True,
        admitted=True,
        result=answers[of_pod.uid],
    )


def test_a_pod_whose_container_does_not_run_is_not_asked() -> None:
    waits = pending("p", OF)

    found = one(OF, waits, probes=said(waits))

    assert found == Replica(
        waits, current=True, serving=False, model_ready=False, admitted=False,
        workload=Finding(
            Reason.PENDING, "pod p is starting on node node-1 (ContainerCreating)"
        ),
    )  # fmt: skip
    assert found.finding == found.workload
    assert not found.is_silent


def test_the_answers_of_another_container_do_not_count() -> None:
    before = pod("p", OF)
    after = replace(before, runtime=running(container_id="containerd://second"))

    found = one(OF, after, probes=said(before))

    assert found.result is None
    assert not found.serving
    assert found.model == Finding(
        Reason.MODEL_LOADING, "pod p: the model has not been checked yet"
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (AnswerReason.REFUSED, True),
        (AnswerReason.TIMED_OUT, True),
        (AnswerReason.NOT_TRUSTED, False),
        (AnswerReason.NOT_READY, False),
    ],
)
def test_a_server_is_silent_if_it_does_not_answer_the_operator(
    answer: AnswerReason, expected: bool
) -> None:
    of_pod = pod("p", OF)

    assert one(OF, of_pod, probes=said(of_pod, Answer(None, answer))).is_silent is expected


@pytest.mark.parametrize(
    ("facts", "admitted", "sentence"),
    [
        ({"ready": True}, True, None),
        ({}, True, "pod p: the model is ready, but the pod's readiness probe has not passed"),
        (
            {"gated": True, "gate_open": True},
            True,
            "pod p: the model is ready, but the pod's readiness probe has not passed",
        ),
        (
            {"gated": True},
            True,
            "pod p: the model is ready, but the pod's readiness gate is not open yet",
        ),
        (
            {
                "runtime": running(),
                "unready_message": "unready: [proxy]",
            },
            True,
            "pod p: the model is ready, but the pod is not: unready: [proxy]",
        ),
        (
            {
                "gated": True,
                "gate_open": True,
                "runtime": running(),
                "unready_message": "unready: [proxy]",
            },
            True,
            "pod p: the model is ready, but the pod is not: unready: [proxy]",
        ),
        (
            {"runtime": running()},
            True,
            "pod p: the model is ready, but its node 'node-1' no longer reports to Kubernetes",
        ),
        (
            {"gated": True, "gate_open": True, "runtime": running()},
            True,
            "pod p: the model is ready, but its node 'node-1' no longer reports to Kubernetes",
        ),
    ],
)
def test_a_pod_with_a_ready_model_may_not_be_ready(
    facts: dict[str, Any], admitted: bool, sentence: str | None
) -> None:
    of_pod = unready("p", OF, **facts)

    found = one(OF, of_pod, probes=said(of_pod))

    expected = Finding(Reason.POD_NOT_READY, sentence) if sentence else None
    assert (found.workload, found.admitted, found.model_ready) == (expected, admitted, True)
    assert found.serving is (sentence is None)


BROKEN = replace(DIGITS, inputs=())
ENFORCED = model(contract={"policy": "Enforce", "inputs": [{"name": "image"}]})


@pytest.mark.parametrize(
    ("kubelet", "workload"),
    [
        (True, None),
        (False, "pod p: the model is ready, but the pod's readiness probe has not passed"),
    ],
)
def test_a_gate_that_is_closed_on_purpose_is_not_waited_for(
    kubelet: bool, workload: str | None
) -> None:
    of_pod = unready("p", ENFORCED, gated=True, runtime=running(started=kubelet, ready=kubelet))

    found = one(ENFORCED, of_pod, probes=said(of_pod, model=BROKEN))

    assert found.contract is not None
    assert not found.admitted
    assert (found.workload.message if found.workload else None) == workload
    if kubelet:
        assert found.finding == found.contract


def test_a_definite_answer_is_more_recent_than_a_crash() -> None:
    again = running(started=False, ready=False, restart_count=1, last_terminated_exit_code=1)
    of_pod = unready("p", OF, runtime=again)

    crashed = one(OF, of_pod, probes=said(of_pod, no(AnswerReason.LOADING)))
    refused = one(OF, of_pod, probes=said(of_pod, no(AnswerReason.LOAD_FAILED, "bad")))

    assert crashed.finding == crashed.workload
    assert crashed.workload is not None
    assert crashed.workload.reason is Reason.CRASH_LOOP_BACK_OFF
    assert refused.workload is None
    assert refused.finding == Finding(
        Reason.MODEL_LOAD_FAILED, "pod p: model digits failed to load: bad"
    )


# ---------------------------------------------------------------------- what the server answers

TOKEN = {"access": {"tokenSecretName": "t"}}
AUTO = {"protocol": "Auto", "runtime": {"image": "other:1"}}
PLAIN = {"protocol": "None", "runtime": {"image": "other:1"}, "paths": {"ready": "/r"}}
OPENAI = {"protocol": "OpenAI", "runtime": {"image": "other:1"}}
GRPC = Spoken("OpenInference", "GRPC", 8001, "ServerLive answers")
TFS = Spoken("TensorFlowServing", "HTTP", 8000, "GET lists versions")


@pytest.mark.parametrize(
    ("spec", "answer", "facts", "reason", "message"),
    [
        ({}, no(AnswerReason.NOT_READY), {}, "ModelLoading", "model digits is not ready yet"),
        ({}, no(AnswerReason.LOADING, "40 %"), {}, "ModelLoading",
         "model digits is not ready yet: 40 %"),
        ({}, no(AnswerReason.LOADING), {"ready": YES}, "ModelLoading",
         "model digits is not ready yet"),
        ({}, no(AnswerReason.NOT_READY), {"ready": YES}, "ServerReadyModelNot",
         "the server is ready, but model digits is not"),
        ({}, no(AnswerReason.LOAD_FAILED, "bad"), {}, "ModelLoadFailed",
         "model digits failed to load: bad"),
        ({}, no(AnswerReason.MODEL_NOT_FOUND), {"ready": YES}, "ModelNotFound",
         "the server has no model digits"),
        ({}, no(AnswerReason.MODEL_NOT_FOUND), {}, "ModelLoading",
         "model digits is not ready yet"),
        ({}, replace(no(AnswerReason.MODEL_NOT_FOUND), listed=True), {}, "ModelNotFound",
         "the server has no model digits"),
        ({}, no(AnswerReason.MODEL_NOT_FOUND), {"ready": silence(AnswerReason.TIMED_OUT)},
         "ModelNotFound", "the server has no model digits"),
        ({"model": {"version": "3"}}, no(AnswerReason.VERSION_NOT_FOUND), {"ready": YES},
         "VersionNotServed", "version 3 of model digits is not served"),
        ({"model": {"version": "3"}}, no(AnswerReason.VERSION_NOT_FOUND), {}, "ModelLoading",
         "model digits is not ready yet"),
        ({}, silence(AnswerReason.REFUSED), {}, "ServerNotLive", "the server does not answer"),
        ({}, silence(AnswerReason.TIMED_OUT), {}, "ProbeTimeout",
         "the server did not answer in time"),
        ({}, silence(AnswerReason.NOT_TRUSTED), {}, "CertificateNotTrusted",
         "its TLS certificate is not accepted"),
        ({}, silence(AnswerReason.TLS_MISMATCH), {}, "TLSMismatch", "TLS does not fit the spec"),
        (TOKEN, no(AnswerReason.UNAUTHORIZED), {}, "Unauthorized", "the server requires a token"),
        *(
            ({**TOKEN, **spec}, no(AnswerReason.UNAUTHORIZED), {}, "Unauthorized",
             (f"the server requires a token even for readiness: protocol {spec['protocol']} has "
             "no open path for it"))
            for spec in ({"protocol": "GRPS"}, {"protocol": "TensorFlowServing"}, OPENAI)
        ),
        (PLAIN, no(AnswerReason.NOT_READY), {}, "ModelLoading", "the server is not ready yet"),
        ({}, silence(AnswerReason.WRONG_PROTOCOL), {"spoken": None}, "ProtocolMismatch",
         "the server does not answer as OpenInference over HTTP"),
        ({}, no(AnswerReason.MALFORMED, "no JSON"), {"spoken": None}, "ProtocolMismatch",
         "the server does not answer as OpenInference over HTTP: no JSON"),
        ({}, silence(AnswerReason.WRONG_PROTOCOL), {"spoken": TFS}, "ProtocolMismatch",
         ("the server does not answer as OpenInference over HTTP; it speaks TensorFlowServing "
         "over HTTP on port 8000 (GET lists versions): set protocol to TensorFlowServing")),
        ({"protocol": "GRPS"}, silence(AnswerReason.WRONG_PROTOCOL), {"spoken": GRPC},
         "ProtocolMismatch",
         ("the server does not answer as GRPS over HTTP; it speaks OpenInference over GRPC on "
         "port 8001 (ServerLive answers): set protocol to OpenInference and transport to GRPC")),
        (AUTO, silence(AnswerReason.WRONG_PROTOCOL), {"spoken": None}, "NoProtocolAnswered",
         "the server answers in no known protocol over HTTP"),
        (AUTO, silence(AnswerReason.WRONG_PROTOCOL), {"spoken": GRPC}, "NoProtocolAnswered",
         ("the server answers in no known protocol over HTTP; it speaks OpenInference over GRPC "
         "on port 8001 (ServerLive answers): set transport to GRPC")),
    ],
)  # fmt: skip
def test_the_message_says_what_the_server_answered(
    spec: dict[str, Any], answer: Answer, facts: dict[str, Any], reason: str, message: str
) -> None:
    of = model(**spec)
    of_pod = unready("p", of)

    found = one(of, of_pod, probes=said(of_pod, answer, **facts))

    assert found.model == Finding(Reason(reason), f"pod p: {message}")
    assert not (found.serving)
    assert not (found.model_ready)
    assert not (found.admitted)


NETWORK = (
    "; its readiness probe passes, so something blocks the operator's connection to the pod: a "
    "network policy, or a service mesh with strict mTLS "
    "(exclude the model's ports: docs/how-to/service-mesh.md); or node 'node-1' has just failed"
)
LOST = "; its node 'node-1' no longer reports to Kubernetes"
TRAFFIC = "; its readiness probe still passes, so the replica receives traffic"


@pytest.mark.parametrize(
    ("answer", "polls", "facts", "more"),
    [
        (AnswerReason.REFUSED, 3, {}, NETWORK),
        (AnswerReason.REFUSED, 2, {}, ""),
        (AnswerReason.REFUSED, 3, {"runtime": running(ready=False)}, ""),
        (AnswerReason.REFUSED, 1, {"ready": False}, LOST),
        (AnswerReason.TIMED_OUT, 3, {"ready": False}, LOST),
        (AnswerReason.TIMED_OUT, 1, {"ready": False, "unready_message": "unready"}, ""),
        (AnswerReason.NOT_TRUSTED, 3, {}, ""),
        (AnswerReason.NOT_TRUSTED, 3, {"ready": False}, ""),
        (AnswerReason.LOADING, 0, {}, TRAFFIC),
        (AnswerReason.LOADING, 3, {}, TRAFFIC),
        (AnswerReason.LOADING, 0, {"ready": False}, ""),
        (AnswerReason.LOADING, 0, {"gated": True}, ""),
    ],
)
def test_the_message_says_whether_the_kubelet_sees_something_else(
    answer: AnswerReason, polls: int, facts: dict[str, Any], more: str
) -> None:
    of_pod = pod("p", OF, **facts)
    verdict = False if answer is AnswerReason.LOADING else None

    found = one(
        OF, of_pod, probes=said(of_pod, Answer(verdict, answer), consecutive_unknown=polls)
    )

    assert found.model is not None
    _, separator, tail = found.model.message.partition("; ")
    assert separator + tail == more


def test_what_is_ready_is_the_server_if_nothing_is_known_of_the_model() -> None:
    assert ready_subject(model()) == "the model"
    assert ready_subject(model(**PLAIN)) == "the server"


# ---------------------------------------------------------------------- before the first poll

LOADING = Finding(Reason.MODEL_LOADING, "pod p: the model has not been checked yet")
ENTRY = {"pod": "p", "restarts": 0, "modelReady": True, "ready": True}
REFUSED = {"pod": "p", "restarts": 0, "modelReady": False, "ready": False,
           "reason": "ModelLoadFailed", "message": "so"}  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "ready", "expected"),
    [
        ({}, True, LOADING),
        (ENTRY, True, None),
        ({**ENTRY, "ready": False}, True, None),
        ({**ENTRY, "ready": False}, False, None),
        (ENTRY, False, LOADING),
        ({**ENTRY, "modelReady": "True"}, True, LOADING),
        ({**ENTRY, "restarts": 1}, True, LOADING),
        ({**ENTRY, "pod": "q"}, True, LOADING),
        (REFUSED, True, Finding(Reason.MODEL_LOAD_FAILED, "so")),
        ({**REFUSED, "restarts": 1}, True, LOADING),
        ({**REFUSED, "reason": "Pending"}, True, LOADING),
        ({"pod": "p", "restarts": 0, "reason": "ModelLoadFailed"}, True,
         Finding(Reason.MODEL_LOAD_FAILED, "")),
    ],
)  # fmt: skip
def test_a_restarted_operator_takes_a_replica_for_what_the_status_says(
    entry: dict[str, Any], ready: bool, expected: Finding | None
) -> None:
    of_pod = pod("p", OF, ready=ready)
    status = {"replicaStatuses": [entry] if entry else None}
    asked = said(of_pod, Answer(None, AnswerReason.NOT_ASKED))

    assert one(OF, of_pod, status=status).model == expected
    assert one(OF, of_pod, status=status, probes=asked).model == expected


@pytest.mark.parametrize(
    ("before", "ready", "polls", "expected"),
    [
        (True, True, 2, True),
        (True, True, 3, False),
        (True, False, 2, False),
        (False, True, 2, False),
        ("True", True, 2, False),
    ],
)
def test_a_replica_that_was_ready_may_miss_polls(
    before: Any, ready: bool, polls: int, expected: bool
) -> None:
    of_pod = pod("p", OF, ready=ready)
    status = {"replicaStatuses": [{**ENTRY, "modelReady": before}]}
    missed = said(of_pod, silence(AnswerReason.TIMED_OUT), consecutive_unknown=polls)

    assert one(OF, of_pod, status=status, probes=missed).model_ready is expected
    failed = said(of_pod, no(AnswerReason.LOADING), consecutive_unknown=polls)
    assert not one(OF, of_pod, status=status, probes=failed).model_ready


@pytest.mark.parametrize(
    ("last", "omitted", "facts", "expected"),
    [
        (ENTRY, 1, {}, None),
        (ENTRY, 0, {}, LOADING),
        ({**ENTRY, "ready": False}, 1, {}, LOADING),
        ({**ENTRY, "modelReady": False}, 1, {}, LOADING),
        (ENTRY, 1, {"ready": False}, LOADING),
        (ENTRY, 1, {"runtime": running(restart_count=4)}, None),
        (None, 1, {}, LOADING),
    ],
)
def test_a_pod_that_the_status_omits_served_if_the_last_listed_one_did(
    last: dict[str, Any] | None, omitted: int, facts: dict[str, Any], expected: Finding | None
) -> None:
    of_pod = pod("p", OF, **facts)
    first = {**REFUSED, "pod": "x"}
    entries = [first, {**last, "pod": "y"}] if last else None
    status = {"replicaStatuses": entries, "omittedReplicas": omitted}

    assert one(OF, of_pod, status=status).model == expected


def test_an_omitted_pod_has_passed_the_tests_that_all_ready_pods_passed() -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
    of = model(smokeTests={"tests": [{"name": "t", "inputs": [tensor]}]})
    passed = {"digest": of.smoke_digest, "reason": "Passed"}
    since = {"status": "True", "lastTransitionTime": "2026-03-04T05:06:07Z"}
    status = {
        "replicaStatuses": [{**ENTRY, "pod": "y", "smokeTests": passed}],
        "omittedReplicas": 1,
        "conditions": [{"type": "SmokeTestPassed", **since}],
    }
    before, after = pod("p", of), pod("p", of, ready_since=NOW + timedelta(seconds=1))

    assert one(of, before, status=status).trial == SmokeOutcome(
        of.smoke_digest, SmokeVerdict.PASSED
    )
    assert one(of, after, status=status).trial is None


# ---------------------------------------------------------------------- contracts and tests

WARNED = model(contract={"policy": "Warn", "inputs": [{"name": "image"}]})
AWAITED = Finding(Reason.AWAITING_METADATA, "pod p: waiting for its metadata")
MISSING = Finding(Reason.INPUT_MISSING, "pod p: so")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, AWAITED),
        (ENTRY, None),
        ({**ENTRY, "modelReady": False}, AWAITED),
        ({**ENTRY, "restarts": 1}, AWAITED),
        ({**ENTRY, "reason": "InputMissing", "message": "pod p: so"}, MISSING),
        ({**ENTRY, "reason": "InputMissing"}, replace(MISSING, message="")),
        ({**ENTRY, "reason": "PodNotReady"}, None),
    ],
)
def test_metadata_is_awaited_unless_the_status_has_compared_it(
    entry: dict[str, Any], expected: Finding | None
) -> None:
    of_pod = pod("p", WARNED)
    status = {"replicaStatuses": [entry]}

    for facts in ({"model": None}, {"model": None, "unauthorized": "HTTP 401"}):
        found = one(WARNED, of_pod, status=status, probes=said(of_pod, **facts))
        assert found.contract == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"described": True, "model": None, "unauthorized": "HTTP 401"},
         "MetadataUnauthorized: pod p: the metadata is not compared: HTTP 401"),
        ({"described": True, "model": DIGITS, "unauthorized": "HTTP 401"}, None),
        ({"model": DIGITS}, None),
        ({"model": BROKEN}, "InputMissing: pod p: "),
        ({"described": True, "model": None}, "MetadataUnsupported: pod p: "),
    ],
)  # fmt: skip
def test_metadata_is_compared_with_the_contract(
    facts: dict[str, Any], expected: str | None
) -> None:
    of_pod = pod("p", WARNED)

    found = one(WARNED, of_pod, probes=said(of_pod, **facts))

    assert found.serving
    assert found.finding is None
    if expected is None:
        assert found.contract is None
    else:
        assert found.contract is not None
        assert f"{found.contract.reason}: {found.contract.message}".startswith(expected)


def test_without_a_contract_no_metadata_is_compared() -> None:
    of_pod = pod("p", OF)

    assert one(OF, of_pod, probes=said(of_pod, model=None)).contract is None


def test_the_metadata_of_a_model_that_is_not_ready_is_not_compared() -> None:
    of_pod = pod("p", WARNED)

    found = one(WARNED, of_pod, probes=said(of_pod, no(AnswerReason.LOADING), model=BROKEN))

    assert found.contract is None


OTHER = ModelInfo("digits", inputs=(TensorInfo("image", "FP64", (-1, 8, 8)),))


@pytest.mark.parametrize(
    ("policy", "gate", "serving"),
    [("Warn", None, True), ("Enforce", True, True), ("Enforce", None, False)],
)
def test_replicas_with_different_tensors_disagree_and_only_new_ones_are_kept_out(
    policy: str, gate: bool | None, serving: bool
) -> None:
    of = model(contract={"policy": policy, "inputs": [{"name": "image"}]})
    pods = [pod(name, of, gated=policy == "Enforce", gate_open=gate) for name in "ab"]
    broken = pod("c", of, gated=policy == "Enforce", gate_open=gate)
    probes = {
        **said(pods[0]),
        **said(pods[1], model=OTHER),
        **said(broken, model=BROKEN),
    }

    first, second, third = judged(of, *pods, broken, probes=probes)

    assert first.contract == second.contract
    assert first.contract is not None
    assert first.contract.reason is Reason.REPLICAS_DISAGREE
    assert third.contract is not None
    assert third.contract.reason is Reason.INPUT_MISSING
    for each in (first, second):
        assert (each.serving, each.admitted) == (serving, serving)


def test_replicas_with_equal_tensors_agree() -> None:
    pods = [pod(name, WARNED) for name in "ab"]
    probes = {**said(pods[0]), **said(pods[1])}

    assert [each.contract for each in judged(WARNED, *pods, probes=probes)] == [None, None]


def test_without_a_contract_different_tensors_are_not_reported() -> None:
    pods = [pod(name, OF) for name in "ab"]
    probes = {**said(pods[0]), **said(pods[1], model=OTHER)}

    assert [each.contract for each in judged(OF, *pods, probes=probes)] == [None, None]


@pytest.mark.parametrize(("policy", "serving"), [("Warn", True), ("Enforce", False)])
def test_a_failed_smoke_test_is_reported_and_keeps_a_replica_out_if_enforced(
    policy: str, serving: bool
) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
    of = model(smokeTests={"policy": policy, "tests": [{"name": "t", "inputs": [tensor]}]})
    of_pod = pod("p", of, gated=policy == "Enforce", gate_open=policy == "Enforce")
    failed = SmokeOutcome(of.smoke_digest, SmokeVerdict.OUTPUT_MISMATCH, "so")

    found = one(of, of_pod, probes=said(of_pod, smoke=failed))

    assert found.smoke == Finding(Reason.OUTPUT_MISMATCH, "pod p: so")
    assert found.trial == failed
    assert found.serving is serving
    assert found.finding == (None if serving else found.smoke)
    loading = said(of_pod, no(AnswerReason.LOADING), smoke=failed)
    assert one(of, of_pod, probes=loading).smoke is None


@pytest.mark.parametrize("gate", [True, False])
def test_unfinished_smoke_tests_admit_no_new_replica_and_remove_none(gate: bool) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}
    of = model(smokeTests={"policy": "Enforce", "tests": [{"name": "t", "inputs": [tensor]}]})
    of_pod = pod("p", of, gated=True, gate_open=gate)

    found = one(of, of_pod, probes=said(of_pod))

    assert found.smoke == Finding(Reason.RUNNING, "pod p: its smoke tests have not finished yet")
    assert (found.admitted, found.serving) == (gate, gate)


@pytest.mark.parametrize(
    ("answer", "gate", "kubelet", "admitted"),
    [
        (AnswerReason.TIMED_OUT, True, True, True),
        (AnswerReason.TIMED_OUT, True, False, False),
        (AnswerReason.TIMED_OUT, None, True, False),
        (AnswerReason.TLS_MISMATCH, True, True, False),
    ],
)
def test_a_silent_replica_keeps_its_traffic_while_its_kubelet_finds_it_ready(
    answer: AnswerReason, gate: bool | None, kubelet: bool, admitted: bool
) -> None:
    of_pod = pod("p", OF, gated=True, gate_open=gate, runtime=running(ready=kubelet))

    found = one(OF, of_pod, probes=said(of_pod, silence(answer), consecutive_unknown=9))

    assert found.admitted is admitted
    assert not found.serving
