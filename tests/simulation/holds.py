"""Finalizers of other controllers, which keep a deleted model for a while.

delete --> deletionTimestamp; the children stay --> later --> model and children are gone
"""

import random

from simulation.stored import Refused
from simulation.world import NAMESPACE, USER, World

SHARE = 0.25
"""The share of deletions that are held."""

SECONDS = (0.5, 5.0, 60.0)


class Holds:
    """The deletions of one model, with random numbers of their own."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self._world = world
        self._key = (NAMESPACE, name)
        self._chance = random.Random(f"holds {seed}")

    def delete(self, *, at_once: bool = False) -> float:
        """Delete the model, and return the seconds until it is gone."""
        if at_once or self._chance.random() > SHARE:
            self._end()
            return 0.0
        seconds = self._chance.choice(SECONDS) * (0.5 + self._chance.random())
        self._world.note(f"user: deletes the model, which a finalizer keeps for {seconds:.1f} s")
        try:
            self._world.api.delete("inferencemodels", self._key, {}, USER, held=True)
        except Refused:  # there is none
            return 0.0
        self._world.loop.call_later(seconds, self.release)
        return seconds

    def release(self) -> None:
        """End a deletion that has begun."""
        model = self._world.api.get("inferencemodels", self._key)
        if model and "deletionTimestamp" in model["metadata"]:
            self._end()

    def _end(self) -> None:
        try:
            self._world.api.delete("inferencemodels", self._key, {}, USER)
        except Refused:  # there is none
            return
