"""Canaries on a real API server with the CRDs of the Gateway API; the test simulates the Gateway.

The first test starts without the Gateway API and installs it for the others.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.gateway_api import crds
from support.iris import IMPATIENT, alive, message, pod_of
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)
from support.simulated_gateway import Gateway

pytestmark = pytest.mark.integration

MOORAGE = Path(sys.executable).parent / "moorage"
ROUTES = "httproutes.gateway.networking.k8s.io"
STEPS = [{"weight": 20, "pauseSeconds": 2}, {"weight": 50}]
ROUTE = {"parentRefs": [{"name": "web"}]}
SECTION = {"steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
NOTICED_SECONDS = 40  # a kind is looked for every 20 s


def iris(server: ModelServer, image: str, **rollout: Any) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": server.port}}
    rollout = {**CANARY, **rollout}
    return model("iris", runtime=runtime, health=IMPATIENT, route=ROUTE, rollout=rollout)


def images(kubelet: Kubelet) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in alive(kubelet))


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def up_to_date(api: Api) -> tuple[str, str]:
    return api.condition("iris", "UpToDate")


def route_accepted(api: Api) -> tuple[str, str]:
    return api.condition("iris", "RouteAccepted")


def progress(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris")["status"]["revisions"].get("canary", {})


def promote(api: Api, mark: str) -> None:
    command = [MOORAGE, "promote", "iris", mark, "-n", api.namespace]
    subprocess.run([*command, "--kubeconfig", api.kubeconfig], check=True, timeout=60)


def selected(api: Api) -> str:
    return api.get("Service", "iris")["spec"]["selector"]["moorage.dev/revision"]


def is_watched(operator: OperatorProcess) -> bool:
    return operator.metric("moorage_optional_kinds", 'kind="HTTPRoute"') == 1


@pytest.fixture(scope="module")
def cluster(kubeconfig: Path) -> Iterator[Api]:
    """The API; the Gateway API is removed at the end of the module."""
    api = Api(kubeconfig, "default")
    yield api
    if api.get("CustomResourceDefinition", ROUTES):
        api.delete("CustomResourceDefinition", ROUTES)


@pytest.fixture
def absent(cluster: Api, operator: OperatorProcess) -> None:
    """The cluster is without the Gateway API."""
    if cluster.get("CustomResourceDefinition", ROUTES):
        cluster.delete("CustomResourceDefinition", ROUTES)
    eventually("it is gone", lambda: not is_watched(operator), seconds=NOTICED_SECONDS)


def install(cluster: Api, operator: OperatorProcess) -> None:
    """The Gateway API is installed, and the operator has detected it."""
    if not cluster.get("CustomResourceDefinition", ROUTES):
        (crd,) = crds("httproutes")
        cluster.of("CustomResourceDefinition").create(body=crd)
    eventually("it is watched", lambda: is_watched(operator), seconds=NOTICED_SECONDS)


def served(api: Api, kubelet: Kubelet, server: ModelServer) -> dict[str, Any]:
    """The pod of a model that is up to date."""
    api.apply(iris(server, "example/good:1"))
    pod = pod_of(kubelet, "example/good:1")
    kubelet.run(pod)
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))
    return pod


def test_without_the_gateway_api_a_canary_behaves_like_blue_green(
    absent: None,
    cluster: Api,
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
) -> None:
    del absent
    served(api, kubelet, server)
    assert route_accepted(api) == ("False", "GatewayAPIMissing")

    api.apply(iris(server, "example/good:2"))
    pod = pod_of(kubelet, "example/good:2")
    kubelet.run(pod)
    eventually("switched", lambda: selected(api) == revision_of(pod))
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))

    install(cluster, operator)
    routed = Api(api.kubeconfig, api.namespace)  # a client keeps what it has discovered
    gateway = Gateway(routed)
    eventually("noticed", lambda: route_accepted(api) == ("Unknown", "AwaitingGateway"))
    gateway.take(100)
    eventually("taken", lambda: route_accepted(api) == ("True", "GatewayAccepted"))
    assert up_to_date(api) == ("True", "RolloutComplete")


@pytest.fixture
def gateway(cluster: Api, operator: OperatorProcess, api: Api) -> Gateway:
    """A Gateway in a cluster with the Gateway API."""
    install(cluster, operator)
    return Gateway(Api(api.kubeconfig, api.namespace))


def test_a_canary_advances_across_restarts_of_the_operator(
    gateway: Gateway,
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
) -> None:
    old = served(api, kubelet, server)
    gateway.take(100)
    api.apply(iris(server, "example/good:2"))
    new = pod_of(kubelet, "example/good:2")
    eventually("it is reported", lambda: "receives 0 percent" in message(api, "UpToDate"))
    assert gateway.weights() == [100]
    kubelet.run(new)

    gateway.take(80, 20)
    eventually("its pause began", lambda: progress(api).get("since"))
    operator.stop()
    operator.start()
    operator.wait_ready()
    gateway.take(50, 50)
    eventually("it waits", lambda: up_to_date(api) == ("False", "AwaitingApproval"))
    assert selected(api) == revision_of(old)
    operator.stop()
    operator.start()
    operator.wait_ready()
    assert progress(api)["step"] == 2
    assert gateway.weights() == [50, 50]

    promote(api, f"{revision_of(new)}/2")
    eventually("everything", lambda: gateway.weights() == [100] and progress(api)["step"] == 3)
    assert selected(api) == revision_of(old)
    gateway.say()
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))

    eventually("the Service follows", lambda: selected(api) == revision_of(new))
    assert images(kubelet) == ["example/good:1", "example/good:2"]
    eventually("the earlier is gone", lambda: images(kubelet) == ["example/good:2"])
    assert gateway.weights() == [100]


def test_a_refused_route_is_reported_and_holds_the_canary(
    gateway: Gateway, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    served(api, kubelet, server)
    gateway.say(accepted=False, message="namespace not allowed by any listener")

    api.apply(iris(server, "example/good:2"))
    kubelet.run(pod_of(kubelet, "example/good:2"))
    eventually("refused", lambda: route_accepted(api) == ("False", "GatewayRefused"))

    words = "namespace not allowed by any listener"
    eventually("in its words", lambda: words in message(api, "UpToDate"))
    assert (progress(api)["step"], gateway.weights()) == (0, [100])
    gateway.say()
    gateway.take(80, 20)


def test_a_canary_that_stops_serving_is_rolled_back(
    gateway: Gateway, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    old = served(api, kubelet, server)
    gateway.take(100)
    api.apply(iris(server, "example/bad:1"))
    new = pod_of(kubelet, "example/bad:1")
    kubelet.run(new)
    gateway.take(80, 20)

    kubelet.run(new, ready=False)
    eventually("rolled back", lambda: up_to_date(api) == ("False", "RolledBack"))

    assert gateway.weights() == [100]
    assert selected(api) == revision_of(old)
    assert "at step 1: " in message(api, "UpToDate")
    eventually("it is gone", lambda: images(kubelet) == ["example/good:1"])


def test_an_edited_route_is_restored(
    gateway: Gateway, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    served(api, kubelet, server)
    gateway.take(100)
    routed = Api(api.kubeconfig, api.namespace)

    routed.patch(
        "HTTPRoute", "iris", {"spec": {"hostnames": ["somebody.example.com"], "rules": []}}
    )

    eventually(
        "as planned", lambda: len(routed.get("HTTPRoute", "iris")["spec"].get("rules", [])) == 2
    )
