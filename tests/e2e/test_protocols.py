"""Models over TensorFlow Serving and GRPS on real pods, and servers that speak neither."""

from typing import Any

import pytest

from support.inference import ask, routed
from support.kubectl import KIND, Kubectl
from support.manifests import digits, digits_files, inference_model, sample
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TENSOR = {"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}


def picture(expected: int) -> list[float]:
    """The 64 pixels of a digit."""
    return sample(expected)["inputs"][0]["data"]


def serve(kubectl: Kubectl, **spec: Any) -> dict[str, Any]:
    """The status of the digits model once it is Ready."""
    kubectl.apply(digits_files(), digits(**spec))
    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    return kubectl.get(KIND, "digits")["status"]


def pod(kubectl: Kubectl, name: str = "digits") -> dict[str, Any]:
    (found,) = kubectl.items("pods", f"moorage.dev/model={name}")
    return found


def conditions(of: dict[str, Any]) -> dict[str, str]:
    """Status by type."""
    return {each["type"]: each["status"] for each in of["status"].get("conditions", [])}


def test_a_model_is_served_by_tensorflow_servings_api(kubectl):
    status = serve(kubectl, protocol="TensorFlowServing")

    rows = [picture(3)[start : start + 8] for start in range(0, 64, 8)]
    answer = ask(kubectl, "digits", {"instances": [rows]})

    assert answer["predictions"][0]["label"] == 3
    assert status["protocol"]["detected"] == "TensorFlowServing"
    assert status["model"]["inputs"] == [TENSOR]
    probe = pod(kubectl)["spec"]["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/v1/models/digits/metadata"


def test_a_model_is_served_by_grps(kubectl):
    status = serve(kubectl, protocol="GRPS")

    tensor = {"name": "image", "dtype": "DT_FLOAT32", "shape": [1, 8, 8]}
    tensors = [{**tensor, "flat_float32": picture(7)}]
    answer = ask(kubectl, "digits", {"gtensors": {"tensors": tensors}})

    label = next(each for each in answer["gtensors"]["tensors"] if each["name"] == "label")
    assert label["flat_int64"] == ["7"]
    assert status["protocol"]["detected"] == "GRPS"
    assert status["model"]["inputs"] == [TENSOR]


def test_a_grps_pod_ends_without_a_failed_hook(kubectl):
    serve(kubectl, protocol="GRPS")
    name = pod(kubectl)["metadata"]["name"]

    kubectl.run("delete", "pod", name, "--wait=true", "--timeout=60s")

    events = kubectl.items("events")
    assert [each["reason"] for each in events if "PreStop" in each["reason"]] == []


@pytest.mark.parametrize("protocol", ["GRPS", "Auto"])
def test_a_model_is_polled_over_grpc(kubectl, protocol):
    status = serve(kubectl, protocol=protocol, transport="GRPC")

    assert status["protocol"]["declared"] == protocol
    assert status["endpoints"][0]["url"].startswith("grpc://")
    assert status["model"]["inputs"] == [TENSOR]
    assert "grpc" in pod(kubectl)["spec"]["containers"][0]["readinessProbe"]


def test_auto_shows_the_detected_protocol(kubectl):
    serve(kubectl, protocol="Auto")

    assert kubectl.row("digits")["PROTOCOL"] == "OpenInference"


@pytest.mark.parametrize(
    ("protocol", "reason"),
    [
        ("OpenInference", "ProtocolMismatch"),
        ("TensorFlowServing", "ProtocolMismatch"),
        ("Auto", "NoProtocolAnswered"),
    ],
)
def test_a_server_with_another_protocol_is_reported(kubectl, protocol, reason):
    runtime = {"command": ["python3", "-m", "http.server", "8000"]}
    uri = {"uri": "configmap://digits-files"}
    kubectl.apply(
        digits_files(), inference_model("digits", protocol=protocol, runtime=runtime, model=uri)
    )

    kubectl.wait_condition("digits", "Ready", "False", reason)

    assert kubectl.row("digits")["REASON"] == reason


def test_a_version_that_tensorflow_serving_lacks_is_reported(kubectl):
    model = {"uri": "configmap://digits-files", "version": "7"}
    kubectl.apply(
        digits_files(), inference_model("digits", protocol="TensorFlowServing", model=model)
    )

    kubectl.wait_condition("digits", "Ready", "False", "VersionNotServed")


def test_an_enforced_contract_keeps_a_model_from_being_ready(kubectl):
    wrong = {**TENSOR, "datatype": "FP64"}
    contract = {"policy": "Enforce", "inputs": [wrong]}
    kubectl.apply(digits_files(), digits(contract=contract))
    kubectl.wait_condition("digits", "Ready", "False", "DatatypeMismatch")
    assert conditions(pod(kubectl))["ContainersReady"] == "True"
    assert routed(kubectl, "digits") == []

    # What is enforced is part of the revision, so a new pod has to pass it.
    kubectl.apply(digits(contract={**contract, "inputs": [TENSOR]}))
    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    eventually("routed", lambda: routed(kubectl, "digits"), bool, 10)


@pytest.mark.parametrize("protocol", ["OpenInference", "TensorFlowServing", "GRPS"])
def test_a_replica_gets_traffic_once_it_has_passed_its_smoke_tests(kubectl, protocol):
    three = {
        "name": "three",
        "inputs": sample(3)["inputs"],
        "outputs": [{"name": "label", "data": [4]}],
        "maxLatencyMilliseconds": 5000,
    }
    enforced = {"policy": "Enforce", "tests": [three]}
    kubectl.apply(digits_files(), digits(protocol=protocol, smokeTests=enforced))
    found = kubectl.wait_condition("digits", "Ready", "False", "OutputMismatch")
    assert "output label, element 0: expected 4, got 3" in found["message"]
    assert conditions(pod(kubectl))["ContainersReady"] == "True"
    assert routed(kubectl, "digits") == []

    right = {**three, "outputs": [{"name": "label", "data": [3]}]}
    kubectl.apply(digits(protocol=protocol, smokeTests={**enforced, "tests": [right]}))

    kubectl.wait_condition("digits", "Ready", "True", "Serving")
    assert kubectl.condition("digits", "SmokeTestPassed")["reason"] == "Passed"
    eventually("routed", lambda: routed(kubectl, "digits"), bool, 10)


LATE_SERVER = """
import http.server, time
began = time.monotonic()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        loaded = time.monotonic() - began > 15
        code, body = 404, b"{}"
        if self.path == "/v2":
            code, body = 200, b'{"name": "late"}'
        if self.path == "/v2/models/late/ready":
            code = 200 if loaded else 503
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
"""


def test_a_pod_with_a_port_probe_waits_for_its_gate(kubectl, demo):
    operator = Kubectl(demo.env, "moorage-system").items("deployments")[0]
    image = operator["spec"]["template"]["spec"]["containers"][0]["image"]
    runtime = {"image": image, "command": ["python3", "-c", LATE_SERVER]}
    kubectl.apply(inference_model("late", protocol="Auto", runtime=runtime))

    kubectl.wait_condition("late", "ModelReady", "False")
    started = eventually(
        "the kubelet finds the container ready",
        lambda: conditions(pod(kubectl, "late")),
        lambda found: found.get("ContainersReady") == "True",
        30,
    )
    assert started["Ready"] == "False"

    kubectl.wait_condition("late", "Ready", "True", "Serving")
    found = conditions(pod(kubectl, "late"))
    assert (found["moorage.dev/model-ready"], found["Ready"]) == ("True", "True")
    assert kubectl.row("late")["PROTOCOL"] == "OpenInference"
