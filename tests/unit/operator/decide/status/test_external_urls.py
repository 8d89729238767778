"""The URLs at which clients outside the cluster reach a model, from Gateways and Ingresses."""

from typing import Any

import pytest

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.label_selectors import LabelSelector, Operator, Requirement
from moorage_operator.api.v1alpha1 import Transport
from moorage_operator.decide.status.external_urls import external_urls
from moorage_operator.values.gateways import GatewayObserved, GatewaysObserved, Listener
from moorage_operator.values.objects import IngressObserved, LoadBalancerPoint
from moorage_operator.values.observed import Observed
from support.operator_values import model

WEB = [{"name": "web"}]
KINDS = frozenset({"HTTPRoute", "GRPCRoute", "Gateway"})
FOUND = Finding(Reason.GATEWAY_ACCEPTED, "accepted")
ACCEPTED = Condition(ConditionType.ROUTE_ACCEPTED, status=True, finding=FOUND)
AWAITED = Condition(ConditionType.ROUTE_ACCEPTED, status=None, finding=FOUND)
HTTP, HTTPS = Listener("web", "HTTP", 80), Listener("tls", "HTTPS", 443)
ADDRESSES = ("192.0.2.7", "2001:db8::7", "lb.example.com")
RISK = LabelSelector((Requirement("team", Operator.IN, ("risk",)),))


def gateway(*listeners: Listener, addresses: tuple[str, ...] = ()) -> GatewayObserved:
    return GatewayObserved(listeners, addresses)


def of_gateway(
    route: dict[str, Any],
    *gateways: GatewayObserved | None,
    labels: dict[str, str] | None = None,
    accepted: Condition | None = ACCEPTED,
    namespace: str = "ns",
) -> list[str]:
    """The URLs of a model in namespace `ns` behind Gateways `web`, `web1` and so on."""
    names = ["web", *(f"web{index}" for index in range(1, len(gateways)))]
    known = {(namespace, name): each for name, each in zip(names, gateways, strict=True)}
    seen = Observed(available_kinds=KINDS, gateways=GatewaysObserved(known, labels))
    of = model(route={"parentRefs": WEB, **route})
    assert of.problems == ()
    return [str(each) for each in external_urls(of, seen, accepted)]


HOST = {"hostnames": ["iris.example.com"]}


@pytest.mark.parametrize(
    ("route", "listener", "expected"),
    [
        (HOST, HTTP, ["http://iris.example.com"]),
        (HOST, HTTPS, ["https://iris.example.com"]),
        (HOST, Listener("web", "HTTP", 8080), ["http://iris.example.com:8080"]),
        (HOST, Listener("web", "HTTP", 443), ["http://iris.example.com:443"]),
        (HOST, Listener("web", "HTTPS", 80), ["https://iris.example.com:80"]),
        (HOST, Listener("web", "HTTP", 80, "*.example.com"), ["http://iris.example.com"]),
        (HOST, Listener("web", "HTTP", 80, "iris.example.com"), ["http://iris.example.com"]),
        (HOST, Listener("web", "HTTP", 80, "shop.example.com"), []),
        ({"hostnames": ["*.example.com"]}, HTTP, []),
        (
            {"hostnames": ["*.example.com"]},
            Listener("web", "HTTP", 80, "a.example.com"),
            ["http://a.example.com"],
        ),
        ({"hostnames": ["*.example.com"]}, Listener("web", "HTTP", 80, "*.a.example.com"), []),
        (
            {"hostnames": ["*.a", "iris.b", "iris.c"]},
            HTTP,
            ["http://iris.b", "http://iris.c"],
        ),
        ({}, Listener("web", "HTTP", 80, "a.example.com"), ["http://a.example.com"]),
        ({}, Listener("web", "HTTP", 80, "*.example.com"), []),
        ({}, HTTP, ["http://192.0.2.7", "http://[2001:db8::7]", "http://lb.example.com"]),
        (HOST, Listener("web", "TLS", 443), []),
        (HOST, Listener("web", "TCP", 80), []),
        (HOST, Listener("web", "HTTP", 80, is_broken=True), []),
        (HOST, Listener("web", "HTTP", 80, route_kinds=frozenset({"GRPCRoute"})), []),
        (
            HOST,
            Listener("web", "HTTP", 80, route_kinds=frozenset({"HTTPRoute"})),
            ["http://iris.example.com"],
        ),
        (HOST, Listener("web", "HTTP", 80, namespaces="None"), []),
        (HOST, Listener("web", "HTTP", 80, namespaces="All"), ["http://iris.example.com"]),
    ],
)
def test_a_listener_gives_the_urls_that_clients_can_use(
    route: dict[str, Any], listener: Listener, expected: list[str]
) -> None:
    assert of_gateway(route, gateway(listener, addresses=ADDRESSES)) == expected


def test_a_url_with_tls_comes_first() -> None:
    found = of_gateway(HOST, gateway(HTTP, HTTPS))

    assert found == ["https://iris.example.com", "http://iris.example.com"]


def test_a_listener_without_the_route_does_not_hide_the_next_one() -> None:
    found = of_gateway(HOST, gateway(Listener("tcp", "TCP", 90), HTTP))

    assert found == ["http://iris.example.com"]


def test_a_section_name_selects_one_listener() -> None:
    parent = {"parentRefs": [{"name": "web", "sectionName": "web"}]}

    assert of_gateway({**HOST, **parent}, gateway(HTTP, HTTPS)) == ["http://iris.example.com"]


