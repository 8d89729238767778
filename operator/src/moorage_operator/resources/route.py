"""The HTTPRoute and the GRPCRoute that split a model's requests between its revisions.

Without host names for gRPC, the HTTPRoute carries both transports: a gRPC call is an HTTP/2
request with its own content type. It is sent to the port that the Service declares as HTTP/2
without TLS. With them, a GRPCRoute carries gRPC, with the same Gateways and shares.

Source: Gateway API v1, HTTPRoute and GRPCRoute; GEP-1911 (appProtocol of backends); gRPC over
HTTP/2, "Requests".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef, Ports

from .owned import make_owned

__all__ = ["GRPC_ROUTE", "ROUTE", "Backend", "make_routes", "route_kinds"]

API_VERSION = "gateway.networking.k8s.io/v1"
ROUTE = "HTTPRoute"
GRPC_ROUTE = "GRPCRoute"
GRPC_CONTENT_TYPES = ("application/grpc", "application/grpc+proto")


@dataclass(frozen=True, slots=True)
class Backend:
    """A Service with its ports and its share of the requests in percent."""

    service: str
    ports: Ports
    weight: int


def route_kinds(model: InferenceModel) -> tuple[str, ...]:
    """Return the kinds of the model's routes, none without Gateways."""
    if not model.route.parent_refs:
        return ()
    return (ROUTE, GRPC_ROUTE) if model.route.grpc.hostnames else (ROUTE,)


def make_routes(model: InferenceModel, backends: Sequence[Backend]) -> Iterator[dict[str, Any]]:
    """Build the routes of a model with Gateways, without backends of weight 0."""
    weighted = [backend for backend in backends if backend.weight]
    by_http: dict[str, Any] = {"backendRefs": [_make_ref(b, b.ports.http) for b in weighted]}
    by_grpc: dict[str, Any] = {"backendRefs": [_make_ref(b, b.ports.grpc) for b in weighted]}
    if model.route.grpc.hostnames:
        yield _make_route(model, ROUTE, model.route.hostnames, [by_http])
        yield _make_route(model, GRPC_ROUTE, model.route.grpc.hostnames, [by_grpc])
    else:
        of_grpc = [
            {"headers": [{"type": "Exact", "name": "content-type", "value": each}]}
            for each in GRPC_CONTENT_TYPES
        ]
        rules = [{"matches": of_grpc, **by_grpc}, by_http]
        yield _make_route(model, ROUTE, model.route.hostnames, rules)


def _make_route(
    model: InferenceModel, kind: str, hostnames: Sequence[str], rules: list[dict[str, Any]]
) -> dict[str, Any]:
    parents = [_make_parent(each) for each in model.route.parent_refs]
    spec: dict[str, Any] = {"parentRefs": parents, "rules": rules}
    if hostnames:
        spec["hostnames"] = list(hostnames)
    return make_owned(model, API_VERSION, kind, names.route(model.name), spec)


def _make_parent(parent: ParentRef) -> dict[str, Any]:
    fields = {
        "name": parent.name,
        "namespace": parent.namespace,
        "sectionName": parent.section_name,
    }
    return {name: value for name, value in fields.items() if value}


def _make_ref(backend: Backend, port: int) -> dict[str, Any]:
    return {"name": backend.service, "port": port, "weight": backend.weight}
