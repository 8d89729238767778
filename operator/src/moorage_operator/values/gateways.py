"""Gateways, reduced to the facts that decide at which URLs clients reach a model; pure.

    reflectors --> store.gateways --> GatewaysObserved --> decide.status.external_urls

Source: Gateway API v1, Gateway: Listener, AllowedRoutes, ListenerStatus and GatewayStatusAddress.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from moorage_operator.api.label_selectors import LabelSelector

__all__ = [
    "NO_GATEWAYS",
    "GatewayKey",
    "GatewayObserved",
    "GatewaysObserved",
    "Listener",
]

GatewayKey = tuple[str, str]
"""The namespace and the name of a Gateway."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A listener of a Gateway.

    Attributes:
        name: Its name, which `sectionName` of a route refers to.
        protocol: HTTP, HTTPS, or one that carries no routes of a model.
        port: The port that clients connect to.
        hostname: The host name that it matches; "" for every one.
        route_kinds: The kinds of routes that it allows; none means those of its protocol.
        namespaces: Whose routes it allows: All, Same, Selector or None.
        selector: The namespaces with Selector; None if it is invalid.
        is_broken: Whether its controller reports that it does not serve.
    """

    name: str
    protocol: str
    port: int
    hostname: str = ""
    route_kinds: frozenset[str] = frozenset()
    namespaces: str = "Same"
    selector: LabelSelector | None = None
    is_broken: bool = False


@dataclass(frozen=True, slots=True)
class GatewayObserved:
    """A Gateway; `addresses` are those that its status reports."""

    listeners: tuple[Listener, ...] = ()
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GatewaysObserved:
    """The Gateways of a model.

    Attributes:
        by_key: Its Gateways, None for one that does not exist; those that the operator may not
            read are absent.
        namespace_labels: The labels of the model's namespace; None if they cannot be read.
    """

    by_key: Mapping[GatewayKey, GatewayObserved | None] = field(
        default_factory=dict[GatewayKey, GatewayObserved | None]
    )
    namespace_labels: Mapping[str, str] | None = None


NO_GATEWAYS = GatewaysObserved()
