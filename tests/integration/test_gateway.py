"""Canaries behind a real gateway, which runs Traefik's controller and balancer: who got what.

Pods are the words of a kubelet here, on a node that nobody runs; what the gateway sends requests
to are two servers of the test, at an address of this machine that may be a pod's.
"""

import math
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.gateway_api import crds, gateway, gateway_process
from support.listening import free_port
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration

STEPS = [{"weight": 20}, {"weight": 50, "pauseSeconds": 1}]
SECTION = {"parentRefs": [{"name": "web"}], "steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
IMPATIENT = {"periodSeconds": 1, "failureThreshold": 1, "pollIntervalSeconds": 1}
ASKED, COUNTED = "/v2/health/live?asked", "/v2/health/live?counted"
TRIED = 200  # requests for which a share is told from another


def own_address() -> str:
    """An address of this machine that is not the loopback's; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("192.0.2.1", 9))
        return sender.getsockname()[0]


@pytest.fixture(scope="module")
def gateway_api(kubeconfig: Path) -> Iterator[None]:
    """The Gateway API is installed."""
    definitions, api = crds(), Api(kubeconfig, "default")
    of = api.of("CustomResourceDefinition")
    for each in definitions:
        of.create(body=each)
    yield
    for each in definitions:
        of.delete(name=each["metadata"]["name"])


@pytest.fixture
def port(
    gateway_api: None, kubeconfig: Path, operator: OperatorProcess, api: Api, tmp_path: Path
) -> Iterator[int]:
    """The port of a gateway whose routes are those of the test's namespace."""
    del gateway_api
    found, kind = free_port(), 'kind="HTTPRoute"'
    eventually(
        "routes are watched",
        lambda: operator.metric("moorage_optional_kinds", kind) == 1,
        seconds=40,
    )
    installed = Api(kubeconfig, api.namespace)
    with gateway_process({"KUBECONFIG": str(kubeconfig)}, found, tmp_path):
        for each in gateway("web", found):
            installed.apply(each)
        yield found


@pytest.fixture
def node(api: Api) -> Iterator[str]:
    """A node, for a pod without one gets no request; its controller misses no heartbeat yet."""
    name = f"node-of-{api.namespace}"
    api.of("Node").create(body={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield name
    api.of("Node").delete(name=name)


def start(
    api: Api, kubelet: Kubelet, image: str, node: str, server: ModelServer
) -> dict[str, Any]:
    """The pod of the image, scheduled and ready, with the server behind its address."""
    pod = pod_of(kubelet, image)
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    named = {"name": pod["metadata"]["name"]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": named, "target": target}
    where = {"namespace": api.namespace, **named}
    api.of("Pod").subresources["binding"].create(body=binding, **where)
    kubelet.run(pod, server.host)
    return pod


@pytest.fixture
def servers() -> Iterator[tuple[ModelServer, ModelServer]]:
    """The servers of the earlier revision and of the new one."""
    host = own_address()
    with ModelServer(host=host) as earlier, ModelServer(host=host) as new:
        yield earlier, new


def iris(server: ModelServer, image: str) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": server.port}}
    return model("iris", runtime=runtime, health=IMPATIENT, rollout=CANARY)


def pod_of(kubelet: Kubelet, image: str) -> dict[str, Any]:
    def found() -> list[dict[str, Any]]:
        pods = kubelet.pods("iris")
        return [pod for pod in pods if pod["spec"]["containers"][0]["image"] == image]

    return eventually(f"a pod of {image}", found)[0]


def alive(kubelet: Kubelet) -> list[dict[str, Any]]:
    return [pod for pod in kubelet.pods("iris") if "deletionTimestamp" not in pod["metadata"]]


def ask(port: int, path: str = ASKED) -> int:
    """The status of one request through the gateway."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def served(api: Api, kubelet: Kubelet, node: str, server: ModelServer, port: int) -> None:
    """The earlier revision serves behind the gateway."""
    api.apply(iris(server, "example/good:1"))
    start(api, kubelet, "example/good:1", node, server)
    eventually("up to date", lambda: api.condition("iris", "UpToDate")[0] == "True")
    accepted = ("True", "GatewayAccepted")
    eventually("accepted", lambda: api.condition("iris", "RouteAccepted") == accepted)
    eventually("routed", lambda: ask(port) == 200)


@contextmanager
def requests_without_a_pause(port: int) -> Iterator[list[int]]:
    """Their statuses, from the start of the block to its end."""
    told: list[int] = []
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(0.005):
            told.append(ask(port))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield told
    finally:
        ended.set()
        thread.join(20)


def share(server: ModelServer, port: int) -> int:
    """How many of the next requests the server gets."""
    before = server.requests.count(COUNTED)
    assert {ask(port, COUNTED) for _ in range(TRIED)} == {200}
    return server.requests.count(COUNTED) - before


def is_share(count: int, percent: int) -> bool:
    """Whether a count is within four standard deviations of its expectation."""
    p = percent / 100
    return abs(count - p * TRIED) <= 4 * math.sqrt(TRIED * p * (1 - p))


def test_requests_are_shared_by_weight_and_none_fails_until_the_canary_has_all(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, new = servers
    served(api, kubelet, node, earlier, port)
    with requests_without_a_pause(port) as told:
        api.apply(iris(new, "example/good:2"))
        pod_of(kubelet, "example/good:2")
        assert share(new, port) == 0
        pod = start(api, kubelet, "example/good:2", node, new)
        waits = ("False", "AwaitingApproval")
        eventually("the first step", lambda: api.condition("iris", "UpToDate") == waits)
        count = share(new, port)
        assert is_share(count, 20), f"{count} of {TRIED}"

        revision = pod["metadata"]["labels"]["moorage.dev/revision"]
        mark = {"moorage.dev/canary-approved": revision}
        api.patch("InferenceModel", "iris", {"metadata": {"annotations": mark}})
        complete = ("True", "RolloutComplete")
        eventually("promoted", lambda: api.condition("iris", "UpToDate") == complete)
        assert share(new, port) == TRIED
        eventually("the earlier is told to end", lambda: len(alive(kubelet)) == 1)
        assert share(new, port) == TRIED

    assert len(told) > TRIED
    assert set(told) == {200}


def test_a_canary_that_is_not_ready_gets_no_request_and_one_that_stops_no_further(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, new = servers
    served(api, kubelet, node, earlier, port)
    new.ready = False

    api.apply(iris(new, "example/bad:1"))
    pod = start(api, kubelet, "example/bad:1", node, new)
    loading = "takes 0 percent"
    eventually("it waits", lambda: loading in message(api))
    assert share(new, port) == 0

    new.ready = True
    waits = ("False", "AwaitingApproval")
    eventually("the first step", lambda: api.condition("iris", "UpToDate") == waits)
    assert share(new, port) > 0
    kubelet.run(pod, new.host, ready=False)
    back = ("False", "RolledBack")
    eventually("rolled back", lambda: api.condition("iris", "UpToDate") == back)
    eventually("nothing", lambda: share(new, port) == 0)


def message(api: Api) -> str:
    conditions = api.get("InferenceModel", "iris")["status"]["conditions"]
    return next(each["message"] for each in conditions if each["type"] == "UpToDate")
