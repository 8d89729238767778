"""RouteAccepted for an HTTPRoute with a GRPCRoute, for an Ingress, and for unreadable Gateways."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.gateways import GatewayObserved, GatewaysObserved, Listener
from moorage_operator.values.objects import (
    DeploymentCondition,
    IngressObserved,
    LoadBalancerPoint,
    RouteObserved,
    RouteParent,
)
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import Plan
from support.operator_values import condition, model, planned, verdict

WEB = {"parentRefs": [{"name": "web"}]}
BOTH = {**WEB, "hostnames": ["a.example.com"], "grpc": {"hostnames": ["g.example.com"]}}
HOST = {"hostnames": ["a.example.com"]}
ROUTES = frozenset({"HTTPRoute", "GRPCRoute"})
CANARY = {"strategy": "Canary"}


def taken(
    *, accepted: bool | None = True, message: str = "no such port"
) -> tuple[DeploymentCondition, ...]:
    return (
        DeploymentCondition("Accepted", accepted, "R", message),
        DeploymentCondition("ResolvedRefs", status=True),
    )


def objects(plan: Plan) -> dict[str, dict[str, Any]]:
    return {item["kind"]: item for item in plan.objects}


def looked(
    route: dict[str, Any],
    kinds: frozenset[str] = ROUTES,
    *,
    gateways: GatewaysObserved | None = None,
    rollout: dict[str, Any] | None = None,
    points: tuple[LoadBalancerPoint, ...] = (),
    unreadable: frozenset[str] = frozenset(),
    **verdicts: Any,
) -> Plan:
    """The plan once all planned objects are written, with these verdicts by kind of route."""
    of = model(route=route, **({"rollout": rollout} if rollout else {}))
    assert of.problems == ()
    seen = Observed(available_kinds=kinds)
    if gateways:
        seen = replace(seen, gateways=gateways)
    children: dict[Any, Any] = {}
    for kind, item in objects(planned(of, seen)).items():
        if kind in ROUTES:
            parents = tuple(
                RouteParent(
                    each["name"],
                    each.get("namespace", "ns"),
                    each.get("sectionName", ""),
                    1,
                    verdicts.get(kind, taken()),
                )
                for each in route["parentRefs"]
            )
            children[kind, "digits"] = RouteObserved("u", applied_hash(item), (), 1, parents)
        if kind == "Ingress":
            children[kind, "digits"] = IngressObserved("u", applied_hash(item), points=points)
    return planned(of, replace(seen, children=children, unreadable_kinds=unreadable))


def told(plan: Plan) -> str:
    return condition(plan, "RouteAccepted")["message"]


def test_a_grpc_route_has_the_hosts_gateways_and_backends_of_grpc() -> None:
    found = objects(planned(model(route=BOTH), Observed(available_kinds=ROUTES)))

    by_http, by_grpc = (found[kind]["spec"] for kind in ("HTTPRoute", "GRPCRoute"))
    assert found["GRPCRoute"]["apiVersion"] == "gateway.networking.k8s.io/v1"
    assert by_grpc["parentRefs"] == by_http["parentRefs"] == WEB["parentRefs"]
    assert by_grpc["hostnames"] == ["g.example.com"]
    (http,), (grpc,) = by_http["rules"], by_grpc["rules"]
    assert "matches" not in http
    assert [each["port"] for each in http["backendRefs"]] == [8000]
    assert [each["port"] for each in grpc["backendRefs"]] == [8001]


@pytest.mark.parametrize(
    ("http", "grpc", "expected"),
    [
        (taken(), taken(), ("True", "GatewayAccepted")),
        (taken(), (), ("Unknown", "AwaitingGateway")),
        ((), taken(), ("Unknown", "AwaitingGateway")),
        (taken(), taken(accepted=False), ("False", "GatewayRefused")),
        ((), taken(accepted=False), ("False", "GatewayRefused")),
        (taken(accepted=None), taken(), ("Unknown", "AwaitingGateway")),
    ],
)
def test_both_routes_have_to_be_accepted(http: Any, grpc: Any, expected: tuple[str, str]) -> None:
    plan = looked(BOTH, HTTPRoute=http, GRPCRoute=grpc)

    assert verdict(plan, "RouteAccepted") == expected
    assert expected[0] != "False" or "does not accept the GRPCRoute: Accepted" in told(plan)


def test_a_cluster_without_the_grpc_route_gets_only_the_other_route() -> None:
    plan = looked(BOTH, frozenset({"HTTPRoute"}))

    assert "GRPCRoute" not in objects(plan)
    assert verdict(plan, "RouteAccepted") == ("False", "GatewayAPIMissing")
    assert "spec.route.grpc requires" in told(plan)


def test_a_gateway_that_does_not_exist_is_awaited_in_spite_of_an_old_status() -> None:
    plan = looked(WEB, gateways=GatewaysObserved({("ns", "web"): None}))

    assert verdict(plan, "RouteAccepted") == ("Unknown", "AwaitingGateway")
    assert "Gateway ns/web does not exist" in told(plan)


URL_OF_ANY_HOST = {
    ("ns", "web"): GatewayObserved((Listener("web", "HTTP", 80, namespaces="All"),))
}


@pytest.mark.parametrize(
    ("route", "kind", "resource"),
    [
        (BOTH, "HTTPRoute", "httproutes.gateway.networking.k8s.io"),
        (BOTH, "GRPCRoute", "grpcroutes.gateway.networking.k8s.io"),
        ({**HOST, "ingress": {}}, "Ingress", "ingresses.networking.k8s.io"),
    ],
)
def test_the_last_status_of_a_route_that_may_no_longer_be_read_does_not_count(
    route: dict[str, Any], kind: str, resource: str
) -> None:
    parts: dict[str, Any] = {
        "gateways": GatewaysObserved(URL_OF_ANY_HOST),
        "points": (LoadBalancerPoint("192.0.2.7"),),
    }

    readable, forbidden = (looked(route, **parts, unreadable=of) for of in ((), {kind}))

    assert "a.example.com" in readable.status["url"]
    assert verdict(forbidden, "RouteAccepted") == ("Unknown", "ReadForbidden")
    assert f"list and watch on {resource} in the namespace 'ns'" in told(forbidden)
    assert not {"url", "externalEndpoints"} & forbidden.status.keys()
    assert objects(forbidden).keys() == objects(readable).keys()


def test_a_kind_that_was_never_readable_is_not_called_missing() -> None:
    plan = looked(WEB, frozenset(), unreadable=frozenset({"HTTPRoute"}))

    assert verdict(plan, "RouteAccepted") == ("Unknown", "ReadForbidden")
    assert "install" not in told(plan)


MISSING = (
    "{} requires the Gateway API, but the operator finds no {} (gateway.networking.k8s.io/v1) in "
    "this cluster: install the Gateway API and a gateway"
)
WITH_INGRESS = {**WEB, "ingress": {}}
LISTENER = {"parentRefs": [{"name": "web", "namespace": "infra", "sectionName": "https"}]}
READ = GatewaysObserved({("ns", "web"): GatewayObserved(), ("infra", "web"): GatewayObserved()})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: looked(WEB, frozenset()), MISSING.format("spec.route", "HTTPRoute")),
        (
            lambda: looked(WITH_INGRESS, frozenset(), rollout=CANARY),
            MISSING.format("spec.route", "HTTPRoute")
            + "; until then the Ingress carries the requests, which cannot split them",
        ),
        (
            lambda: looked(BOTH, frozenset({"HTTPRoute"})),
            MISSING.format("spec.route.grpc", "GRPCRoute"),
        ),
        (
            lambda: planned(model(route=WEB), Observed(available_kinds=ROUTES)),
            "the HTTPRoute is not written yet",
        ),
        (
            lambda: planned(model(route={"ingress": {}}), Observed()),
            "the Ingress is not written yet",
        ),
        (
            lambda: looked(WEB, gateways=GatewaysObserved({("ns", "web"): None})),
            "Gateway ns/web does not exist: create it",
        ),
        (lambda: looked(WEB, gateways=READ), "Gateway ns/web accepts the route"),
        (
            lambda: looked(LISTENER, gateways=READ),
            "Gateway infra/web, listener https accepts the route",
        ),
        (
            lambda: looked(WEB, HTTPRoute=()),
            "Gateway ns/web has not reported whether it accepts the route",
        ),
        (
            lambda: looked(BOTH, GRPCRoute=()),
            "Gateway ns/web has not reported whether it accepts the GRPCRoute",
        ),
        (
            lambda: looked(WEB, HTTPRoute=taken(accepted=False)),
            "Gateway ns/web does not accept the route: Accepted: R: no such port",
        ),
        (
            lambda: looked({"parentRefs": [{"name": "web"}, {"name": "b"}, {"name": "a"}]}),
            (
                "Gateway ns/web accepts the route; status.url omits Gateway ns/a, ns/b, "
                "ns/web, which the operator may not read: grant it list and watch on gateways in "
                "that namespace"
            ),
        ),
        (
            lambda: looked(
                {"ingress": {}}, points=tuple(map(LoadBalancerPoint, ("192.0.2.7", "lb.test")))
            ),
            "the Ingress is served at 192.0.2.7, lb.test",
        ),
        (
            lambda: looked({"ingress": {"className": "nginx"}}),
            "no Ingress controller has reported an address for the Ingress of class nginx",
        ),
        (
            lambda: looked({"ingress": {}}),
            "no Ingress controller has reported an address for the Ingress of the default class",
        ),
    ],
)
def test_the_message_says_who_accepts_the_route_or_what_is_missing(
    make: Callable[[], Plan], message: str
) -> None:
    assert told(make()) == message


def test_the_message_names_gateways_that_cannot_be_read() -> None:
    known = GatewaysObserved({("ns", "web"): GatewayObserved()})

    assert "may not read" not in told(looked(WEB, gateways=known))
    unread = looked(WEB)
    assert verdict(unread, "RouteAccepted") == ("True", "GatewayAccepted")
    assert "Gateway ns/web, which the operator may not read: grant it list" in told(unread)


@pytest.mark.parametrize(
    ("route", "kinds", "made"),
    [
        (WEB, ROUTES, {"HTTPRoute"}),
        ({"ingress": {}}, ROUTES, {"Ingress"}),
        ({**WEB, "ingress": {}}, ROUTES, {"HTTPRoute"}),
        ({**WEB, "ingress": {}}, frozenset(), {"Ingress"}),
        (WEB, frozenset(), set()),
        (BOTH, ROUTES, {"HTTPRoute", "GRPCRoute"}),
    ],
)
def test_a_model_has_routes_or_an_ingress(
    route: dict[str, Any], kinds: frozenset[str], made: set[str]
) -> None:
    assert set(objects(looked(route, kinds))) & {*ROUTES, "Ingress"} == made


def test_an_ingress_is_accepted_once_it_has_an_address() -> None:
    route = {**HOST, "ingress": {"className": "nginx"}}
    point = LoadBalancerPoint("192.0.2.7")

    assert verdict(looked(route), "RouteAccepted") == ("Unknown", "AwaitingIngress")
    assert "class nginx" in told(looked(route))
    served = looked(route, points=(point,))
    assert verdict(served, "RouteAccepted") == ("True", "IngressReady")
    assert served.status["url"] == "http://a.example.com"


def test_an_ingress_never_advances_a_canary() -> None:
    route = {**WEB, "ingress": {}}

    plan = looked(route, frozenset(), rollout=CANARY, points=(LoadBalancerPoint("192.0.2.7"),))

    assert "Ingress" in objects(plan)
    assert verdict(plan, "RouteAccepted") == ("False", "GatewayAPIMissing")
    assert "url" not in plan.status


@pytest.mark.parametrize("spec", [{}, {"route": WEB, "replicas": -1}], ids=["none", "invalid"])
def test_without_a_valid_spec_of_a_route_there_is_no_condition(spec: dict[str, Any]) -> None:
    plan = planned(model(**spec), Observed(available_kinds=ROUTES))

    assert "RouteAccepted" not in {each["type"] for each in plan.status["conditions"]}


def test_the_ingress_of_an_earlier_spec_does_not_count() -> None:
    of = model(route={"ingress": {}})
    old = IngressObserved("u", "another hash", points=(LoadBalancerPoint("192.0.2.7"),))

    plan = planned(of, Observed(children={("Ingress", "digits"): old}))

    assert verdict(plan, "RouteAccepted") == ("Unknown", "AwaitingIngress")
    assert "url" not in plan.status


@pytest.mark.parametrize(
    ("message", "end"), [("no such port", "Accepted: R: no such port"), ("", "Accepted: R")]
)
def test_a_refusal_is_quoted_and_ends_with_the_reason_if_it_has_no_message(
    message: str, end: str
) -> None:
    refused = looked(WEB, HTTPRoute=taken(accepted=False, message=message))

    assert told(refused) == f"Gateway ns/web does not accept the route: {end}"
