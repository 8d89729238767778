"""Canaries on a real API server with the Gateway API's own CRDs; the test says a Gateway's words.

The first test finds the cluster without the Gateway API and installs it for the others.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.gateway_api import crds
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration

ROUTES = "httproutes.gateway.networking.k8s.io"
STEPS = [{"weight": 20, "pauseSeconds": 2}, {"weight": 50}]
SECTION = {"parentRefs": [{"name": "web"}], "steps": STEPS, "keepSeconds": 10}
CANARY = {"strategy": "Canary", "canary": SECTION}
IMPATIENT = {"periodSeconds": 1, "failureThreshold": 1, "pollIntervalSeconds": 1}
NOTICED_SECONDS = 40  # a kind is looked for every 20 s
APPROVED = "moorage.dev/canary-approved"


class Gateway:
    """What the controller of the Gateway `web` writes into a route's status."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def say(self, *, accepted: bool = True, message: str = "") -> None:
        """A verdict on the route as it is now."""
        route = eventually("a route", lambda: self._api.get("HTTPRoute", "iris"))
        told = {"Accepted": accepted, "ResolvedRefs": True}
        conditions = [
            {
                "type": type_,
                "status": str(status),
                "reason": type_ if status else "NotAllowedByListeners",
                "message": message,
                "observedGeneration": route["metadata"]["generation"],
                "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            for type_, status in told.items()
        ]
        parent = {
            "parentRef": {"name": "web"},
            "controllerName": "example.com/gateway",
            "conditions": conditions,
        }
        self._api.patch_status("HTTPRoute", "iris", {"parents": [parent]})

    def weights(self) -> list[int]:
        """The share of each backend, in the route's order."""
        route = self._api.get("HTTPRoute", "iris")
        return [each["weight"] for each in route["spec"]["rules"][1]["backendRefs"]]

    def take(self, *weights: int) -> None:
        """Wait for a route with these weights, and take it."""
        eventually(f"weights {weights}", lambda: self.weights() == list(weights))
        self.say()


def iris(server: ModelServer, image: str, **rollout: Any) -> dict[str, Any]:
    runtime = {"image": image, "ports": {"http": server.port}}
    return model("iris", runtime=runtime, health=IMPATIENT, rollout={**CANARY, **rollout})


def alive(kubelet: Kubelet) -> list[dict[str, Any]]:
    return [pod for pod in kubelet.pods("iris") if "deletionTimestamp" not in pod["metadata"]]


def images(kubelet: Kubelet) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in alive(kubelet))


def pod_of(kubelet: Kubelet, image: str) -> dict[str, Any]:
    """The pod with an image, once it is there."""

    def found() -> list[dict[str, Any]]:
        pods = alive(kubelet)
        return [pod for pod in pods if pod["spec"]["containers"][0]["image"] == image]

    return eventually(f"a pod of {image}", found)[0]


def revision_of(pod: dict[str, Any]) -> str:
    return pod["metadata"]["labels"]["moorage.dev/revision"]


def up_to_date(api: Api) -> tuple[str, str]:
    return api.condition("iris", "UpToDate")


def route_accepted(api: Api) -> tuple[str, str]:
    return api.condition("iris", "RouteAccepted")


def progress(api: Api) -> dict[str, Any]:
    return api.get("InferenceModel", "iris")["status"]["revisions"].get("canary", {})


def message(api: Api, type_: str) -> str:
    conditions = api.get("InferenceModel", "iris")["status"]["conditions"]
    return next(each["message"] for each in conditions if each["type"] == type_)


def selected(api: Api) -> str:
    return api.get("Service", "iris")["spec"]["selector"]["moorage.dev/revision"]


def is_watched(operator: OperatorProcess) -> bool:
    return operator.metric("moorage_optional_kinds", 'kind="HTTPRoute"') == 1


@pytest.fixture(scope="module")
def cluster(kubeconfig: Path) -> Iterator[Api]:
    """The API; the Gateway API that a test installs goes with the module."""
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
    """The Gateway API is there, and the operator has seen that."""
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


def test_without_the_gateway_api_it_is_blue_green_until_that_is_installed(
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


def test_steps_go_on_by_time_and_by_approval_whatever_happens_to_the_operator(
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
    eventually("it is told", lambda: "takes 0 percent" in message(api, "UpToDate"))
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

    mark = {APPROVED: f"{revision_of(new)}-2"}
    api.patch("InferenceModel", "iris", {"metadata": {"annotations": mark}})
    eventually("everything", lambda: gateway.weights() == [100] and progress(api)["step"] == 3)
    assert selected(api) == revision_of(old)
    gateway.say()
    eventually("up to date", lambda: up_to_date(api) == ("True", "RolloutComplete"))

    eventually("the Service follows", lambda: selected(api) == revision_of(new))
    assert images(kubelet) == ["example/good:1", "example/good:2"]
    eventually("the earlier is gone", lambda: images(kubelet) == ["example/good:2"])
    assert gateway.weights() == [100]


def test_a_refused_route_is_told_and_holds_the_canary(
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


def test_a_canary_that_stops_to_serve_loses_its_requests_and_is_rolled_back(
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
    assert "it served at step 1" in message(api, "UpToDate")
    eventually("it is gone", lambda: images(kubelet) == ["example/good:1"])


def test_a_route_that_somebody_edits_comes_back(
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
