"""Decides at which URLs clients outside the cluster reach a model; pure.

    Gateways, accepted routes --> base URLs --> status.url, status.externalEndpoints
    Ingress with an address   -->

A URL is only reported while RouteAccepted is true. It has a host that a client can use: a wildcard
is none. A listener without a host name is reached at the addresses of its Gateway, but only by a
route without host names, because any other route does not match requests to an address.

Source: Gateway API v1, Listener.hostname, AllowedRoutes and HTTPRouteSpec.hostnames;
networking.k8s.io/v1, IngressTLS and IngressPortStatus.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from moorage_operator.api import names
from moorage_operator.api.conditions import Condition
from moorage_operator.api.hostnames import intersection, is_wildcard
from moorage_operator.api.v1alpha1 import InferenceModel, ParentRef, Transport
from moorage_operator.decide.rollout.routing import has_ingress
from moorage_operator.resources.ingress import INGRESS
from moorage_operator.resources.route import GRPC_ROUTE, ROUTE
from moorage_operator.values.gateways import GatewayObserved, Listener
from moorage_operator.values.objects import IngressObserved, LoadBalancerPoint
from moorage_operator.values.observed import Observed

__all__ = ["BaseUrl", "external_urls"]

# Whether a protocol of a listener uses TLS; other protocols do not carry these routes.
SECURE = {"HTTPS": True, "HTTP": False}
DEFAULT_PORT = {True: 443, False: 80}
# Longer lists are not useful to read and make every write large.
BASE_LIMIT = 16


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """The address of a model for clients outside the cluster, without a path."""

    transport: Transport
    host: str
    port: int
    is_secure: bool

    def __str__(self) -> str:
        """Return the URL; gRPC clients need the port, and others only if it is not the default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if self.transport is Transport.GRPC:
            return f"{'grpcs' if self.is_secure else 'grpc'}://{host}:{self.port}"
        port = "" if self.port == DEFAULT_PORT[self.is_secure] else f":{self.port}"
        return f"{'https' if self.is_secure else 'http'}://{host}{port}"


def external_urls(
    model: InferenceModel, observed: Observed, route: Condition | None
) -> tuple[BaseUrl, ...]:
    """Return the base URLs, HTTP before gRPC and TLS first, without duplicates.

    Args:
        model: The spec.
        observed: The Gateways, or the Ingress.
        route: The condition RouteAccepted.
    """
    if route is None or route.status is not True:
        return ()
    of = _of_ingress if has_ingress(model, observed) else _of_gateways
    found = sorted(
        dict.fromkeys(of(model, observed)),
        key=lambda each: (each.transport is Transport.GRPC, not each.is_secure),
    )
    return tuple(found[:BASE_LIMIT])


def _of_gateways(model: InferenceModel, observed: Observed) -> Iterator[BaseUrl]:
    for transport, kind, hostnames in _routes(model):
        for parent in model.route.parent_refs:
            space = parent.namespace or model.namespace
            gateway = observed.gateways.by_key.get((space, parent.name))
            if gateway is None:
                continue
            for listener in gateway.listeners:
                if not _carries(listener, kind, parent, model, observed):
                    continue
                for host in _hosts(hostnames, listener, gateway):
                    yield BaseUrl(transport, host, listener.port, SECURE[listener.protocol])


def _routes(model: InferenceModel) -> Iterator[tuple[Transport, str, Sequence[str]]]:
    """Return the transports with the kinds and host names of their routes.

    An accepted HTTPRoute does not prove that its Gateway carries gRPC; an accepted GRPCRoute does.
    """
    route = model.route
    yield Transport.HTTP, ROUTE, route.hostnames
    if route.grpc.hostnames:
        yield Transport.GRPC, GRPC_ROUTE, route.grpc.hostnames


def _carries(
    listener: Listener, kind: str, parent: ParentRef, model: InferenceModel, observed: Observed
) -> bool:
    """Whether a listener carries the model's routes of a kind."""
    if listener.is_broken or listener.protocol not in SECURE:
        return False
    if parent.section_name not in {"", listener.name}:
        return False
    if listener.route_kinds and kind not in listener.route_kinds:
        return False
    if listener.namespaces == "Same":
        return parent.namespace in {"", model.namespace}
    if listener.namespaces == "Selector":
        labels = observed.gateways.namespace_labels
        return bool(listener.selector and labels is not None and listener.selector.matches(labels))
    return listener.namespaces == "All"


def _hosts(
    hostnames: Sequence[str], listener: Listener, gateway: GatewayObserved
) -> Iterator[str]:
    """Return the hosts at which a listener of a Gateway serves a route with these host names."""
    if hostnames:
        common = (
            intersection(each, listener.hostname) if listener.hostname else each
            for each in hostnames
        )
        yield from (each for each in common if each and not is_wildcard(each))
    elif not listener.hostname:
        yield from gateway.addresses
    elif not is_wildcard(listener.hostname):
        yield listener.hostname


def _of_ingress(model: InferenceModel, observed: Observed) -> Iterator[BaseUrl]:
    """Return the URLs of an Ingress, whose TLS section covers all of its host names."""
    ingress = observed.children.get((INGRESS, names.ingress(model.name)))
    if not isinstance(ingress, IngressObserved) or not ingress.points:
        return
    spec = model.route.ingress
    is_secure = bool(spec and spec.tls_secret_name)
    if not model.route.hostnames:
        for point in ingress.points:
            yield BaseUrl(Transport.HTTP, point.address, _port(point, is_secure), is_secure)
        return
    port = _port(ingress.points[0], is_secure)
    for host in model.route.hostnames:
        if not is_wildcard(host):
            yield BaseUrl(Transport.HTTP, host, port, is_secure)


def _port(point: LoadBalancerPoint, is_secure: bool) -> int:
    """Return the default port, unless the controller reports only one other port.

    The default port of the other scheme does not serve this one.
    """
    default = DEFAULT_PORT[is_secure]
    is_known = len(point.ports) == 1 and point.ports[0] != DEFAULT_PORT[not is_secure]
    return point.ports[0] if is_known else default
