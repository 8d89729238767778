"""An admission webhook that is slow for one kind, in some histories.

write --> webhook: seconds --> stored, unless its client has given up

Other writes go on meanwhile, and what the slow one was based on may change before it is stored.
"""

import random

from simulation.world import World

SHARE = 0.08
"""The share of histories with such a webhook."""

STEP_SHARE = 0.4
"""The share of steps in them after which it is slow for a while."""

KINDS = ("inferencemodels", "pods", "services", "deployments", "controllerrevisions", "httproutes")
DELAYS = (0.5, 3.0, 12.0, 40.0)
"""Seconds of each write; a client gives up after 30."""

SECONDS = (5.0, 20.0, 90.0)


class Webhooks:
    """The slow webhook of one history, from random numbers of its own."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = random.Random(f"webhooks {seed}")
        self._does_happen = self._chance.random() < SHARE

    def after_step(self) -> None:
        """Begin to be slow, perhaps."""
        world, chance = self._world, self._chance
        if not self._does_happen or chance.random() > STEP_SHARE:
            return
        kind, delay = chance.choice(KINDS), chance.choice(DELAYS)
        seconds = chance.choice(SECONDS) * (0.5 + chance.random())
        world.note(f"step: writes of {kind} take {delay:.1f} s for {seconds:.1f} s")
        world.weather.slow[kind] = delay
        world.loop.call_later(seconds, lambda: world.weather.slow.pop(kind, None))
