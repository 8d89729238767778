"""Every protocol on a real API server: the bundled runtime, other servers, and wrong answers."""

from pathlib import Path
from typing import Any

import pytest

from support.iris import gate, start
from support.operator_cluster import (
    Api,
    GrpsServer,
    Kubelet,
    Liar,
    ModelServer,
    OpenAiServer,
    OperatorProcess,
    TensorflowServer,
    eventually,
)
from support.runtime import Runtime

pytestmark = pytest.mark.integration

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "01-digits"


def waiting(kubelet: Kubelet) -> dict[str, Any] | None:
    """A pod without a status of its kubelet."""
    pods = kubelet.pods("iris")
    return next((pod for pod in pods if not pod["status"].get("podIP")), None)


def ready(api: Api) -> dict[str, Any]:
    eventually("Ready", lambda: api.condition("iris") == ("True", "Serving"))
    return api.get("InferenceModel", "iris")["status"]


def expect_ready(api: Api, reason: str, *words: str) -> None:
    """Wait until Ready has the reason, and a message with these texts."""

    def is_reported() -> bool:
        found = api.get("InferenceModel", "iris").get("status", {}).get("conditions", [])
        ready = next((item for item in found if item["type"] == "Ready"), {})
        return ready.get("reason") == reason and all(each in ready["message"] for each in words)

    eventually(f"{reason}: {words}", is_reported)


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


def test_tensorflow_serving_is_judged_by_its_states(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with TensorflowServer() as server:
        server.state = "LOADING"
        start(api, kubelet, {"http": server.port}, protocol="TensorFlowServing")
        expect_ready(api, "ModelLoading", "version 3 is in state LOADING")

        server.state, server.error = "END", "no such op: Foo"
        expect_ready(api, "ModelLoadFailed", "no such op: Foo")

        server.state, server.error = "AVAILABLE", ""
        status = ready(api)

    assert status["model"]["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert status["versionSummary"] == "3"


def test_a_grps_server_is_set_online_once_and_judged_by_its_body(
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
        (OpenAiServer, "OpenInference", "OpenAI"),
        (OpenAiServer, "TensorFlowServing", "OpenAI"),
        (ModelServer, "OpenAI", "OpenInference"),
        (TensorflowServer, "OpenAI", "TensorFlowServing"),
    ],
)
def test_a_wrong_protocol_is_reported_with_the_fields_to_change(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    kind: type[ModelServer],
    declared: str,
    spoken: str,
) -> None:
    with kind() as server:
        start(api, kubelet, {"http": server.port}, protocol=declared)

        expect_ready(
            api,
            "ProtocolMismatch",
            f"it speaks {spoken} over HTTP on port {server.port}",
            f"set protocol to {spoken}",
        )

        api.patch("InferenceModel", "iris", {"spec": {"protocol": spoken}})
        kubelet.run(eventually("a pod of the new revision", lambda: waiting(kubelet)))
        eventually("Ready", lambda: api.condition("iris")[0] == "True")


@pytest.mark.parametrize("kind", [ModelServer, TensorflowServer, GrpsServer, OpenAiServer])
def test_auto_detects_the_protocol_of_another_image(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, kind: type[ModelServer]
) -> None:
    with kind() as server:
        start(api, kubelet, {"http": server.port}, protocol="Auto")
        status = ready(api)

    expected = {
        ModelServer: "OpenInference",
        TensorflowServer: "TensorFlowServing",
        GrpsServer: "GRPS",
        OpenAiServer: "OpenAI",
    }[kind]
    assert status["protocol"]["detected"] == expected
    assert [item["protocol"] for item in status["endpoints"]] == [expected]


@pytest.mark.parametrize(
    ("code", "body"), [(200, "<html>hello</html>"), (404, ""), (200, "{}"), (400, "what?")]
)
def test_an_unknown_protocol_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, code: int, body: str
) -> None:
    with Liar(code, body) as server:
        start(api, kubelet, {"http": server.port}, protocol="Auto")

        expect_ready(
            api,
            "NoProtocolAnswered",
            "over HTTP",
            "OpenInference, TensorFlowServing, GRPS, OpenAI",
        )


