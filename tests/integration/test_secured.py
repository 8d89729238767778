"""Models with TLS and tokens on a real API server: rights, their absence, and rotation."""

import json
import re
import ssl
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.certificates import Authority
from support.chart_rights import PROGRAMS
from support.iris import IMPATIENT, expect_condition, start
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)
from support.runtime import Runtime, running
from support.secret_volumes import SecretVolumes

pytestmark = pytest.mark.integration

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "01-digits"
SAMPLE = json.loads((DIGITS / "samples" / "digit-3.json").read_text())
THREE = {"name": "three", "inputs": SAMPLE["inputs"], "outputs": [{"name": "label", "data": [3]}]}
CONTRACT = {"inputs": [{"name": SAMPLE["inputs"][0]["name"], "datatype": "FP32"}]}
HOST = "iris.example.com"
TLS = {"tls": {"secretName": "iris-tls", "serverName": HOST}}
ACCESS = {"access": {"tokenSecretName": "iris-tokens"}}
CHECKED = {
    "model": {"name": "digits"},
    "contract": CONTRACT,
    "smokeTests": {"tests": [THREE]},
    "health": IMPATIENT,
}


@pytest.fixture(scope="module")
def volumes(tmp_path_factory: pytest.TempPathFactory) -> SecretVolumes:
    made = SecretVolumes(tmp_path_factory.mktemp("volumes"))
    made.put("iris-tls", Authority().issue(HOST).secret)
    made.put("iris-tokens", {"operator": "the-first-token"})
    made.sync("iris-tls")
    made.sync("iris-tokens")
    return made


def serving(volumes: SecretVolumes, *, tls: bool) -> Iterator[Runtime]:
    """The bundled runtime with the tokens, and perhaps the certificate."""
    options = [f"--model-repository={DIGITS}", "--model-name=digits"]
    options.append(f"--token-file={volumes.folder}/iris-tokens")
    if tls:
        options.append(f"--tls-certificate={volumes.folder}/iris-tls/tls.crt")
        options.append(f"--tls-key={volumes.folder}/iris-tls/tls.key")
    with running(*options) as made:
        yield made


@pytest.fixture(scope="module")
def secured(volumes: SecretVolumes) -> Iterator[Runtime]:
    yield from serving(volumes, tls=True)


@pytest.fixture(scope="module")
def guarded(volumes: SecretVolumes) -> Iterator[Runtime]:
    yield from serving(volumes, tls=False)


def put(api: Api, volumes: SecretVolumes, name: str) -> None:
    """Create or change a Secret in the test's namespace."""
    type_ = "kubernetes.io/tls" if name == "iris-tls" else "Opaque"
    metadata = {"name": name}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_}
    api.apply({**body, "stringData": volumes.data[name]})


def ports_of(runtime: Runtime) -> dict[str, int]:
    return {"http": runtime.http_port, "grpc": runtime.grpc_port}


