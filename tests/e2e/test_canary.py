"""Canaries of real pods behind a real gateway, under traffic without a pause: nobody notices.

The gateway runs Traefik's controller and balancer on the node. Which revision answered is told by
the counters of its pods.
"""

import math
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from moorage_cli._generated import oip_pb2
from support.gateway_api import crds, gateway, gateway_process
from support.kubectl import KIND, Kubectl
from support.listening import free_port
from support.manifests import config_map, digits, digits_files, inference_model, sample
from support.traffic import traffic
from support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PODS = "moorage.dev/model=digits"
STEPS = [{"weight": 20}, {"weight": 50, "pauseSeconds": 3}]
SECTION = {"parentRefs": [{"name": "web"}], "steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
EDITED = {"env": [{"name": "EDITED", "value": "1"}]}
OK = re.compile(r'^moorage_inferences_total\{[^}]*outcome="ok"[^}]*\} (\S+)$', re.MULTILINE)
NOTICED_SECONDS = 60
ENOUGH = 300  # requests for which a share is told from another


@dataclass(frozen=True)
class Routed:
    """A namespace in which the model serves behind a Gateway, and that Gateway's port."""

    kubectl: Kubectl
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v2/models/digits/infer"


@pytest.fixture
def routed(kubectl: Kubectl, tmp_path: Path) -> Iterator[Routed]:
    """The Gateway API, a gateway, and the digits model up to date and routed by it."""
    definitions, port = crds(), free_port()
    kubectl.apply(*definitions)
    try:
        names = [f"crd/{each['metadata']['name']}" for each in definitions]
        kubectl.run("wait", "--for=condition=Established", "--timeout=30s", *names)
        kubectl.apply(*gateway("web", port))
        with gateway_process(kubectl.env, port, tmp_path):
            kubectl.apply(digits_files(), digits(replicas=2, rollout=CANARY))
            taken = ("True", "GatewayAccepted", NOTICED_SECONDS)
            kubectl.wait_condition("digits", "RouteAccepted", *taken)
            kubectl.wait_condition("digits", "UpToDate", "True", seconds=120)
            yield Routed(kubectl, port)
    finally:
        kubectl.run("delete", KIND, "digits", "--ignore-not-found", "--wait=true")
        kubectl.run("delete", "crd", *(each["metadata"]["name"] for each in definitions))


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    found = kubectl.items("pods", PODS)
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def answered(kubectl: Kubectl) -> dict[str, float]:
    """How many requests the pods of each revision have answered."""
    told: dict[str, float] = {}
    for pod in pods(kubectl):
        url = f"http://{pod['status']['podIP']}:8000/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            count = sum(map(float, OK.findall(answer.read().decode())))
        told[revision_of(pod)] = told.get(revision_of(pod), 0) + count
    return told


def share_of(kubectl: Kubectl, revision: str) -> tuple[int, int]:
    """How many of the next requests that revision answers, and of how many."""
    before = answered(kubectl)

    def more() -> dict[str, float]:
        now = answered(kubectl)
        return {each: count - before.get(each, 0) for each, count in now.items()}

    told = eventually("requests", more, lambda seen: sum(seen.values()) >= ENOUGH, 60)
    return int(told.get(revision, 0)), int(sum(told.values()))


def is_share(count: int, total: int, percent: int) -> bool:
    """Whether a count is within four standard deviations of its expectation."""
    p = percent / 100
    return abs(count - p * total) <= 4 * math.sqrt(total * p * (1 - p))


def roll_out(routed: Routed) -> str:
    """An edit, whose revision stands at the first step when this returns."""
    kubectl = routed.kubectl
    kubectl.apply(digits(replicas=2, rollout=CANARY, runtime=EDITED))
    kubectl.wait_condition("digits", "UpToDate", "False", "AwaitingApproval", seconds=120)
    return kubectl.get(KIND, "digits")["status"]["revisions"]["candidate"]


def approve(kubectl: Kubectl, mark: str) -> None:
    mark = f"moorage.dev/canary-approved={mark}"
    kubectl.run("annotate", KIND, "digits", "--overwrite", mark)


def test_a_canary_gets_its_shares_and_is_promoted_without_a_failed_request(routed: Routed) -> None:
    kubectl = routed.kubectl
    (earlier,) = {revision_of(pod) for pod in pods(kubectl)}
    with traffic(routed.url, sample(3)) as tally:
        assert share_of(kubectl, earlier)[0] >= ENOUGH
        candidate = roll_out(routed)
        count, total = share_of(kubectl, candidate)
        assert is_share(count, total, 20), f"{count} of {total}"
        assert ask_by_grpc(routed.port)

        approve(kubectl, f"{candidate}-1")
        kubectl.wait_condition("digits", "UpToDate", "True", "RolloutComplete", seconds=60)
        count, total = share_of(kubectl, candidate)
        assert count == total
        eventually(
            "only the new",
            lambda: {revision_of(pod) for pod in pods(kubectl)},
            lambda found: found == {candidate},
            60,
        )

    assert tally.answered > 4 * ENOUGH
    assert tally.failures == []


def test_a_bad_canary_gets_no_request(routed: Routed) -> None:
    kubectl = routed.kubectl
    bad = inference_model(
        "digits",
        model={"uri": "configmap://broken"},
        replicas=2,
        rollout=CANARY,
        health={"periodSeconds": 1},
    )
    with traffic(routed.url, sample(3)) as tally:
        kubectl.apply(config_map("broken", {"model.onnx": b"this is no model"}), bad)
        kubectl.wait_condition("digits", "UpToDate", "False", "RolledBack", seconds=120)

    rejected = kubectl.get(KIND, "digits")["status"]["revisions"]["rejected"]
    assert rejected["reason"] == "ModelLoadFailed"
    assert tally.answered > 50
    assert tally.failures == []


def ask_by_grpc(port: int) -> bool:
    """Whether the gateway carries a gRPC call to a server that is ready."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ready = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelReady",
            request_serializer=oip_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=oip_pb2.ModelReadyResponse.FromString,
        )
        return ready(oip_pb2.ModelReadyRequest(name="digits"), timeout=10).ready
