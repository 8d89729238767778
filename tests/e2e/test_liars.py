"""Lying model servers as pods: none becomes Ready or gets traffic, and the operator survives."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.kubectl import KIND, Kubectl
from support.liars import LIAR
from support.manifests import inference_model
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = ROOT / "localcluster" / "cluster"
IMAGE = "moorage/liar:e2e"
HEALTH = {"periodSeconds": 1, "timeoutSeconds": 1, "failureThreshold": 2}

PROBE = {
    "name": "any",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}],
}

REQUEST = {
    "name": "any",
    "request": {"path": "/v1/chat/completions", "body": {"messages": []}},
    "expect": [{"jsonPath": "choices[0].message.content", "exists": True}],
}

# The expected reason of each server in its protocol.
LIES = [
    ("yes-while-loading", "TensorFlowServing", {"ModelLoading"}),
    ("no-only-in-the-body", "GRPS", {"ModelLoading"}),
    ("ready-when-empty", "OpenInference", {"ModelNotFound"}),
    ("ready-with-other-models", "OpenAI", {"ModelNotFound"}),
    ("hangs", "OpenInference", {"ProbeTimeout"}),
    ("drips", "OpenInference", {"ProbeTimeout"}),
    ("garbage", "OpenInference", {"ProtocolMismatch"}),
    ("redirects", "OpenInference", {"ProtocolMismatch"}),
    ("huge", "GRPS", {"ProtocolMismatch"}),
    ("deep", "Auto", {"NoProtocolAnswered"}),
    ("odd-unicode", "OpenInference", {"ModelLoading"}),
]


@pytest.fixture(scope="module")
def liar_image(demo, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program as an image on the node."""
    archive = tmp_path_factory.mktemp("liar") / "liar.tar"
    build = ["build", "--file", LIAR.parent / "Dockerfile", "--context", LIAR.parent]
    build += ["--tag", IMAGE, "--build-arg", "BASE_IMAGE=localhost/moorage-base:bookworm"]
    for words in ([*build, "--output", archive], ["load", archive]):
        done = subprocess.run(
            [sys.executable, CLUSTER, *words],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
    return IMAGE


def test_no_lying_server_is_ready_or_gets_traffic(kubectl: Kubectl, liar_image: str) -> None:
    models = [
        inference_model(
            lie,
            protocol=protocol,
            health=HEALTH,
            runtime={"image": liar_image, "args": [lie]},
            model={"name": "liar"},
            # A kubelet believes a 200, and a redirect to another host: the gate that an enforced
            # test brings keeps those out of the Service whom it finds ready.
            smokeTests={
                "policy": "Enforce",
                "tests": [REQUEST if protocol == "OpenAI" else PROBE],
            },
        )
        for lie, protocol, _ in LIES
    ]
    kubectl.apply(*models)

    for lie, _, reasons in LIES:
        found = eventually(
            f"{lie}: {reasons}",
            lambda lie=lie: kubectl.condition(lie, "Ready"),
            lambda ready, reasons=reasons: ready.get("reason") in reasons,
            120,
        )
        assert found["status"] == "False"
        assert found["message"].isprintable()

    for lie, *_ in LIES:
        conditions = kubectl.get(KIND, lie)["status"]["conditions"]
        ready = next(each for each in conditions if each["type"] == "Ready")
        assert ready["status"] == "False", lie
    routed = [
        endpoint
        for each in kubectl.items("endpointslices")
        for endpoint in each["endpoints"] or []
        if endpoint["conditions"].get("ready")
    ]
    assert routed == []


def test_without_a_protocol_only_a_smoke_test_finds_a_lie(kubectl, liar_image):
    def plain(expected: str) -> dict[str, Any]:
        test = {
            "name": "state",
            "request": {"path": "/state", "body": {}},
            "expect": [{"jsonPath": "state", "value": expected}],
        }
        return inference_model(
            "plain",
            protocol="None",
            paths={"ready": "/readyz"},
            health=HEALTH,
            runtime={"image": liar_image, "args": ["yes-while-loading"]},
            smokeTests={"policy": "Enforce", "tests": [test]},
        )

    kubectl.apply(plain("READY"))
    found = eventually(
        "the test fails",
        lambda: kubectl.condition("plain", "Ready"),
        lambda ready: ready.get("reason") == "OutputMismatch",
        120,
    )
    assert found["status"] == "False"
    assert 'state: expected "READY", got "LOADING"' in found["message"]

    kubectl.apply(plain("LOADING"))
    kubectl.wait_condition("plain", "Ready", "True", "Serving")
    status = kubectl.get(KIND, "plain")["status"]
    assert status["protocol"] == {"declared": "None"}
    assert not {"model", "versionSummary", "server"} & set(status)


def test_a_lying_server_with_a_passing_probe_is_reported_to_receive_traffic(kubectl, liar_image):
    model = inference_model(
        "redirects",
        health=HEALTH,
        runtime={"image": liar_image, "args": ["redirects"]},
        model={"name": "liar"},
    )
    kubectl.apply(model)

    found = eventually(
        "the status says so",
        lambda: kubectl.condition("redirects", "Ready"),
        lambda ready: "the replica receives traffic" in ready.get("message", ""),
        60,
    )
    assert (found["status"], found["reason"]) == ("False", "ProtocolMismatch")


def test_the_operator_survives_lying_servers(kubectl: Kubectl, demo) -> None:
    operator = Kubectl(demo.env, "moorage-system")
    (pod,) = operator.items("pods", "app.kubernetes.io/name=moorage")
    (container,) = pod["status"]["containerStatuses"]

    assert container["restartCount"] == 0