def test_two_gateways_with_the_same_host_give_one_url() -> None:
    parents = {"parentRefs": [{"name": "web"}, {"name": "web1"}]}

    found = of_gateway({**HOST, **parents}, gateway(HTTP), gateway(HTTP))

    assert found == ["http://iris.example.com"]


@pytest.mark.parametrize(
    ("listener", "labels", "expected"),
    [
        (Listener("web", "HTTP", 80), {"team": "risk"}, []),
        (Listener("web", "HTTP", 80, namespaces="All"), None, ["http://iris.example.com"]),
        (
            Listener("web", "HTTP", 80, namespaces="Selector", selector=RISK),
            {"team": "risk"},
            ["http://iris.example.com"],
        ),
        (
            Listener("web", "HTTP", 80, namespaces="Selector", selector=RISK),
            {"team": "ops"},
            [],
        ),
        (Listener("web", "HTTP", 80, namespaces="Selector", selector=RISK), None, []),
        (Listener("web", "HTTP", 80, namespaces="Selector"), {"team": "risk"}, []),
    ],
)
def test_a_listener_of_another_namespace_must_allow_the_models(
    listener: Listener, labels: dict[str, str] | None, expected: list[str]
) -> None:
    elsewhere = {"parentRefs": [{"name": "web", "namespace": "gateways"}]}

    found = of_gateway(
        {**HOST, **elsewhere}, gateway(listener), labels=labels, namespace="gateways"
    )

    assert found == expected


def test_a_grpc_route_has_urls_of_its_own_after_those_of_http() -> None:
    grpc = {**HOST, "grpc": {"hostnames": ["grpc.iris.example.com"]}}

    found = of_gateway(grpc, gateway(HTTP, HTTPS))

    assert found == [
        "https://iris.example.com",
        "http://iris.example.com",
        "grpcs://grpc.iris.example.com:443",
        "grpc://grpc.iris.example.com:80",
    ]


@pytest.mark.parametrize("accepted", [None, AWAITED])
def test_a_route_that_is_not_accepted_has_no_url(accepted: Condition | None) -> None:
    assert of_gateway(HOST, gateway(HTTP), accepted=accepted) == []


def test_a_gateway_that_is_missing_or_cannot_be_read_gives_no_url() -> None:
    assert of_gateway(HOST, None) == []
    assert of_gateway(HOST, gateway(HTTP), namespace="other") == []


def test_a_missing_gateway_does_not_hide_the_next_one() -> None:
    parents = {"parentRefs": [{"name": "web"}, {"name": "web1"}]}

    found = of_gateway({**HOST, **parents}, None, gateway(HTTP))

    assert found == ["http://iris.example.com"]


def test_the_number_of_urls_is_limited() -> None:
    hosts = {"hostnames": [f"h{index}.example.com" for index in range(16)]}

    assert len(of_gateway(hosts, gateway(HTTP, HTTPS))) == 16


@pytest.mark.parametrize(
    ("route", "points", "expected"),
    [
        ({"ingress": {}}, [("192.0.2.7", ())], ["http://192.0.2.7"]),
        ({"ingress": {}}, [("a.lb", ()), ("b.lb", ())], ["http://a.lb", "http://b.lb"]),
        ({"ingress": {}}, [("192.0.2.7", (80, 443))], ["http://192.0.2.7"]),
        ({"ingress": {}}, [("192.0.2.7", (8080,))], ["http://192.0.2.7:8080"]),
        ({"ingress": {}}, [], []),
        ({**HOST, "ingress": {}}, [("192.0.2.7", ())], ["http://iris.example.com"]),
        (
            {**HOST, "ingress": {"tlsSecretName": "iris-tls"}},
            [("192.0.2.7", ())],
            ["https://iris.example.com"],
        ),
        (
            {**HOST, "ingress": {"tlsSecretName": "iris-tls"}},
            [("192.0.2.7", (80,))],
            ["https://iris.example.com"],
        ),
        (
            {**HOST, "ingress": {"tlsSecretName": "iris-tls"}},
            [("192.0.2.7", (8443,))],
            ["https://iris.example.com:8443"],
        ),
        ({**HOST, "ingress": {}}, [("192.0.2.7", (443,))], ["http://iris.example.com"]),
        ({"hostnames": ["*.a"], "ingress": {}}, [("192.0.2.7", ())], []),
        (
            {**HOST, "parentRefs": WEB, "ingress": {}},
            [("192.0.2.7", ())],
            ["http://iris.example.com"],
        ),
    ],
)
def test_an_ingress_gives_the_urls_of_its_hosts_or_addresses(
    route: dict[str, Any], points: list[tuple[str, tuple[int, ...]]], expected: list[str]
) -> None:
    of = model(route=route)
    found = tuple(LoadBalancerPoint(*each) for each in points)
    seen = Observed(children={("Ingress", "digits"): IngressObserved("u", points=found)})

    urls = external_urls(of, seen, ACCEPTED)

    assert [str(each) for each in urls] == expected
    assert {each.transport for each in urls} <= {Transport.HTTP}


def test_an_ingress_that_does_not_exist_yet_gives_no_url() -> None:
    assert external_urls(model(route={"ingress": {}}), Observed(), ACCEPTED) == ()
