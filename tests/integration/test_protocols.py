"""Every protocol on a real API server: the bundled runtime, other servers, and some that lie."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.operator_cluster import (
    Api,
    GrpsServer,
    Kubelet,
    Liar,
    ModelServer,
    OperatorProcess,
    TensorflowServer,
    eventually,
    model,
)
from support.runtime import Runtime, running

pytestmark = pytest.mark.integration

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "01-digits"


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    """The bundled runtime with the digits model."""
    with running(f"--model-repository={DIGITS}", "--model-name=digits") as made:
        yield made


def start(api: Api, kubelet: Kubelet, ports: dict[str, int], **spec: Any) -> None:
    """A model of another image whose one pod runs at these ports of this machine."""
    api.apply(model("iris", runtime={"image": "example/server:1", "ports": ports}, **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.run(pod)


def waiting(kubelet: Kubelet) -> dict[str, Any] | None:
    """A pod that no kubelet has reported of."""
    pods = kubelet.pods("iris")
    return next((pod for pod in pods if not pod["status"].get("podIP")), None)


def ready(api: Api) -> dict[str, Any]:
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    return api.get("InferenceModel", "iris")["status"]


def told(api: Api, reason: str, *words: str) -> None:
    """Wait until Ready has the reason, and a message with the words."""

    def is_told() -> bool:
        found = api.get("InferenceModel", "iris").get("status", {}).get("conditions", [])
        ready = next((item for item in found if item["type"] == "Ready"), {})
        return ready.get("reason") == reason and all(each in ready["message"] for each in words)

    eventually(f"{reason}: {words}", is_told)


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [
        ("OpenInference", "HTTP"),
        ("OpenInference", "GRPC"),
        ("TensorFlowServing", "HTTP"),
        ("GRPS", "HTTP"),
        ("GRPS", "GRPC"),
        ("Auto", "HTTP"),
        ("Auto", "GRPC"),
    ],
)
def test_the_bundled_runtime_is_ready_in_every_protocol(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    runtime: Runtime,
    protocol: str,
    transport: str,
) -> None:
    ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
    spec = {"protocol": protocol, "transport": transport, "model": {"name": "digits"}}
    start(api, kubelet, ports, **spec)

    status = ready(api)

    spoken = "OpenInference" if protocol == "Auto" else protocol
    assert status["protocol"]["declared"] == protocol
    assert status["protocol"]["detected"] == spoken
    assert "answers" in status["protocol"]["evidence"] or "lists" in status["protocol"]["evidence"]
    assert status["endpoints"][0]["protocol"] == spoken
    assert status["model"]["versions"] == ["1"]
    (tensor,) = status["model"]["inputs"]
    assert (tensor["datatype"], tensor["shape"]) == ("FP32", [-1, 8, 8])


def test_tensorflow_serving_is_believed_by_its_states(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with TensorflowServer() as server:
        server.state = "LOADING"
        start(api, kubelet, {"http": server.port}, protocol="TensorFlowServing")
        told(api, "ModelLoading", "version 3 is in state LOADING")

        server.state, server.error = "END", "no such op: Foo"
        told(api, "ModelLoadFailed", "no such op: Foo")

        server.state, server.error = "AVAILABLE", ""
        status = ready(api)

    assert status["model"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert status["versionSummary"] == "3"


def test_a_grps_server_is_brought_online_once_and_believed_by_its_body(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with GrpsServer() as server:
        start(api, kubelet, {"http": server.port}, protocol="GRPS")
        status = ready(api)
        assert status["model"]["versions"] == ["1.10"]

        server.online = False
        api.patch("InferenceModel", "iris", {"spec": {"health": {"pollIntervalSeconds": 1}}})
        eventually("not ready", lambda: api.condition("iris", "ModelReady")[0] == "False")

        assert server.requests.count("/grps/v1/health/online") == 1


@pytest.mark.parametrize(
    ("kind", "declared", "spoken"),
    [
        (ModelServer, "TensorFlowServing", "OpenInference"),
        (ModelServer, "GRPS", "OpenInference"),
        (TensorflowServer, "OpenInference", "TensorFlowServing"),
        (GrpsServer, "OpenInference", "GRPS"),
        (GrpsServer, "TensorFlowServing", "GRPS"),
    ],
)
def test_a_wrong_declaration_is_answered_with_what_to_write(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    kind: type[ModelServer],
    declared: str,
    spoken: str,
) -> None:
    with kind() as server:
        start(api, kubelet, {"http": server.port}, protocol=declared)

        told(
            api,
            "ProtocolMismatch",
            f"it speaks {spoken} over HTTP on port {server.port}",
            f"set protocol to {spoken}",
        )

        api.patch("InferenceModel", "iris", {"spec": {"protocol": spoken}})
        kubelet.run(eventually("a pod of the new revision", lambda: waiting(kubelet)))
        eventually("Ready", lambda: api.condition("iris")[0] == "True")


@pytest.mark.parametrize("kind", [ModelServer, TensorflowServer, GrpsServer])
def test_auto_finds_out_what_another_image_speaks(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, kind: type[ModelServer]
) -> None:
    with kind() as server:
        start(api, kubelet, {"http": server.port}, protocol="Auto")
        status = ready(api)

    expected = {
        ModelServer: "OpenInference",
        TensorflowServer: "TensorFlowServing",
        GrpsServer: "GRPS",
    }[kind]
    assert status["protocol"]["detected"] == expected
    assert [item["protocol"] for item in status["endpoints"]] == [expected]


@pytest.mark.parametrize(
    ("code", "body"), [(200, "<html>hello</html>"), (404, ""), (200, "{}"), (400, "what?")]
)
def test_a_server_that_speaks_nothing_known_is_told_so(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, code: int, body: str
) -> None:
    with Liar(code, body) as server:
        start(api, kubelet, {"http": server.port}, protocol="Auto")

        told(
            api,
            "NoProtocolAnswered",
            "in no protocol over HTTP",
            "OpenInference, TensorFlowServing, GRPS",
        )


def test_a_contract_is_compared_with_what_the_replica_tells(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    contract = {"inputs": [{"name": "x", "datatype": "FP64"}]}
    start(api, kubelet, {"http": server.port}, contract=contract)
    ready(api)
    assert api.condition("iris", "MetadataMatched") == ("False", "DatatypeMismatch")

    inputs = [{"name": "x", "datatype": "FP32", "shape": [1, 4]}]
    api.patch("InferenceModel", "iris", {"spec": {"contract": {"inputs": inputs}}})
    eventually("kept", lambda: api.condition("iris", "MetadataMatched") == ("True", "Matched"))


def test_an_enforced_contract_keeps_a_replica_out_of_the_service(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    contract = {"policy": "Enforce", "inputs": [{"name": "x", "datatype": "FP64"}]}
    start(api, kubelet, {"http": server.port}, contract=contract)
    told(api, "DatatypeMismatch", "input x: datatype FP64 declared, FP32 served")
    assert gate(kubelet) in {"", "False"}

    inputs = [{"name": "x", "datatype": "FP32"}]
    api.patch("InferenceModel", "iris", {"spec": {"contract": {"inputs": inputs}}})
    eventually("open", lambda: gate(kubelet) == "True")
    ready(api)

    opened = transition(kubelet)
    operator.stop()
    operator.start()
    operator.wait_ready()
    eventually("asked again", lambda: operator.metric("moorage_polls_total") > 0)
    assert (gate(kubelet), transition(kubelet)) == ("True", opened)


def gate(kubelet: Kubelet, field: str = "status") -> str:
    (pod,) = kubelet.pods("iris")
    conditions = pod["status"].get("conditions", [])
    found = [each[field] for each in conditions if each["type"] == "moorage.dev/model-ready"]
    return found[0] if found else ""


def transition(kubelet: Kubelet) -> str:
    """When the gate was written last."""
    return gate(kubelet, "lastTransitionTime")


def test_a_pod_whose_kubelet_is_blind_is_ready_when_the_operator_says_so(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready = False
    start(api, kubelet, {"http": server.port}, protocol="Auto")
    told(api, "ServerReadyModelNot", "HTTP 503")
    (pod,) = kubelet.pods("iris")
    assert pod["spec"]["readinessGates"] == [{"conditionType": "moorage.dev/model-ready"}]
    assert gate(kubelet) in {"", "False"}

    server.ready = True
    eventually("open", lambda: gate(kubelet) == "True")
    ready(api)

    server.ready = False
    api.patch("InferenceModel", "iris", {"spec": {"health": {"pollIntervalSeconds": 1}}})
    eventually("shut", lambda: gate(kubelet) == "False")
