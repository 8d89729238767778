"""Models behind a real gateway, with Traefik's controllers and balancer: shares, gRPC and URLs.

The kubelet is simulated, on a node that does not exist. The gateway sends requests to two servers
of the test, at addresses of this machine that are used as pod addresses.
"""

import math
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import grpc
import pytest

from moorage_cli._generated import oip_pb2
from support import quick_watches
from support.chart_rights import operators_kubeconfig
from support.gateway_api import ADDRESS, accept, crds, gateway, gateway_process, ingress_class
from support.iris import IMPATIENT, alive, expect_condition, message, pod_of
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
ROUTE = {"parentRefs": [{"name": "web"}]}
SECTION = {"steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
ASKED, COUNTED = "/v2/health/live?asked", "/v2/health/live?counted"
TRIED = 200  # the number of requests that distinguishes the shares


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
    """A node, because a pod without one gets no requests; its heartbeat is not overdue yet."""
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
    return model("iris", runtime=runtime, health=IMPATIENT, route=ROUTE, rollout=CANARY)


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
    """The statuses of continuous requests during the block."""
    statuses: list[int] = []
    ended = threading.Event()

    def go_on() -> None:
        while not ended.wait(0.005):
            statuses.append(ask(port))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield statuses
    finally:
        ended.set()
        thread.join(20)


def share(server: ModelServer, port: int) -> int:
    """The number of the next requests that the server gets."""
    before = server.requests.count(COUNTED)
    assert {ask(port, COUNTED) for _ in range(TRIED)} == {200}
    return server.requests.count(COUNTED) - before


def is_share(count: int, percent: int) -> bool:
    """Whether a count is within four standard deviations of its expectation."""
    p = percent / 100
    return abs(count - p * TRIED) <= 4 * math.sqrt(TRIED * p * (1 - p))


def test_requests_are_split_by_weight_without_failures(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, new = servers
    served(api, kubelet, node, earlier, port)
    with requests_without_a_pause(port) as statuses:
        api.apply(iris(new, "example/good:2"))
        pod_of(kubelet, "example/good:2")
        assert share(new, port) == 0
        pod = start(api, kubelet, "example/good:2", node, new)
        waits = ("False", "AwaitingApproval")
        eventually("the first step", lambda: api.condition("iris", "UpToDate") == waits)
        count = share(new, port)
        assert is_share(count, 20), f"{count} of {TRIED}"

        revision = pod["metadata"]["labels"]["moorage.dev/revision"]
        api.patch("InferenceModel", "iris", {"spec": {"rollout": {"promote": revision}}})
        complete = ("True", "RolloutComplete")
        eventually("promoted", lambda: api.condition("iris", "UpToDate") == complete)
        assert share(new, port) == TRIED
        eventually("the earlier pod terminates", lambda: len(alive(kubelet)) == 1)
        assert share(new, port) == TRIED

    assert len(statuses) > TRIED
    assert set(statuses) == {200}


def test_a_canary_gets_no_requests_unless_it_is_ready(
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
    loading = "receives 0 percent"
    eventually("it waits", lambda: loading in message(api, "UpToDate"))
    assert share(new, port) == 0

    new.ready = True
    waits = ("False", "AwaitingApproval")
    eventually("the first step", lambda: api.condition("iris", "UpToDate") == waits)
    assert share(new, port) > 0
    kubelet.run(pod, new.host, ready=False)
    back = ("False", "RolledBack")
    eventually("rolled back", lambda: api.condition("iris", "UpToDate") == back)
    eventually("nothing", lambda: share(new, port) == 0)


def exposed(server: ModelServer, grpc_port: int = 8001, **route: Any) -> dict[str, Any]:
    """The model with this route, and without a canary."""
    runtime = {"image": "example/good:1", "ports": {"http": server.port, "grpc": grpc_port}}
    return model("iris", runtime=runtime, health=IMPATIENT, **({"route": route} if route else {}))


def status(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris")["status"]


def ask_host(port: int, host: str) -> int:
    """The status of a request for a host name that no DNS server knows."""
    address = f"http://{ADDRESS}:{port}{ASKED}"
    request = urllib.request.Request(address, headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_the_url_is_that_of_the_gateway_while_the_gateway_exists(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, _ = servers
    served(api, kubelet, node, earlier, port)
    url = eventually("a URL", lambda: status(api).get("url"))
    assert url == f"http://{ADDRESS}:{port}"
    with urllib.request.urlopen(f"{url}{ASKED}", timeout=10) as answer:
        assert answer.status == 200
    (inference, *_) = status(api)["externalEndpoints"]
    assert inference["url"] == f"{url}/v2/models/iris/infer"

    installed = Api(api.kubeconfig, api.namespace)
    installed.delete("Gateway", "web")
    expect_condition(api, "RouteAccepted", "Unknown", "AwaitingGateway")
    assert "does not exist" in message(api, "RouteAccepted")
    assert "url" not in status(api)

    for each in gateway("web", port):
        installed.apply(each)
    eventually("the URL is back", lambda: status(api).get("url") == url)


@pytest.fixture
def operator_of_namespace(
    gateway_api: None, operator: OperatorProcess, api: Api, tmp_path: Path
) -> Iterator[str]:
    """An operator with rights in the namespace of the test alone; the name of its Role."""
    del gateway_api
    release, program = "moorage-of-one", (Path(quick_watches.__file__),)
    rights = operators_kubeconfig(api.kubeconfig, tmp_path, [api.namespace], release=release)
    options = ("--namespaces", api.namespace)
    with operator.held():
        other = OperatorProcess(rights, tmp_path / "log", options, program=program)
        other.start()
        try:
            other.wait_ready()
            yield f"{release}-operator"
        finally:
            other.stop()


def test_a_gateway_that_the_operator_may_no_longer_read_gives_no_url(
    operator_of_namespace: str, api: Api
) -> None:
    installed = Api(api.kubeconfig, api.namespace)
    for each in gateway("web", 80):
        installed.apply(each)
    reported = [{"type": "IPAddress", "value": "192.0.2.7"}]
    installed.patch_status("Gateway", "web", {"addresses": reported})
    api.apply(model("iris", runtime={"image": "example/server:1"}, route=ROUTE))
    eventually("a route", lambda: installed.get("HTTPRoute", "iris"))
    accept(installed, "iris", ROUTE["parentRefs"][0])
    expect_condition(api, "RouteAccepted", "True", "GatewayAccepted")
    eventually("a URL", lambda: status(api).get("url") == "http://192.0.2.7", seconds=40)

    role = api.get("Role", operator_of_namespace)
    without = [
        {**rule, "resources": [each for each in rule["resources"] if each != "gateways"]}
        for rule in role["rules"]
    ]
    api.patch(
        "Role", operator_of_namespace, {"rules": [each for each in without if each["resources"]]}
    )

    eventually("no URL", lambda: "url" not in status(api), seconds=40)
    said = expect_condition(api, "RouteAccepted", "True", "GatewayAccepted")
    assert f"omits Gateway {api.namespace}/web, which the operator may not read" in said

    api.patch("Role", operator_of_namespace, {"rules": role["rules"]})
    eventually("a URL", lambda: status(api).get("url") == "http://192.0.2.7", seconds=40)


class GrpcServer:
    """A gRPC server that answers ModelReady and remembers the host that clients asked for."""

    def __init__(self, host: str) -> None:
        self._server = grpc.server(ThreadPoolExecutor(2))
        handler = grpc.unary_unary_rpc_method_handler(
            lambda *_: oip_pb2.ModelReadyResponse(ready=True),
            oip_pb2.ModelReadyRequest.FromString,
            oip_pb2.ModelReadyResponse.SerializeToString,
        )
        service = "inference.GRPCInferenceService"
        handlers = grpc.method_handlers_generic_handler(service, {"ModelReady": handler})
        self._server.add_generic_rpc_handlers((handlers,))
        self.port = self._server.add_insecure_port(f"{host}:0")

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None)


def call_grpc(port: int, host: str) -> grpc.StatusCode:
    """The code of a gRPC call through the gateway for a host name."""
    options = [("grpc.default_authority", host)]
    with grpc.insecure_channel(f"{ADDRESS}:{port}", options=options) as channel:
        ready = channel.unary_unary(
            "/inference.GRPCInferenceService/ModelReady",
            request_serializer=oip_pb2.ModelReadyRequest.SerializeToString,
            response_deserializer=oip_pb2.ModelReadyResponse.FromString,
        )
        try:
            answer = ready(oip_pb2.ModelReadyRequest(name="iris"), timeout=10)
        except grpc.RpcError as error:
            return error.code()
        return grpc.StatusCode.OK if answer.ready else grpc.StatusCode.UNKNOWN


def test_grpc_has_a_route_and_a_host_of_its_own(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, _ = servers
    own = {"hostnames": ["iris.example.com"], "grpc": {"hostnames": ["grpc.example.com"]}}
    installed = Api(api.kubeconfig, api.namespace)
    with GrpcServer(own_address()) as server:
        api.apply(exposed(earlier, server.port, **ROUTE, **own))
        start(api, kubelet, "example/good:1", node, earlier)
        expect_condition(api, "RouteAccepted", "True", "GatewayAccepted")
        ok = grpc.StatusCode.OK
        eventually("gRPC is routed", lambda: call_grpc(port, "grpc.example.com") is ok)
        eventually("HTTP is routed", lambda: ask_host(port, "iris.example.com") == 200)

        assert call_grpc(port, "iris.example.com") is not ok
        assert len(installed.get("HTTPRoute", "iris")["spec"]["rules"]) == 1
        assert status(api)["url"] == f"http://iris.example.com:{port}"

        del own["grpc"]
        api.apply(exposed(earlier, server.port, **ROUTE, **own))
        eventually("no GRPCRoute", lambda: not installed.get("GRPCRoute", "iris"))
        eventually("one route for both", lambda: call_grpc(port, "iris.example.com") is ok)
        expect_condition(api, "RouteAccepted", "True", "GatewayAccepted")


def test_a_gateway_that_refuses_one_of_the_routes_is_reported(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    installed = Api(api.kubeconfig, api.namespace)
    kinds = {"kinds": [{"kind": "HTTPRoute"}]}
    listener = {"name": "web", "protocol": "HTTP", "port": port, "allowedRoutes": kinds}
    installed.patch("Gateway", "web", {"spec": {"listeners": [listener]}})

    own = {"hostnames": ["iris.example.com"], "grpc": {"hostnames": ["grpc.example.com"]}}
    api.apply(exposed(servers[0], **ROUTE, **own))

    # Traefik also refuses a route to Services without endpoints
    start(api, kubelet, "example/good:1", node, servers[0])

    refused = "does not accept the GRPCRoute"
    eventually("only gRPC is refused", lambda: refused in message(api, "RouteAccepted"))
    assert api.condition("iris", "RouteAccepted") == ("False", "GatewayRefused")
    assert "url" not in status(api)


def test_a_change_to_an_ingress_removes_the_routes(
    port: int,
    api: Api,
    kubelet: Kubelet,
    node: str,
    servers: tuple[ModelServer, ModelServer],
) -> None:
    earlier, _ = servers
    installed = Api(api.kubeconfig, api.namespace)
    installed.apply(ingress_class("traefik"))
    host = ["iris.example.com"]
    api.apply(exposed(earlier, **ROUTE, hostnames=host))
    start(api, kubelet, "example/good:1", node, earlier)
    expect_condition(api, "RouteAccepted", "True", "GatewayAccepted")

    api.apply(exposed(earlier, hostnames=host, ingress={"className": "traefik"}))

    expect_condition(api, "RouteAccepted", "True", "IngressReady")
    eventually("no HTTPRoute", lambda: not installed.get("HTTPRoute", "iris"))
    assert status(api)["url"] == "http://iris.example.com"
    eventually("routed", lambda: ask_host(port, "iris.example.com") == 200)
    assert ask_host(port, "shop.example.com") == 404

    api.apply(exposed(earlier))
    eventually("no Ingress", lambda: not installed.get("Ingress", "iris"))
    eventually("no URL", lambda: "url" not in status(api))