def run_commands(api: Api, sentence: str) -> None:
    """Run the kubectl commands of a message as an administrator."""
    (commands,) = re.findall(r"run: (kubectl .*?) \(docs/", sentence)
    environment = {
        "PATH": f"{PROGRAMS}:/usr/bin:/bin",
        "KUBECONFIG": str(api.kubeconfig),
        "HOME": str(api.kubeconfig.parent),  # kubectl keeps a cache there
    }
    done = subprocess.run(
        ["/bin/sh", "-c", commands], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{commands}: {done.stderr}"


def test_the_commands_in_the_message_let_the_operator_verify_a_private_ca(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    secured: Runtime,
    volumes: SecretVolumes,
) -> None:
    put(api, volumes, "iris-tls")
    put(api, volumes, "iris-tokens")
    start(api, kubelet, ports_of(secured), **TLS, **ACCESS, **CHECKED)

    said = expect_condition(api, "ModelReady", "False", "CertificateNotTrusted")
    assert "is not among the CAs of the operator's image (Secret iris-tls may not be" in said
    run_commands(api, said)

    expect_condition(api, "Ready", "True", "Serving")
    eventually(
        "the contract is compared",
        lambda: api.condition("iris", "MetadataMatched") == ("True", "Matched"),
        seconds=60,
    )
    expect_condition(api, "SmokeTestPassed", "True", "Passed")
    urls = [each["url"] for each in api.get("InferenceModel", "iris")["status"]["endpoints"]]
    assert all(url.startswith("https://") for url in urls)
    text = json.dumps(api.get("InferenceModel", "iris")) + operator.log.read_text()
    assert "the-first-token" not in text
    assert "PRIVATE KEY" not in text


def test_a_model_is_ready_without_the_right_to_read_its_token_and_says_what_is_not_checked(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    guarded: Runtime,
    volumes: SecretVolumes,
) -> None:
    put(api, volumes, "iris-tokens")
    start(api, kubelet, ports_of(guarded), **ACCESS, **CHECKED)

    expect_condition(api, "Ready", "True", "Serving")
    unread = expect_condition(api, "MetadataMatched", "Unknown", "MetadataUnauthorized")
    untried = expect_condition(api, "SmokeTestPassed", "Unknown", "RequestUnauthorized")
    assert "HTTP 401 from /v2/models/digits/infer: Secret iris-tokens may not be read" in untried
    run_commands(api, unread)

    for type_, reason in (("MetadataMatched", "Matched"), ("SmokeTestPassed", "Passed")):
        eventually(
            f"{type_} is checked",
            lambda: api.condition("iris", type_) == ("True", reason),  # noqa: B023 -- called at once
            seconds=60,
        )


def test_a_protocol_without_open_paths_needs_the_token(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    guarded: Runtime,
    volumes: SecretVolumes,
) -> None:
    put(api, volumes, "iris-tokens")
    way = {"protocol": "TensorFlowServing", "health": IMPATIENT, "model": {"name": "digits"}}
    start(api, kubelet, ports_of(guarded), **ACCESS, **way)

    said = expect_condition(api, "ModelReady", "False", "Unauthorized")
    run_commands(api, said)

    expect_condition(api, "Ready", "True", "Serving")


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
def test_tls_on_one_side_only_is_reported(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, secured: Runtime, transport: str
) -> None:
    way = {"transport": transport, "health": IMPATIENT, "model": {"name": "digits"}}
    start(api, kubelet, ports_of(secured), **way)

    said = expect_condition(api, "ModelReady", "False", "TLSMismatch")

    assert "speaks TLS, but spec.tls is not set: set spec.tls.secretName" in said
    assert api.condition("iris", "ProtocolMatched")[0] == "Unknown"


def test_a_plaintext_server_is_reported_if_the_spec_sets_tls(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    start(api, kubelet, {"http": server.port}, tls={"secretName": "absent"}, health=IMPATIENT)

    said = expect_condition(api, "ModelReady", "False", "TLSMismatch")

    assert "spec.tls is set, but the server at 127.0.0.1" in said
    assert "answers in plaintext" in said


def test_a_renewed_ca_and_a_rotated_token_leave_the_model_ready(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    secured: Runtime,
    volumes: SecretVolumes,
) -> None:
    put(api, volumes, "iris-tls")
    put(api, volumes, "iris-tokens")
    # Between the failures that count, the operator reads a changed Secret at least once.
    health = {"pollIntervalSeconds": 1, "failureThreshold": 3}
    spec = {**CHECKED, "health": health}
    pod = start(api, kubelet, ports_of(secured), **TLS, **ACCESS, **spec)
    run_commands(api, expect_condition(api, "ModelReady", "False", "CertificateNotTrusted"))
    expect_condition(api, "Ready", "True", "Serving")
    expect_condition(api, "SmokeTestPassed", "True", "Passed")
    since = transition(api)
    template = api.get("Deployment", "iris")["spec"]["template"]

    # As after an update of the Secrets: the API server has the new content before the pods.
    volumes.put("iris-tls", Authority("new CA").issue(HOST).secret)
    volumes.put("iris-tokens", {"operator": f"token-{uuid.uuid4()}"})
    put(api, volumes, "iris-tls")
    put(api, volumes, "iris-tokens")
    polled(operator, 3)
    volumes.sync("iris-tls")
    volumes.sync("iris-tokens")
    eventually("the runtime has the certificate", lambda: trusts(secured, volumes))
    polled(operator, 3)

    assert transition(api) == since
    assert api.condition("iris") == ("True", "Serving")
    assert [each["metadata"]["uid"] for each in kubelet.pods("iris")] == [pod["metadata"]["uid"]]
    assert api.get("Deployment", "iris")["spec"]["template"] == template


def test_another_secret_starts_a_rollout(
    operator: OperatorProcess, api: Api, kubelet: Kubelet
) -> None:
    api.apply(model("iris", runtime={"image": "example/server:1"}, tls={"secretName": "a"}))
    first = eventually("a pod", lambda: kubelet.pods("iris"))[0]
    api.apply(model("iris", runtime={"image": "example/server:1"}, tls={"secretName": "b"}))

    eventually("a pod of another revision", lambda: len(kubelet.pods("iris")) == 2)

    assert first["spec"]["volumes"] == [
        {"name": "tls", "secret": {"secretName": "a", "defaultMode": 420}}
    ]


def transition(api: Api) -> str:
    """When Ready changed last."""
    conditions: list[dict[str, Any]] = api.get("InferenceModel", "iris")["status"]["conditions"]
    return next(each["lastTransitionTime"] for each in conditions if each["type"] == "Ready")


def polled(operator: OperatorProcess, count: int) -> None:
    """Wait for further polls of the model, all of them successful."""
    before = operator.metric("moorage_polls_total")
    eventually("polls", lambda: operator.metric("moorage_polls_total") >= before + count)


def trusts(runtime: Runtime, volumes: SecretVolumes) -> bool:
    """Whether the runtime has the certificate of the Secret."""
    context = ssl.create_default_context(cadata=volumes.data["iris-tls"]["ca.crt"])
    context.check_hostname = False
    try:
        return httpx.get(f"https://{runtime.http}/v2/health/live", verify=context).is_success
    except httpx.ConnectError:
        return False
