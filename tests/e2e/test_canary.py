"""Canaries of real pods behind a real gateway, under continuous traffic, without failed requests.

The gateway runs Traefik's controller and balancer on the node. The model answers with the name of
its side, so the shares are counted from the answers of clients.
"""

import http.client
import json
import math
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from moorage_cli._generated import oip_pb2
from support.definitions import installed
from support.gateway_api import crds, gateway, gateway_process
from support.inference import in_url
from support.kubectl import KIND, Kubectl
from support.listening import free_port
from support.manifests import config_map, inference_model
from support.traffic import traffic
from support.waiting import eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.expects_restarts,
    pytest.mark.expects_errors("is not a valid ONNX model"),
]

NAME = "teller"
PODS = f"moorage.dev/model={NAME}"
CODE = b"""
import os

import numpy
from moorage_runtime.backends.python import PythonModel


class Teller(PythonModel):
    inputs = [("x", "FP32", [1])]
    outputs = [("side", "BYTES", [1])]
    left = int(os.environ.get("ANSWERS", 1 << 30))

    def predict(self, inputs, request):
        self.left -= 1
        if self.left < 0:
            os._exit(1)
        return {"side": numpy.array([os.environ["SIDE"].encode()], object)}
"""
REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}]}
STEPS = [{"weight": 20}, {"weight": 50, "pauseSeconds": 3}]
ROUTE = {"parentRefs": [{"name": "web"}]}
SECTION = {"steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
HEALTH = {"periodSeconds": 1}
NOTICED_SECONDS = 60
ENOUGH = 300  # the number of requests that distinguishes the shares
BEFORE_THE_CRASH = 20  # answers of each server


@dataclass(frozen=True)
class Routed:
    """A namespace in which the model serves behind a Gateway, and that Gateway's port."""

    kubectl: Kubectl
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v2/models/{NAME}/infer"


@pytest.fixture(scope="module")
def gateway_api(demo) -> Iterator[None]:
    """The Gateway API, installed until the last of these tests has ended."""
    with installed(Kubectl(demo.env, "default"), crds()):
        yield


@pytest.fixture
def routed(kubectl: Kubectl, gateway_api: None, tmp_path: Path) -> Iterator[Routed]:
    """A gateway, and the model up to date and routed by it."""
    port = free_port()
    kubectl.apply(*gateway("web", port))
    with gateway_process(kubectl.env, port, tmp_path):
        try:
            kubectl.apply(config_map("teller-files", {"model.py": CODE}), teller("earlier"))
            taken = ("True", "GatewayAccepted", NOTICED_SECONDS)
            kubectl.wait_condition(NAME, "RouteAccepted", *taken)
            kubectl.wait_condition(NAME, "UpToDate", "True", seconds=120)
            yield Routed(kubectl, port)
        finally:
            kubectl.run("delete", KIND, NAME, "--ignore-not-found", "--wait=true")


def teller(side: str, **environment: str) -> dict[str, Any]:
    """A model that answers `side`; with ANSWERS each of its servers crashes after this many."""
    variables = [{"name": key, "value": text} for key, text in environment.items()]
    return inference_model(
        NAME,
        model={"uri": "configmap://teller-files"},
        replicas=2,
        route=ROUTE,
        rollout=CANARY,
        health=HEALTH,
        runtime={"env": [{"name": "SIDE", "value": side}, *variables]},
    )


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    found = kubectl.items("pods", PODS)
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def answers(url: str, count: int = ENOUGH) -> Counter[str]:
    """The side that answered each of the next requests; a failure is an error."""
    request = urllib.request.Request(url, json.dumps(REQUEST).encode())
    sides: Counter[str] = Counter()
    for _ in range(count):
        with urllib.request.urlopen(request, timeout=10) as answer:
            sides[json.load(answer)["outputs"][0]["data"][0]] += 1
    return sides


def is_share(count: int, percent: int) -> bool:
    """Whether a count of ENOUGH is within four standard deviations of its expectation."""
    p = percent / 100
    return abs(count - p * ENOUGH) <= 4 * math.sqrt(ENOUGH * p * (1 - p))


def roll_out(routed: Routed, **environment: str) -> str:
    """Apply an edit and wait until its revision is at the first step."""
    kubectl = routed.kubectl
    kubectl.apply(teller("candidate", **environment))
    kubectl.wait_condition(NAME, "UpToDate", "False", "AwaitingApproval", seconds=120)
    return kubectl.get(KIND, NAME)["status"]["revisions"]["candidate"]


def approve(kubectl: Kubectl, mark: str) -> None:
    patch = json.dumps({"spec": {"rollout": {"promote": mark}}})
    kubectl.run("patch", KIND, NAME, "--type=merge", f"--patch={patch}")


def wait_alone(kubectl: Kubectl, revision: str) -> None:
    """Wait until only pods of this revision exist."""
    eventually(
        f"only {revision}",
        lambda: {revision_of(pod) for pod in pods(kubectl)},
        lambda found: found == {revision},
        60,
    )


def test_a_canary_gets_its_shares_and_is_promoted_without_a_failed_request(routed: Routed) -> None:
    kubectl = routed.kubectl
    with traffic(routed.url, REQUEST) as tally:
        assert answers(routed.url) == {"earlier": ENOUGH}
        candidate = roll_out(routed)
        shares = answers(routed.url)
        assert is_share(shares["candidate"], 20), shares
        assert ask_by_grpc(routed.port)

        approve(kubectl, f"{candidate}/1")
        kubectl.wait_condition(NAME, "UpToDate", "True", "RolloutComplete", seconds=60)
        assert answers(routed.url) == {"candidate": ENOUGH}
        wait_alone(kubectl, candidate)

    assert tally.answered > ENOUGH
    assert tally.failures == []


def test_a_bad_canary_gets_no_request(routed: Routed) -> None:
    kubectl = routed.kubectl
    bad = inference_model(
        NAME,
        model={"uri": "configmap://broken"},
        replicas=2,
        route=ROUTE,
        rollout=CANARY,
        health=HEALTH,
    )
    with traffic(routed.url, REQUEST) as tally:
        kubectl.apply(config_map("broken", {"model.onnx": b"this is no model"}), bad)
        kubectl.wait_condition(NAME, "UpToDate", "False", "RolledBack", seconds=120)

    rejected = kubectl.get(KIND, NAME)["status"]["revisions"]["rejected"]
    assert rejected["reason"] == "ModelLoadFailed"
    assert tally.answered > 50
    assert tally.failures == []


def crash(kubectl: Kubectl, candidate: str) -> None:
    """Do nothing: these servers crash because of the traffic."""


def unload(kubectl: Kubectl, candidate: str) -> None:
    """Unload the model in the servers of the canary, so that it is not ready."""
    for pod in pods(kubectl):
        if revision_of(pod) == candidate:
            url = (
                f"http://{in_url(pod['status']['podIP'])}:8000/v2/repository/models/{NAME}/unload"
            )
            with urllib.request.urlopen(url, b"{}", timeout=10) as answer:
                assert answer.status == 200


BREAKS = {
    "crashes": (crash, {"ANSWERS": str(BEFORE_THE_CRASH)}),
    "is not ready any more": (unload, {"MOORAGE_REPOSITORY_CONTROL": "true"}),
}


@pytest.mark.parametrize(("break_it", "environment"), BREAKS.values(), ids=BREAKS)
def test_a_canary_that_breaks_at_a_step_is_rolled_back(
    routed: Routed, break_it: Callable[[Kubectl, str], None], environment: dict[str, str]
) -> None:
    kubectl = routed.kubectl
    (earlier,) = {revision_of(pod) for pod in pods(kubectl)}
    candidate = roll_out(routed, **environment)

    # requests that fail meanwhile were sent to the canary before the gateway was updated
    with traffic(routed.url, REQUEST) as meanwhile:
        break_it(kubectl, candidate)
        kubectl.wait_condition(NAME, "UpToDate", "False", "RolledBack", seconds=60)
        eventually("the route is as before", lambda: weights(kubectl), lambda w: w == [100], 30)
        eventually("the gateway knows", lambda: is_earliers(routed.url), bool, 30)
    assert meanwhile.answered > len(meanwhile.failures)

    with traffic(routed.url, REQUEST) as afterwards:
        assert answers(routed.url) == {"earlier": ENOUGH}
        wait_alone(kubectl, earlier)
    assert afterwards.failures == []
    rejected = kubectl.get(KIND, NAME)["status"]["revisions"]["rejected"]
    assert rejected["revision"] == candidate
    assert " at step 1: " in rejected["message"]
    assert " at step 1: " in kubectl.condition(NAME, "UpToDate")["message"]
    assert kubectl.condition(NAME, "Ready")["reason"] == "ServingPreviousRevision"


def weights(kubectl: Kubectl) -> list[int]:
    """The shares in the route's first rule."""
    route = kubectl.get("httproute", NAME)
    return [each["weight"] for each in route["spec"]["rules"][0]["backendRefs"]]


def is_earliers(url: str) -> bool:
    """Whether the earlier revision answers several consecutive requests."""
    try:
        return answers(url, 20) == {"earlier": 20}
    except (OSError, http.client.HTTPException):
        return False


def ask_by_grpc(port: int) -> bool:
    """Whether the gateway carries a gRPC call to a server that is ready."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        ready = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelReady",
            request_serializer=oip_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=oip_pb2.ModelReadyResponse.FromString,
        )
        return ready(oip_pb2.ModelReadyRequest(name=NAME), timeout=10).ready
