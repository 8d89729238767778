"""Admission that refuses or fails all writes of one kind of children for a while.

step --> weather.admission[kind] = 403 or 500 --> later --> allowed again

Other faults hit single requests, so the next attempt succeeds. A policy or a webhook that is down
fails every attempt, while the pods and the other children change.
"""

import random

from simulation.world import World

SHARE = 0.25
"""The share of histories in which this happens."""

STEP_SHARE = 0.4
"""The share of steps in them that are followed by this."""

KINDS = ("services", "services", "deployments", "httproutes", "controllerrevisions")
CODES = (403, 500)
SECONDS = (2.0, 20.0, 90.0)


class Admission:
    """Periods of refusals in one history, from random numbers of their own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"policy {seed}")
        self._does_happen = self._chance.random() < SHARE

    def after_step(self) -> None:
        """Begin a period, perhaps."""
        world, chance = self._world, self._chance
        if not self._does_happen or chance.random() > STEP_SHARE:
            return
        kind, code = chance.choice(KINDS), chance.choice(CODES)
        seconds = chance.choice(SECONDS) * (0.5 + chance.random())
        world.note(f"step: writes of {kind} get {code} for {seconds:.1f} s")
        world.weather.admission[kind] = code
        world.loop.call_later(seconds, lambda: self._end(kind))

    def _end(self, kind: str) -> None:
        if self._world.weather.admission.pop(kind, None):
            self._world.note(f"writes of {kind} are accepted again")
