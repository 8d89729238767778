"""The routes of a history: an HTTPRoute, in some histories with a GRPCRoute beside it."""

import random

from simulation.stored import Object

GATEWAY_SHARE = 0.3
"""The share of histories with the Gateway API."""

GRPC_SHARE = 0.4
"""The share of these whose specs may have a GRPCRoute."""

SPEC_SHARE = 0.6
"""The share of specs with a route in them that have one."""

PLURALS = {"HTTPRoute": "httproutes", "GRPCRoute": "grpcroutes"}

HTTP: Object = {"parentRefs": [{"name": "web"}]}
GRPC: Object = {
    **HTTP,
    "hostnames": ["iris.example.com"],
    "grpc": {"hostnames": ["grpc.example.com"]},
}


class Routes:
    """The kinds of routes in one history, and which of them a step is about.

    Attributes:
        kinds: The kinds of routes that the cluster has.
    """

    def __init__(self, seed: int, *, has_gateways: bool) -> None:
        self._chance = random.Random(f"routes {seed}")
        has_grpc = has_gateways and self._chance.random() < GRPC_SHARE
        self.kinds = tuple(PLURALS)[: has_gateways + has_grpc]

    def spec(self) -> Object:
        """Return the field `route` of a spec."""
        has_grpc = len(self.kinds) == len(PLURALS) and self._chance.random() < SPEC_SHARE
        return GRPC if has_grpc else HTTP

    def chosen(self, plural: str) -> str:
        """Return the kind of children that a step is about, given one of the kinds."""
        if plural != PLURALS["HTTPRoute"] or len(self.kinds) < len(PLURALS):
            return plural
        return self._chance.choice(list(PLURALS.values()))


def kinds_of(spec: Object) -> tuple[str, ...]:
    """Return the kinds of routes that a spec requests of the Gateway API."""
    route = spec.get("route", {})
    if "parentRefs" not in route:
        return ()
    return ("HTTPRoute", "GRPCRoute") if "grpc" in route else ("HTTPRoute",)
