"""The HTTPRoute that shares a model's requests between its revisions.

One route carries both transports: a gRPC call is an HTTP/2 request, told apart by its content
type, and goes to the port of which the Service says that it speaks HTTP/2 without TLS.

Source: Gateway API v1, HTTPRoute; GEP-1911 (appProtocol of backends); gRPC over HTTP/2,
"Requests".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moorage_operator import names
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef, Ports

from .owned import make_owned

__all__ = ["ROUTE", "Backend", "make_route"]

ROUTE = "HTTPRoute"
GRPC_CONTENT_TYPES = ("application/grpc", "application/grpc+proto")


@dataclass(frozen=True, slots=True)
class Backend:
    """A Service, the ports that it offers, and its share of the requests in percent."""

    service: str
    ports: Ports
    weight: int


def make_route(model: InferenceModel, backends: Sequence[Backend]) -> dict[str, Any]:
    """The route of a model that names its Gateways; a backend without requests is left out."""
    canary = model.rollout.canary
    asked = [backend for backend in backends if backend.weight]
    of_grpc = [
        {"headers": [{"type": "Exact", "name": "content-type", "value": each}]}
        for each in GRPC_CONTENT_TYPES
    ]
    spec: dict[str, Any] = {
        "parentRefs": [_make_parent(each) for each in canary.parent_refs],
        "rules": [
            {"matches": of_grpc, "backendRefs": [_make_ref(b, b.ports.grpc) for b in asked]},
            {"backendRefs": [_make_ref(b, b.ports.http) for b in asked]},
        ],
    }
    if canary.hostnames:
        spec["hostnames"] = list(canary.hostnames)
    api_version = "gateway.networking.k8s.io/v1"
    return make_owned(model, api_version, ROUTE, names.route(model.name), spec)


def _make_parent(parent: ParentRef) -> dict[str, Any]:
    told = {
        "name": parent.name,
        "namespace": parent.namespace,
        "sectionName": parent.section_name,
    }
    return {name: value for name, value in told.items() if value}


def _make_ref(backend: Backend, port: int) -> dict[str, Any]:
    return {"name": backend.service, "port": port, "weight": backend.weight}
