"""Smoke tests on a real API server: each protocol, each way to fail, and what a restart asks."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)
from support.runtime import Runtime, running

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
    """One that answers inference requests as it is told to."""

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


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The bundled runtime with the digits model."""
    with running(f"--model-repository={DIGITS}", "--model-name=digits") as made:
        yield made


def start(api: Api, kubelet: Kubelet, ports: dict[str, int], **spec: Any) -> dict[str, Any]:
    api.apply(model("iris", runtime={"image": "example/server:1", "ports": ports}, **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)
    return pod


def told(api: Api, type_: str, status: str, reason: str) -> str:
    """The message of the condition once it is this."""
    eventually(f"{type_} {reason}", lambda: api.condition("iris", type_) == (status, reason))
    conditions = api.get("InferenceModel", "iris")["status"]["conditions"]
    return next(each["message"] for each in conditions if each["type"] == type_)


def gate(kubelet: Kubelet) -> str:
    (pod,) = kubelet.pods("iris")
    conditions = pod["status"].get("conditions", [])
    found = [each["status"] for each in conditions if each["type"] == "moorage.dev/model-ready"]
    return found[0] if found else ""


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
def test_the_bundled_runtime_passes_in_every_protocol(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    runtime: Runtime,
    protocol: str,
    transport: str,
) -> None:
    ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
    way = {"protocol": protocol, "transport": transport, "model": {"name": "digits"}}
    start(api, kubelet, ports, smokeTests=[THREE], smokeTestPolicy="Enforce", **way)

    told(api, "SmokeTestPassed", "True", "Passed")
    told(api, "Ready", "True", "Serving")
    assert gate(kubelet) == "True"


@pytest.mark.parametrize("protocol", ["OpenInference", "TensorFlowServing", "GRPS"])
def test_a_wrong_answer_is_named_in_every_protocol(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, runtime: Runtime, protocol: str
) -> None:
    wrong = {**THREE, "outputs": [{"name": "label", "data": [4]}]}
    ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
    way = {"protocol": protocol, "model": {"name": "digits"}}
    start(api, kubelet, ports, smokeTests=[wrong], smokeTestPolicy="Enforce", **way)

    message = told(api, "Ready", "False", "OutputMismatch")

    assert "smoke test three: output label, element 0: expected 4, got 3" in message
    assert gate(kubelet) in {"", "False"}


def test_a_refused_request_has_the_servers_words(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.infer_code = 400
    start(api, kubelet, {"http": server.port}, smokeTests=[HALF])

    message = told(api, "SmokeTestPassed", "False", "RequestRejected")

    assert "input x has a wrong shape" in message
    told(api, "Ready", "True", "Serving")  # the policy is Warn


def test_a_slow_answer_exceeds_its_bound(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.delay_seconds = 0.2
    late = ("moorage_smoke_runs_total", 'result="LatencyExceeded"')
    runs, seconds = operator.metric(*late), operator.metric("moorage_smoke_seconds_sum")
    slow = {**HALF, "maxLatencyMilliseconds": 100}
    start(api, kubelet, {"http": server.port}, smokeTests=[slow], smokeTestPolicy="Enforce")

    message = told(api, "Ready", "False", "LatencyExceeded")

    assert "at most 100 ms wanted" in message
    assert server.inferences == 3
    assert operator.metric(*late) == runs + 1
    assert operator.metric("moorage_smoke_seconds_sum") >= seconds + 0.6


def test_tests_that_run_are_waited_for(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    with server.held("/infer"):
        start(api, kubelet, {"http": server.port}, smokeTests=[HALF], smokeTestPolicy="Enforce")
        told(api, "Ready", "False", "Running")
        assert gate(kubelet) in {"", "False"}

    told(api, "Ready", "True", "Serving")


def test_what_passed_is_asked_again_only_of_a_new_container_or_by_edited_tests(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    health = {"pollIntervalSeconds": 1}
    pod = start(api, kubelet, {"http": server.port}, smokeTests=[HALF], health=health)
    told(api, "SmokeTestPassed", "True", "Passed")
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
    api.patch("InferenceModel", "iris", {"spec": {"smokeTests": edited}})
    eventually("asked by edited tests", lambda: server.inferences == 3)
    told(api, "SmokeTestPassed", "True", "Passed")


def test_a_replica_that_failed_is_let_in_once_it_answers_rightly(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: InferringServer
) -> None:
    server.value = 7.0
    start(api, kubelet, {"http": server.port}, smokeTests=[HALF], smokeTestPolicy="Enforce")
    assert "expected 0.5, got 7.0" in told(api, "Ready", "False", "OutputMismatch")

    server.value = 0.5

    # It is asked again ten seconds after it failed.
    eventually("let in", lambda: gate(kubelet) == "True", seconds=30)
    told(api, "Ready", "True", "Serving")
