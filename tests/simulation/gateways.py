"""The simulated controller of a Gateway: it accepts routes and resolves their Services.

    HTTPRoute, GRPCRoute, Services --> conditions Accepted and ResolvedRefs of the route

Source: Gateway API v1, HTTPRoute and GRPCRoute: RouteParentStatus, ResolvedRefs with
BackendNotFound.
"""

import asyncio
import random
from functools import partial

from simulation.api_server import ApiServer
from simulation.delays import Delays
from simulation.pods import KUBERNETES, key_of
from simulation.routes import PLURALS
from simulation.stored import Key, Object, Write

LAGS = (0.05, 1.0, 5.0)
"""The longest delays of a Gateway's controller, in seconds."""


class Gateways:
    """Reports each route to be accepted by its Gateways."""

    def __init__(
        self, api: ApiServer, chance: random.Random, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._api = api
        lag = chance.choice(LAGS)
        self._soon = {
            plural: Delays(loop, chance, 0.0, lag, partial(self._sync, plural))
            for plural in PLURALS.values()
        }

    def follow(self, write: Write) -> None:
        """Handle a changed route, or a Service that a route may refer to."""
        if write.plural in self._soon and write.after and not write.part:
            self._soon[write.plural].add(write.key)
        elif write.plural == "services" and (write.before is None or write.after is None):
            for plural, soon in self._soon.items():
                for body in self._api.all(plural, write.key[0]):
                    soon.add(key_of(body))

    def _sync(self, plural: str, key: Key) -> None:
        route = self._api.get(plural, key)
        if route is None:
            return
        generation = route["metadata"]["generation"]
        names = {each["name"] for rule in route["spec"]["rules"] for each in rule["backendRefs"]}
        found = {each["metadata"]["name"] for each in self._api.all("services", key[0])}
        missing = sorted(names - found)
        resolved = _condition("ResolvedRefs", "BackendNotFound" if missing else "", generation)
        accepted = _condition("Accepted", "", generation)
        status = {
            "parents": [
                {
                    "parentRef": parent,
                    "controllerName": "example.com/gateway",
                    "conditions": [accepted, resolved],
                }
                for parent in route["spec"]["parentRefs"]
            ]
        }
        self._api.report(plural, key, status, KUBERNETES)


def _condition(type_: str, problem: str, generation: int) -> Object:
    return {
        "type": type_,
        "status": "False" if problem else "True",
        "reason": problem or type_,
        "message": problem,
        "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
