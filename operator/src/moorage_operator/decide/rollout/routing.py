"""Decides which objects expose a model, and the backends of its routes; pure.

    spec.route, kinds of the cluster --> routes of the Gateway API, or an Ingress
    Arrangement, Split --> shares --> resources.route --> HTTPRoute, GRPCRoute

While there is a route, each release has its own Service. So shares change only in the routes, and
the selector of a Service behind a Gateway never changes.
"""

from collections.abc import Iterator
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.resources.ingress import make_ingress
from moorage_operator.resources.route import ROUTE, Backend, make_routes
from moorage_operator.resources.service import make_service, names_ports
from moorage_operator.values.observed import Observed

from .canary import Split
from .releases import Arrangement

__all__ = ["has_ingress", "make_routed"]


def _has_route(model: InferenceModel, observed: Observed) -> bool:
    """Whether the spec names Gateways and the cluster has the Gateway API."""
    return bool(model.route.parent_refs) and ROUTE in observed.available_kinds


def has_ingress(model: InferenceModel, observed: Observed) -> bool:
    """Whether the spec allows an Ingress and there is no route."""
    return model.route.ingress is not None and not _has_route(model, observed)


def make_routed(
    model: InferenceModel, arrangement: Arrangement, split: Split | None, observed: Observed
) -> Iterator[dict[str, Any]]:
    """Build the routes, after the Services that they refer to, or the Ingress."""
    if not _has_route(model, observed):
        if model.route.ingress is not None:
            yield make_ingress(model, model.route.ingress)
        return
    for release in arrangement.routed:
        name = names.service_of(release.model.name, release.revision)
        by_name = names_ports(release.template, release.model.runtime.ports)
        yield make_service(release.model, release.revision, name, by_name=by_name)
    for route in make_routes(model, _make_backends(arrangement, split)):
        if route["kind"] in observed.available_kinds:
            yield route


def _make_backends(arrangement: Arrangement, split: Split | None) -> tuple[Backend, ...]:
    """Return the Service that serves and the Service of a canary, with their shares."""
    main = arrangement.main
    weight = split.weight if split else 0
    stable = _stable(arrangement, 100 - weight)
    if not weight:
        return (stable,)
    ports = main.model.runtime.ports
    return stable, Backend(names.service_of(main.model.name, main.revision), ports, weight)


def _stable(arrangement: Arrangement, weight: int) -> Backend:
    """Return the Service of the selected release, or the model's if it selects several."""
    name = arrangement.main.model.name
    for release in arrangement.releases:
        if release.revision == arrangement.selected:
            service = names.service_of(name, release.revision)
            return Backend(service, release.model.runtime.ports, weight)
    return Backend(names.service(name), arrangement.front.runtime.ports, weight)