def test_an_openai_server_is_ready_when_it_has_loaded_the_model_that_it_lists(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with OpenAiServer() as server:
        server.ready = False
        start(api, kubelet, {"http": server.port}, protocol="OpenAI")
        expect_ready(api, "ModelLoading", "Loading model")
        assert gate(kubelet) in {"", "False"}

        server.ready = True
        status = ready(api)
        assert gate(kubelet) == "True"

        api.patch("InferenceModel", "iris", {"spec": {"model": {"name": "rose"}}})
        kubelet.run(eventually("a pod of the new revision", lambda: waiting(kubelet)))
        eventually("not found", lambda: api.condition("iris", "ModelReady")[1] == "ModelNotFound")

    assert status["protocol"]["evidence"] == "GET /v1/models answers with a list of models"
    assert status["model"]["contextLength"] == 4096
    assert status["endpoints"][0]["url"].endswith(f":{server.port}/v1")


@pytest.mark.parametrize("protocol", ["OpenAI", "Auto"])
def test_an_openai_server_may_list_a_name_with_slashes(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, protocol: str
) -> None:
    name = "Qwen/Qwen3-8B-GGUF:Q4_K_M"
    with OpenAiServer() as server:
        server.name = name
        start(api, kubelet, {"http": server.port}, protocol=protocol, model={"name": name})
        status = ready(api)

    assert status["model"]["name"] == name
    assert status["protocol"]["detected"] == "OpenAI"
    assert status["endpoints"][0]["url"].endswith(f":{server.port}/v1")


def test_a_server_without_a_protocol_is_ready_by_its_health(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    with OpenAiServer() as server:
        server.ready = False
        ports, paths = {"http": server.port}, {"ready": "/health"}
        start(api, kubelet, ports, protocol="None", paths=paths)
        expect_ready(api, "ModelLoading", "the server is not ready yet")

        server.ready = True
        status = ready(api)

    assert status["protocol"] == {"declared": "None"}
    assert not {"model", "versionSummary", "server"} & set(status)
    assert status["endpoints"][0]["url"].endswith(f":{server.port}")


@pytest.mark.parametrize("protocol", ["OpenAI", "None"])
def test_a_smoke_test_in_json_keeps_a_wrong_replica_out_of_the_service(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, protocol: str
) -> None:
    test = {
        "name": "capital",
        "request": {
            "path": "/v1/chat/completions",
            "body": {"messages": [{"role": "user", "content": "Name the capital of France."}]},
        },
        "expect": [{"jsonPath": "choices[0].message.content", "pattern": "(?i)paris"}],
    }
    checks = {"smokeTests": {"policy": "Enforce", "tests": [test]}}
    with OpenAiServer() as server:
        server.content = "Rome."
        ports, paths = {"http": server.port}, {"ready": "/health"}
        start(api, kubelet, ports, protocol=protocol, paths=paths, **checks)
        expect_ready(
            api, "OutputMismatch", "smoke test capital: choices[0].message.content", '"Rome."'
        )
        assert gate(kubelet) in {"", "False"}

        server.content = "It is Paris."
        # The test is repeated ten seconds after its failure.
        eventually("the gate is open", lambda: gate(kubelet) == "True", seconds=30)
        ready(api)


def test_a_contract_is_compared_with_the_metadata(
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
    expect_ready(api, "DatatypeMismatch", "input x: datatype FP64 declared, FP32 served")
    assert gate(kubelet) in {"", "False"}

    inputs = [{"name": "x", "datatype": "FP32"}]
    api.patch("InferenceModel", "iris", {"spec": {"contract": {"inputs": inputs}}})
    kubelet.run(eventually("a new pod", lambda: waiting(kubelet)))
    eventually("the earlier pod is gone", lambda: len(kubelet.pods("iris")) == 1)
    eventually("open", lambda: gate(kubelet) == "True")
    ready(api)

    opened = transition(kubelet)
    operator.stop()
    operator.start()
    operator.wait_ready()
    eventually("asked again", lambda: operator.metric("moorage_polls_total") > 0)
    assert (gate(kubelet), transition(kubelet)) == ("True", opened)


def transition(kubelet: Kubelet) -> str:
    """The time of the last write of the gate."""
    return gate(kubelet, "lastTransitionTime")


def test_a_gated_pod_becomes_ready_when_the_operator_opens_its_gate(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.ready = False
    start(api, kubelet, {"http": server.port}, protocol="Auto")
    expect_ready(api, "ServerReadyModelNot", "HTTP 503")
    (pod,) = kubelet.pods("iris")
    assert pod["spec"]["readinessGates"] == [{"conditionType": "moorage.dev/model-ready"}]
    assert gate(kubelet) in {"", "False"}

    server.ready = True
    eventually("open", lambda: gate(kubelet) == "True")
    ready(api)

    server.ready = False
    api.patch("InferenceModel", "iris", {"spec": {"health": {"pollIntervalSeconds": 1}}})
    eventually("shut", lambda: gate(kubelet) == "False")
