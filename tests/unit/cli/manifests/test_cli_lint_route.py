"""Routes, compared with the Gateways that the same files have."""

from typing import Any

import pytest
import yaml

from moorage_cli.manifests.lint import lint_text, schemas

LISTENERS = [
    {"name": "http", "protocol": "HTTP", "port": 80, "hostname": "*.example.com"},
    {"name": "https", "protocol": "HTTPS", "port": 443, "hostname": "iris.example.org"},
    {"name": "tcp", "protocol": "TCP", "port": 9000},
]
WEB = {"name": "web", "namespace": "gateways"}


def gateway(name: str = "web", listeners: Any = LISTENERS, **metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": "gateways", **metadata},
        "spec": {"gatewayClassName": "any", "listeners": listeners},
    }


def findings(*others: dict[str, Any], **route: Any) -> list[tuple[str, str]]:
    """Path and message of the findings of a model with this route."""
    made = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "iris", "namespace": "team-a"},
        "spec": {"runtime": {"image": "server:1"}, "route": {"parentRefs": [WEB], **route}},
    }
    found = lint_text("file", yaml.safe_dump_all([*others, made]), schemas())
    return [(each.path, each.message) for each in found]


@pytest.mark.parametrize(
    "route",
    [
        {},
        {"hostnames": ["iris.example.com", "a.b.example.com", "iris.example.org"]},
        {"hostnames": ["*.iris.example.com"]},
        {"hostnames": ["*.org"]},
        {"hostnames": ["iris.example.com"], "grpc": {"hostnames": ["iris.example.org"]}},
        {"parentRefs": [{**WEB, "sectionName": "https"}], "hostnames": ["iris.example.org"]},
        {
            "parentRefs": [{**WEB, "sectionName": "https"}, {**WEB, "sectionName": "http"}],
            "hostnames": ["iris.example.org", "iris.example.com"],
        },
        # a Gateway that no file has may have any listener
        {"parentRefs": [{"name": "web"}], "hostnames": ["rose.example.net"]},
        {"parentRefs": [WEB, {"name": "other"}], "hostnames": ["rose.example.net"]},
    ],
)
def test_hosts_of_a_listener_are_accepted(route: dict[str, Any]) -> None:
    assert findings(gateway(), **route) == []


def test_a_listener_without_a_host_name_accepts_every_host() -> None:
    web = gateway(listeners=[{"name": "all", "protocol": "HTTP", "port": 80}])

    assert findings(web, hostnames=["rose.example.net"]) == []


@pytest.mark.parametrize(
    ("route", "path", "host"),
    [
        ({"hostnames": ["rose.example.net"]}, "spec.route.hostnames[0]", "rose.example.net"),
        ({"hostnames": ["iris.example.com", "example.com"]}, "spec.route.hostnames[1]",
         "example.com"),
        (
            {"hostnames": ["iris.example.com"], "grpc": {"hostnames": ["grpc.example.org"]}},
            "spec.route.grpc.hostnames[0]",
            "grpc.example.org",
        ),
    ],
)  # fmt: skip
def test_a_host_that_no_listener_has_is_reported(
    route: dict[str, Any], path: str, host: str
) -> None:
    names = "*.example.com, iris.example.org"
    where = "of the Gateways in route.parentRefs, whose host names are"

    assert findings(gateway(), **route) == [
        (path, f"{host!r} matches no listener {where} {names}")
    ]


@pytest.mark.parametrize("namespace", ["team-a", ""])
def test_a_gateway_of_the_namespace_of_the_model_or_of_none_is_found(
    namespace: str,
) -> None:
    found = findings(
        gateway(namespace=namespace), parentRefs=[{"name": "web"}], hostnames=["rose.example.net"]
    )

    assert [path for path, _ in found] == ["spec.route.hostnames[0]"]


def test_only_the_named_listener_counts() -> None:
    parents = [{**WEB, "sectionName": "http"}]

    ((path, message),) = findings(gateway(), parentRefs=parents, hostnames=["iris.example.org"])

    assert path == "spec.route.hostnames[0]"
    assert message.endswith("whose host names are *.example.com")


@pytest.mark.parametrize("section", ["htttp", "tcp"])
def test_a_listener_that_does_not_exist_or_carries_no_routes_is_reported(section: str) -> None:
    assert findings(gateway(), parentRefs=[{**WEB, "sectionName": section}]) == [
        (
            "spec.route.parentRefs[0].sectionName",
            f"{section!r} is not a listener of Gateway web: must be http, https",
        )
    ]


def test_a_gateway_of_another_namespace_or_group_or_without_a_name_is_not_the_one() -> None:
    istio = {**gateway(), "apiVersion": "networking.istio.io/v1"}

    assert findings(gateway(namespace="other"), istio, hostnames=["rose.example.net"]) == []
    assert findings({"kind": "Gateway", "spec": [], "metadata": None}) == []
    assert findings({**gateway(), "metadata": {}}, hostnames=["rose.example.net"]) == []
