"""Smoke tests on a real API server: every protocol, every failure, and restarts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.iris import expect_condition, gate, start
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
)
from support.runtime import Runtime

pytestmark = pytest.mark.integration

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "01-digits"
SAMPLE = json.loads((DIGITS / "samples" / "digit-3.json").read_text())
THREE = {"name": "three", "inputs": SAMPLE["inputs"], "outputs": [{"name": "label", "data": [3]}]}
HALF = {
    "name": "half",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}],
    "outputs": [{"name": "y", "data": [0.5]}],
}


class InferringServer(ModelServer):
    """A server with given answers to inference requests."""

    infer_code = 200
    value = 0.5

    def _answer(self, path: str) -> tuple[int, str]:
        if not path.endswith("/infer"):
            return super()._answer(path)
        if self.infer_code != 200:
            return self.infer_code, '{"error":"input x has a wrong shape"}'
        y = {"name": "y", "datatype": "FP32", "shape": [1], "data": [self.value]}
        return 200, json.dumps({"model_name": self.name, "outputs": [y]})

    @property
    def inferences(self) -> int:
        return sum(path.endswith("/infer") for path in self.requests)


@pytest.fixture
def server() -> Iterator[InferringServer]:
    with InferringServer() as made:
        yield made


def enforced(test: dict[str, Any]) -> dict[str, Any]:
    return {"policy": "Enforce", "tests": [test]}


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [
        ("OpenInference", "HTTP"),
        ("OpenInference", "GRPC"),
        ("TensorFlowServing", "HTTP"),
        ("GRPS", "HTTP"),
        ("GRPS", "GRPC"),
        ("Auto", "HTTP"),
    ],
)
def test_the_bundled_runtime_passes_smoke_tests_in_every_protocol(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    runtime: Runtime,
    protocol: str,
    transport: str,
) -> None:
    ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
    way = {"protocol": protocol, "transport": transport, "model": {"name": "digits"}}
    start(api, kubelet, ports, smokeTests=enforced(THREE), **way)

    expect_condition(api, "SmokeTestPassed", "True", "Passed")
    expect_condition(api, "Ready", "True", "Serving")
    assert gate(kubelet) == "True"


@pytest.mark.parametrize("protocol", ["OpenInference", "TensorFlowServing", "GRPS"])
def test_a_wrong_answer_is_reported_in_every_protocol(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, runtime: Runtime, protocol: str
) -> None:
    wrong = {**THREE, "outputs": [{"name": "label", "data": [4]}]}
    ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
    way = {"protocol": protocol, "model": {"name": "digits"}}
    start(api, kubelet, ports, smokeTests=enforced(wrong), **way)

    message = expect_condition(api, "Ready", "False", "OutputMismatch")

    assert "smoke test three: output label, element 0: expected 4, got 3" in message
    assert gate(kubelet) in {"", "False"}


def test_a_rejected_request_has_the_servers_message(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.infer_code = 400
    start(api, kubelet, {"http": server.port}, smokeTests={"tests": [HALF]})

    message = expect_condition(api, "SmokeTestPassed", "False", "RequestRejected")

    assert "input x has a wrong shape" in message
    expect_condition(api, "Ready", "True", "Serving")  # the policy is Warn


def test_a_slow_answer_exceeds_its_limit(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.delay_seconds = 0.2
    late = ("moorage_smoke_runs_total", 'result="LatencyExceeded"')
    runs, seconds = operator.metric(*late), operator.metric("moorage_smoke_seconds_sum")
    slow = {**HALF, "maxLatencyMilliseconds": 100}
    start(api, kubelet, {"http": server.port}, smokeTests=enforced(slow))

    message = expect_condition(api, "Ready", "False", "LatencyExceeded")

    assert "100 ms" in message
    assert server.inferences == 3
    assert operator.metric(*late) == runs + 1
    assert operator.metric("moorage_smoke_seconds_sum") >= seconds + 0.6


def test_running_tests_are_awaited(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    with server.held("/infer"):
        start(api, kubelet, {"http": server.port}, smokeTests=enforced(HALF))
        expect_condition(api, "Ready", "False", "Running")
        assert gate(kubelet) in {"", "False"}

    expect_condition(api, "Ready", "True", "Serving")


def test_passed_tests_are_repeated_only_after_a_restart_or_an_edit(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    health = {"pollIntervalSeconds": 1}
    pod = start(api, kubelet, {"http": server.port}, smokeTests={"tests": [HALF]}, health=health)
    expect_condition(api, "SmokeTestPassed", "True", "Passed")
    assert server.inferences == 1

    operator.stop()
    operator.start()
    operator.wait_ready()
    asked = len(server.requests)
    eventually("polled twice", lambda: len(server.requests) >= asked + 2)
    assert server.inferences == 1

    kubelet.run(pod, run=2)
    eventually("asked again", lambda: server.inferences == 2)

    server.value = 0.6
    edited = [{**HALF, "outputs": [{"name": "y", "data": [0.6]}]}]
    api.patch("InferenceModel", "iris", {"spec": {"smokeTests": {"tests": edited}}})
    eventually("asked by edited tests", lambda: server.inferences == 3)
    expect_condition(api, "SmokeTestPassed", "True", "Passed")


def test_a_failed_replica_is_admitted_once_it_answers_correctly(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.value = 7.0
    start(api, kubelet, {"http": server.port}, smokeTests=enforced(HALF))
    assert "expected 0.5, got 7.0" in expect_condition(api, "Ready", "False", "OutputMismatch")

    server.value = 0.5

    # The test is repeated ten seconds after its failure.
    eventually("the gate is open", lambda: gate(kubelet) == "True", seconds=30)
    expect_condition(api, "Ready", "True", "Serving")
