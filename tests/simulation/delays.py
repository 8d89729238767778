"""The queue of a simulated controller: each object is handled once, a while after a change."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from simulation.stored import Key


@dataclass
class Delays:
    """Calls a function with each added key after a random delay, once for several changes."""

    loop: asyncio.AbstractEventLoop
    chance: random.Random
    least_seconds: float
    most_seconds: float
    sync: Callable[[Key], None]
    _waiting: set[Key] = field(default_factory=set)

    def add(self, key: Key) -> None:
        """Handle an object soon, unless it is waiting already."""
        if key not in self._waiting:
            self._waiting.add(key)
            span = self.most_seconds - self.least_seconds
            delay = self.least_seconds + span * self.chance.random()
            self.loop.call_later(delay, self._handle, key)

    def _handle(self, key: Key) -> None:
        self._waiting.discard(key)
        self.sync(key)
