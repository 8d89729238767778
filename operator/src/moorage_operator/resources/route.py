"""The HTTPRoute that splits a model's requests between its revisions.

One route carries both transports: a gRPC call is an HTTP/2 request with its own content type. It
is sent to the port that the Service declares as HTTP/2 without TLS.

Source: Gateway API v1, HTTPRoute; GEP-1911 (appProtocol of backends); gRPC over HTTP/2,
"Requests".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef, Ports

from .owned import make_owned

__all__ = ["ROUTE", "Backend", "make_route"]

ROUTE = "HTTPRoute"
GRPC_CONTENT_TYPES = ("application/grpc", "application/grpc+proto")


@dataclass(frozen=True, slots=True)
class Backend:
    """A Service with its ports and its share of the requests in percent."""

    service: str
    ports: Ports
    weight: int


def make_route(model: InferenceModel, backends: Sequence[Backend]) -> dict[str, Any]:
    """Build the route of a model with Gateways, without backends of weight 0."""
    weighted = [backend for backend in backends if backend.weight]
    of_grpc = [
        {"headers": [{"type": "Exact", "name": "content-type", "value": each}]}
        for each in GRPC_CONTENT_TYPES
    ]
    spec: dict[str, Any] = {
        "parentRefs": [_make_parent(each) for each in model.route.parent_refs],
        "rules": [
            {"matches": of_grpc, "backendRefs": [_make_ref(b, b.ports.grpc) for b in weighted]},
            {"backendRefs": [_make_ref(b, b.ports.http) for b in weighted]},
        ],
    }
    if model.route.hostnames:
        spec["hostnames"] = list(model.route.hostnames)
    api_version = "gateway.networking.k8s.io/v1"
    return make_owned(model, api_version, ROUTE, names.route(model.name), spec)


def _make_parent(parent: ParentRef) -> dict[str, Any]:
    fields = {
        "name": parent.name,
        "namespace": parent.namespace,
        "sectionName": parent.section_name,
    }
    return {name: value for name, value in fields.items() if value}


def _make_ref(backend: Backend, port: int) -> dict[str, Any]:
    return {"name": backend.service, "port": port, "weight": backend.weight}
