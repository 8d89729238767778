"""Reasons that no other integration test covers, each from its real cause."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.dynamic.exceptions import UnprocessibleEntityError

from support.iris import expect_condition, start
from support.operator_cluster import (
    CRD,
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)
from support.runtime import running

pytestmark = pytest.mark.integration

HEALTH = {"timeoutSeconds": 1, "failureThreshold": 1}
TENSOR = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}


# ---------------------------------------------------------------------- Accepted


def test_the_operator_rejects_a_spec_that_passes_the_schema(
    operator: OperatorProcess, api: Api
) -> None:
    x = {"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3]}
    tests = {"tests": [{"name": "short", "inputs": [x]}]}
    api.apply(model("iris", runtime={"image": "example/server:1"}, smokeTests=tests))

    message = expect_condition(api, "Accepted", "False", "InvalidSpec")
    assert "spec.smokeTests.tests[0].inputs[0].data: has 3 elements" in message

    api.patch("InferenceModel", "iris", {"spec": {"smokeTests": None}})
    expect_condition(api, "Accepted", "True", "Valid")


@pytest.fixture
def crd_without_rules(api: Api) -> Iterator[None]:
    """A CRD that accepts any URI, like an older or newer version."""
    body = yaml.safe_load(CRD.read_text())
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    uri = schema["properties"]["spec"]["properties"]["model"]["properties"]["uri"]
    rules = uri.pop("x-kubernetes-validations")
    name = body["metadata"]["name"]
    api.patch("CustomResourceDefinition", name, {"spec": body["spec"]})
    yield
    uri["x-kubernetes-validations"] = rules
    api.patch("CustomResourceDefinition", name, {"spec": body["spec"]})


def test_an_unsupported_scheme_is_reported(
    operator: OperatorProcess, api: Api, crd_without_rules: None
) -> None:
    def is_taken() -> bool:
        try:
            api.apply(model("iris", model={"uri": "ftp://models/iris"}))
        except UnprocessibleEntityError:  # the API server still has the rule
            return False
        return True

    eventually("the rule is gone", is_taken)

    assert "ftp" in expect_condition(api, "Ready", "False", "UnsupportedScheme")
    api.delete("InferenceModel", "iris")


def test_a_child_refused_by_an_admission_policy_is_reported(
    operator: OperatorProcess, api: Api
) -> None:
    name = f"no-services-{api.namespace}"
    rule = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["services"],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false", "message": "no Services on Sundays"}],
            },
        }
    )
    api.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": here},
            },
        }
    )
    try:
        eventually("the policy holds", lambda: is_denied(api))
        api.apply(model("iris"))

        assert "no Services on Sundays" in expect_condition(api, "Ready", "False", "ApplyRefused")
    finally:
        api.delete("ValidatingAdmissionPolicyBinding", name)
        api.delete("ValidatingAdmissionPolicy", name)


def is_denied(api: Api) -> bool:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "probe"}}
    try:
        api.apply({**service, "spec": {"ports": [{"port": 80}]}})
    except Exception as error:  # noqa: BLE001 - refusals are distinguished by their message
        return "no Services on Sundays" in str(error)
    return False


# ---------------------------------------------------------------------- WorkloadAvailable


def test_a_suspended_model_is_reported_until_it_is_resumed(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    start(api, kubelet, {"http": server.port})
    expect_condition(api, "WorkloadAvailable", "True", "MinimumReplicasAvailable")
    expect_condition(api, "ModelReady", "True", "AllReplicasReady")

    api.patch("InferenceModel", "iris", {"spec": {"suspend": True}})

    expect_condition(api, "Ready", "False", "Suspended")
    eventually("no pods", lambda: not kubelet.pods("iris"))


def test_a_failing_readiness_probe_is_reported_as_the_cause(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    pod = start(api, kubelet, {"http": server.port}, ready=False)

    assert "readiness probe has not passed" in expect_condition(
        api, "Ready", "False", "PodNotReady"
    )

    kubelet.run(pod)
    expect_condition(api, "Ready", "True", "Serving")


def test_a_failed_download_is_reported_with_its_message(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris", model={"uri": "https://models.example/iris.onnx"}))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    (fetcher,) = pod["spec"]["initContainers"]

    kubelet.end_init(pod, fetcher, 1, "https://models.example/iris.onnx: 404 Not Found")

    assert "404 Not Found" in expect_condition(api, "Ready", "False", "ArtifactDownloadFailed")


# ---------------------------------------------------------------------- protocol and model


def test_before_the_first_answer_the_protocol_is_unknown(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))

    expect_condition(api, "ProtocolMatched", "Unknown", "AwaitingAnswer")


def test_a_closed_port_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    pod = start(api, kubelet, {"http": 1}, health=HEALTH)
    assert "127.0.0.1:1" in expect_condition(api, "Ready", "False", "ServerNotLive")

    ports = {"runtime": {"ports": {"http": server.port}}}
    api.patch("InferenceModel", "iris", {"spec": ports})
    kubelet.run(eventually("the new pod", lambda: other_than(kubelet, pod)))
    expect_condition(api, "Ready", "True", "Serving")
    expect_condition(api, "ProtocolMatched", "True", "ProtocolAnswered")


def test_a_hanging_server_is_distinguished_from_one_that_is_not_ready(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    with server.held("/ready"):
        start(api, kubelet, {"http": server.port}, health=HEALTH)
        assert "within 1 s" in expect_condition(api, "ModelReady", "Unknown", "ProbeTimeout")

    expect_condition(api, "Ready", "True", "Serving")


def test_a_missing_version_is_distinguished_from_a_missing_model(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    start(api, kubelet, {"http": server.port}, model={"version": "9"})

    assert "version 9 " in expect_condition(api, "Ready", "False", "VersionNotServed")


def other_than(kubelet: Kubelet, old: dict[str, Any]) -> dict[str, Any] | None:
    uid = old["metadata"]["uid"]
    return next((each for each in kubelet.pods("iris") if each["metadata"]["uid"] != uid), None)


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [("GRPS", "HTTP"), ("GRPS", "GRPC"), ("TensorFlowServing", "HTTP")],
)
def test_the_bundled_runtime_explains_a_failed_load_in_every_protocol(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    tmp_path: Path,
    protocol: str,
    transport: str,
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"this is no model")
    with running(f"--model-repository={tmp_path}", "--model-name=iris") as runtime:
        ports = {"http": runtime.http_port, "grpc": runtime.grpc_port}
        spec = {"runtime": {"ports": ports}, "model": {"uri": "pvc://models/iris"}}
        api.apply(model("iris", protocol=protocol, transport=transport, **spec))
        (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
        kubelet.run(pod, ready=False)

        assert "model.onnx" in expect_condition(api, "Ready", "False", "ModelLoadFailed")


# ---------------------------------------------------------------------- MetadataMatched


@pytest.mark.parametrize(
    ("contract", "reason"),
    [
        ({"inputs": [{"name": "y"}]}, "InputMissing"),
        ({"outputs": [{"name": "y"}]}, "OutputMissing"),
        ({"inputs": [{**TENSOR, "shape": [-1, 5]}]}, "ShapeMismatch"),
    ],
)
def test_a_difference_from_the_contract_has_its_reason(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    contract: dict[str, Any],
    reason: str,
) -> None:
    start(api, kubelet, {"http": server.port}, contract={"policy": "Enforce", **contract})

    expect_condition(api, "Ready", "False", reason)


def test_a_server_without_metadata_cannot_keep_a_contract(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    server.tells_metadata = False
    start(api, kubelet, {"http": server.port}, contract={"policy": "Enforce", "inputs": [TENSOR]})

    expect_condition(api, "Ready", "False", "MetadataUnsupported")


def test_missing_metadata_is_awaited(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    with server.held("/v2/models/iris"):
        patient = {"timeoutSeconds": 20}
        contract = {"policy": "Enforce", "inputs": [TENSOR]}
        start(api, kubelet, {"http": server.port}, contract=contract, health=patient)
        expect_condition(api, "Ready", "False", "AwaitingMetadata")

    expect_condition(api, "Ready", "True", "Serving")


def test_replicas_with_different_tensors_disagree(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    with ModelServer(host="127.0.0.2", port=server.port) as other:
        other.datatype = "INT32"
        runtime = {"image": "example/server:1", "ports": {"http": server.port}}
        contract = {"inputs": [{"name": "x"}]}
        api.apply(model("iris", runtime=runtime, replicas=2, contract=contract))
        pods = eventually("two pods", lambda: two(kubelet.pods("iris")))
        for pod, address in zip(pods, ("127.0.0.1", "127.0.0.2"), strict=True):
            kubelet.run(pod, address)

        message = expect_condition(api, "MetadataMatched", "False", "ReplicasDisagree")

    assert "x FP32 [-1, 4]" in message
    assert "x INT32 [-1, 4]" in message


def two(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return pods if len(pods) == 2 else []


# ---------------------------------------------------------------------- Ready, UpToDate


def test_an_earlier_revision_serves_while_the_new_one_starts(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    pod = start(api, kubelet, {"http": server.port})
    expect_condition(api, "UpToDate", "True", "RolloutComplete")

    api.patch("InferenceModel", "iris", {"spec": {"podTemplate": {"metadata": {"labels": {
        "team": "risk"
    }}}}})  # fmt: skip

    expect_condition(api, "Ready", "True", "ServingPreviousRevision")
    expect_condition(api, "UpToDate", "False", "RollingOut")
    new = eventually("the new pod", lambda: other_than(kubelet, pod))
    kubelet.run(new)
    expect_condition(api, "UpToDate", "True", "RolloutComplete")


def test_a_first_rollout_past_its_deadline_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    spec = {"runtime": {"image": "example/gone:1"}, "rollout": {"progressDeadlineSeconds": 2}}
    api.apply(model("iris", **spec))
    (pod,) = eventually("a pod", lambda: kubelet.pods("iris"))
    kubelet.wait(pod, "ImagePullBackOff", "no such image")

    assert "no such image" in expect_condition(
        api, "UpToDate", "False", "ProgressDeadlineExceeded"
    )
