"""Rights to read that are granted after the operator starts, or revoked while it runs.

A GitOps tool may apply the objects in any order. While one right is missing, the status says which
one; at the start, the operator is not ready without the right to a kind that every cluster has.
Once the right is granted, everything works without a restart.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import NotFoundError

from support import keda, quick_watches
from support.chart_rights import operators_kubeconfig
from support.gateway_api import accept, crds, gateway
from support.iris import IMPATIENT, expect_condition, message
from support.operator_cluster import (
    GROUP,
    Api,
    OperatorProcess,
    eventually,
    install_runtimes_crd,
    model,
)

pytestmark = pytest.mark.integration

RELEASE = "moorage-late"
RECOVERED_SECONDS = 60.0
QUERY = {
    "type": "Prometheus",
    "serverAddress": "http://prometheus:9090",
    "query": "sum(asked)",
    "target": 7,
}
ROUTE = {"parentRefs": [{"name": "web"}], "hostnames": ["a.example.com"]}
BY_INGRESS = {"hostnames": ["a.example.com"], "ingress": {}}
GRPC = {**ROUTE, "grpc": {"hostnames": ["g.example.com"]}}


@pytest.fixture(scope="module", autouse=True)
def installed(kubeconfig: Path) -> Iterator[None]:
    """The kinds that not every cluster has."""
    install_runtimes_crd(kubeconfig)
    api = Api(kubeconfig, "default")
    of = api.of("CustomResourceDefinition")
    definitions = [*crds(), keda.kind("scaledobjects.keda.sh")]
    for each in definitions:
        of.create(body=each)
    yield
    for each in definitions:
        of.delete(name=each["metadata"]["name"])


@pytest.fixture
def runtime(kubeconfig: Path, api: Api) -> Iterator[str]:
    """An InferenceRuntime for the namespace of the test."""
    name, cluster = f"late-{api.namespace}", Api(kubeconfig, api.namespace)
    spec = {"image": "example/late:1", "health": IMPATIENT}
    body = {"apiVersion": GROUP, "kind": "InferenceRuntime", "metadata": {"name": name}}
    cluster.apply({**body, "spec": spec})
    yield name
    with suppress(NotFoundError):
        cluster.delete("InferenceRuntime", name)


def without(rules: list[dict[str, Any]], resource: str) -> list[dict[str, Any]]:
    """The rules of a role without those for a resource."""
    return [
        {**rule, "resources": kept}
        for rule in rules
        if (kept := [each for each in rule["resources"] if each != resource])
    ]


@contextmanager
def started_without(
    resource: str, operator: OperatorProcess, api: Api, folder: Path
) -> Iterator[tuple[OperatorProcess, Callable[[], None]]]:
    """An operator that may neither list nor watch a resource, and what grants it the right."""
    rights = operators_kubeconfig(api.kubeconfig, folder, release=RELEASE)
    found = {
        name: rules
        for name in (f"{RELEASE}-operator", f"{RELEASE}-runtimes")
        if (rules := api.get("ClusterRole", name)["rules"])
    }
    for name, rules in found.items():
        api.patch("ClusterRole", name, {"rules": without(rules, resource)})

    def grant() -> None:
        for name, rules in found.items():
            api.patch("ClusterRole", name, {"rules": rules})

    program = (Path(quick_watches.__file__),)
    late = OperatorProcess(rights, folder / "late-log", program=program)
    with operator.held():
        late.start()
        try:
            yield late, grant
        finally:
            late.stop()
            grant()


@pytest.fixture
def role(operator: OperatorProcess, api: Api, tmp_path: Path) -> Iterator[str]:
    """An operator with rights in the namespace of the test alone; the name of its Role."""
    release, program = "moorage-revoked", (Path(quick_watches.__file__),)
    rights = operators_kubeconfig(api.kubeconfig, tmp_path, [api.namespace], release=release)
    options = ("--namespaces", api.namespace)
    other = OperatorProcess(rights, tmp_path / "log", options, program=program)
    with operator.held():
        other.start()
        try:
            other.wait_ready()
            yield f"{release}-operator"
        finally:
            other.stop()


def accept_route(api: Api) -> None:
    """Report that the Gateway of the test accepts the current HTTPRoute."""
    accept(api, "iris", ROUTE["parentRefs"][0])


def expose(api: Api) -> None:
    """Report that the Ingress has an address."""
    points = [{"ip": "192.0.2.7"}]
    api.patch_status("Ingress", "iris", {"loadBalancer": {"ingress": points}})


@pytest.mark.parametrize(
    ("resource", "kind", "route", "report", "reason"),
    [
        ("httproutes", "HTTPRoute", ROUTE, accept_route, "GatewayAccepted"),
        ("ingresses", "Ingress", BY_INGRESS, expose, "IngressReady"),
    ],
)
def test_the_url_of_a_route_that_may_no_longer_be_read_disappears(
    *,
    resource: str,
    kind: str,
    route: dict[str, Any],
    report: Callable[[Api], None],
    reason: str,
    role: str,
    api: Api,
) -> None:
    installed = Api(api.kubeconfig, api.namespace)
    for each in gateway("web", 80):
        installed.apply(each)
    api.apply(iris(route=route))
    eventually("a route", lambda: installed.get(kind, "iris"), seconds=RECOVERED_SECONDS)
    report(installed)
    expect_condition(api, "RouteAccepted", "True", reason)
    url = lambda: api.get("InferenceModel", "iris")["status"].get("url")  # noqa: E731 -- passed on
    eventually("a URL", lambda: url() == "http://a.example.com", seconds=RECOVERED_SECONDS)
    rules = api.get("Role", role)["rules"]

    api.patch("Role", role, {"rules": without(rules, resource)})

    said = expect_condition(api, "RouteAccepted", "Unknown", "ReadForbidden")
    assert f"list and watch on {resource}." in said
    assert api.namespace in said
    assert url() is None
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 3}})
    eventually("it is served", lambda: api.get("Deployment", "iris")["spec"]["replicas"] == 3)

    api.patch("Role", role, {"rules": rules})

    eventually("the URL is back", lambda: url() == "http://a.example.com", seconds=40)
    expect_condition(api, "RouteAccepted", "True", reason)


def iris(**spec: Any) -> dict[str, Any]:
    return model("iris", **{"runtime": {"image": "example/server:1"}, **spec})


def scaled(*metrics: dict[str, Any]) -> dict[str, Any]:
    return iris(scaling={"maxReplicas": 4, "metrics": list(metrics)})


@pytest.mark.parametrize(
    ("resource", "body", "condition", "child"),
    [
        ("httproutes", iris(route=ROUTE), "RouteAccepted", "HTTPRoute"),
        ("grpcroutes", iris(route=GRPC), "RouteAccepted", "GRPCRoute"),
        ("scaledobjects", scaled(QUERY), "ScalingActive", "ScaledObject"),
    ],
)
def test_a_kind_that_not_every_cluster_has_is_used_once_the_right_is_granted(
    *,
    resource: str,
    body: dict[str, Any],
    condition: str,
    child: str,
    operator: OperatorProcess,
    api: Api,
    tmp_path: Path,
) -> None:
    with started_without(resource, operator, api, tmp_path) as (late, grant):
        api.apply(body)
        said = expect_condition(api, condition, "Unknown", "ReadForbidden")
        assert f"list and watch on {resource}." in said
        installed = Api(api.kubeconfig, api.namespace)
        assert not installed.get(child, "iris")
        pid = late.pid

        grant()

        eventually(f"the {child}", lambda: installed.get(child, "iris"), seconds=RECOVERED_SECONDS)
        eventually(
            "another reason", lambda: api.condition("iris", condition)[1] != "ReadForbidden"
        )
        assert late.is_running
        assert late.pid == pid


def test_a_model_waits_for_its_runtime_until_the_right_is_granted(
    runtime: str, operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    with started_without("inferenceruntimes", operator, api, tmp_path) as (_, grant):
        api.apply(iris(runtime={"name": runtime}))
        said = expect_condition(api, "Accepted", "False", "ReadForbidden")
        assert "grant it list and watch on inferenceruntimes.moorage.dev by a ClusterRole" in said
        expect_condition(api, "Ready", "False", "ReadForbidden")
        assert api.condition("iris", "Reconciling")[0] == "True"
        assert api.condition("iris", "Stalled") == ("", "")

        grant()

        eventually(
            "a Deployment", lambda: api.get("Deployment", "iris"), seconds=RECOVERED_SECONDS
        )
        expect_condition(api, "Accepted", "True", "Valid")
        api.apply(iris(runtime={"name": "does-not-exist"}))
        expect_condition(api, "Accepted", "False", "RuntimeNotFound")


def test_the_labels_of_namespaces_count_once_the_right_is_granted(
    runtime: str, operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    mine = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    allowed = {"spec": {"allowedNamespaces": {"selector": mine}}}
    Api(api.kubeconfig, api.namespace).patch("InferenceRuntime", runtime, allowed)
    with started_without("namespaces", operator, api, tmp_path) as (_, grant):
        api.apply(iris(runtime={"name": runtime}))
        said = expect_condition(api, "Accepted", "False", "ReadForbidden")
        assert "grant it list and watch on namespaces" in said

        grant()

        eventually(
            "a Deployment", lambda: api.get("Deployment", "iris"), seconds=RECOVERED_SECONDS
        )


def test_labels_of_namespaces_no_longer_count_once_the_right_is_revoked(
    runtime: str, operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    mine = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    allowed = {"spec": {"allowedNamespaces": {"selector": mine}}}
    Api(api.kubeconfig, api.namespace).patch("InferenceRuntime", runtime, allowed)
    with started_without("nothing", operator, api, tmp_path) as (_, grant):
        api.apply(iris(runtime={"name": runtime}))
        expect_condition(api, "Accepted", "True", "Valid")
        role = f"{RELEASE}-runtimes"
        rules = api.get("ClusterRole", role)["rules"]

        api.patch("ClusterRole", role, {"rules": without(rules, "namespaces")})

        # What runs keeps its runtime; a new model waits for the right.
        said = expect_condition(api, "RuntimeUpdatePending", "True", "ReadForbidden")
        assert "grant it list and watch on namespaces" in said
        expect_condition(api, "Accepted", "True", "Valid")
        api.apply(model("rose", runtime={"name": runtime}))
        new = lambda: api.condition("rose", "Accepted")  # noqa: E731 -- passed on
        eventually("rose waits", lambda: new() == ("False", "ReadForbidden"))

        grant()

        eventually(
            "rose is accepted", lambda: new() == ("True", "Valid"), seconds=RECOVERED_SECONDS
        )
        eventually(
            "the runtime may be used again",
            lambda: api.condition("iris", "RuntimeUpdatePending") == ("", ""),
            seconds=RECOVERED_SECONDS,
        )


def test_a_gateway_gives_a_url_once_the_right_is_granted(
    operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    with started_without("gateways", operator, api, tmp_path) as (_, grant):
        api.apply(iris(route=ROUTE))
        installed = Api(api.kubeconfig, api.namespace)
        eventually("a route", lambda: installed.get("HTTPRoute", "iris"))
        expect_condition(api, "RouteAccepted", "Unknown", "AwaitingGateway")

        grant()

        eventually(
            "the Gateway is looked up",
            lambda: "does not exist" in message(api, "RouteAccepted"),
            seconds=RECOVERED_SECONDS,
        )


@pytest.mark.parametrize(
    "resource",
    ["horizontalpodautoscalers", "ingresses", "networkpolicies", "poddisruptionbudgets"],
)
def test_an_operator_without_the_right_to_a_kind_of_every_cluster_waits_for_it(
    resource: str, operator: OperatorProcess, api: Api, tmp_path: Path
) -> None:
    with started_without(resource, operator, api, tmp_path) as (late, grant):
        api.apply(iris())
        eventually("it says why", lambda: f"watch of {resource}" in late.ask("/readyz")[1])
        assert late.ask("/readyz")[0] == 503
        assert not api.get("Deployment", "iris")

        grant()

        eventually(
            "a Deployment", lambda: api.get("Deployment", "iris"), seconds=RECOVERED_SECONDS
        )
        late.wait_ready()
