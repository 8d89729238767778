"""Which objects expose a model: routes with a Service per release, or an Ingress."""

from typing import Any

import pytest

from moorage_operator.values.observed import Observed
from support.operator_values import (
    deployment,
    model,
    planned,
    pod,
    record,
    revision,
    said,
    serving,
    unready,
    verdict,
)

WEB = {"parentRefs": [{"name": "web"}]}
INGRESS: dict[str, Any] = {"ingress": {"className": "nginx"}}
GRPC = {"hostnames": ["a.example.com"], "grpc": {"hostnames": ["grpc.example.com"]}}
GATEWAY_API = frozenset({"HTTPRoute"})
WITH_GRPC = frozenset({"HTTPRoute", "GRPCRoute"})


def exposing(of: Any, seen: Observed) -> list[dict[str, Any]]:
    """The planned objects that expose a model, beside its own Service."""
    kinds = {"Service", "HTTPRoute", "GRPCRoute", "Ingress"}
    found = [each for each in planned(of, seen).objects if each["kind"] in kinds]
    return [each for each in found if (each["kind"], each["metadata"]["name"]) != OWN_SERVICE]


OWN_SERVICE = ("Service", "digits")
ROUTED = ["Service", "HTTPRoute"]


@pytest.mark.parametrize(
    ("route", "available", "kinds"),
    [
        ({}, GATEWAY_API, []),
        (WEB, GATEWAY_API, ROUTED),
        (WEB, frozenset(), []),
        ({**WEB, **GRPC}, GATEWAY_API, ROUTED),
        ({**WEB, **GRPC}, WITH_GRPC, [*ROUTED, "GRPCRoute"]),
        (INGRESS, GATEWAY_API, ["Ingress"]),
        (INGRESS, frozenset(), ["Ingress"]),
        ({**WEB, **INGRESS}, GATEWAY_API, ROUTED),
        ({**WEB, **INGRESS}, frozenset(), ["Ingress"]),
    ],
)
def test_a_route_is_preferred_to_an_ingress_where_the_cluster_has_the_gateway_api(
    route: dict[str, Any], available: frozenset[str], kinds: list[str]
) -> None:
    of = model(route=route)
    assert of.problems == ()

    found = exposing(of, Observed(available_kinds=available))

    assert [each["kind"] for each in found] == kinds


def test_a_route_that_cannot_exist_awaits_no_ingress() -> None:
    plan = planned(model(route=WEB), Observed())

    assert verdict(plan, "RouteAccepted") == ("False", "GatewayAPIMissing")


def test_an_ingress_has_the_class_and_the_service_of_the_model() -> None:
    (found,) = exposing(model(route={**INGRESS, "hostnames": ["a.example.com"]}), Observed())

    (rule,) = found["spec"]["rules"]
    service = rule["http"]["paths"][0]["backend"]["service"]
    assert found["spec"]["ingressClassName"] == "nginx"
    assert (rule["host"], service) == (
        "a.example.com",
        {"name": "digits", "port": {"name": "http"}},
    )


RENAMED = {"podTemplate": {"spec": {"containers": [{"name": "runtime", "ports": [
    {"containerPort": 8000, "name": "other"},
]}]}}}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "ports"),
    [({}, {"http": "http", "grpc": "grpc"}), (RENAMED, {"http": 8000, "grpc": 8001})],
    ids=["named", "renamed by the pod template"],
)
def test_each_release_has_a_service_with_its_ports(
    spec: dict[str, Any], ports: dict[str, int | str]
) -> None:
    good = model(route=WEB, **spec)
    new = model(route=WEB, generation=2, **{**spec, "runtime": {"image": "new:1"}})
    history = {revision(each): record(each) for each in (good, new)}
    status = planned(good, serving(good)).status
    old = pod("old", good)
    seen = Observed(
        children={("Deployment", "digits"): deployment(revision=revision(good))},
        pods=(old, unready("new", new)),
        probes=said(old),
        history=history,
        status=status,
        available_kinds=GATEWAY_API,
    )

    services = [each["spec"] for each in exposing(new, seen) if each["kind"] == "Service"]

    assert [each["selector"]["moorage.dev/revision"] for each in services] == [
        revision(new),
        revision(good),
    ]
    for each in services:
        assert {port["name"]: port["targetPort"] for port in each["ports"]} == ports
