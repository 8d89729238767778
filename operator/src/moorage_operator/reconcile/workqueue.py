"""The queue of the models that need a reconcile.

    add(key, urgency) --> get() --> [reconcile] --> done(key)
      ^---- later ---- schedule(key, seconds), retry(key)

A key is in the queue at most once, and is never reconciled twice at the same time. A key that is
added during its reconcile, or during the rest after it, is queued again afterwards.
"""

import asyncio
import random
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from moorage_operator.values.urgency import Urgency

from .policy import Policy

K = TypeVar("K", bound=Hashable)


class Closed(Exception):
    """The queue is closed and returns no more keys."""


class WorkQueue(Generic[K]):
    """Keys that wait for a reconcile.

    Args:
        call_later: Calls a function after a delay, like that of the event loop.
        clock: Returns monotonic seconds.
        jitter: Returns a number from [0, 1), to spread retries.
        rest: Returns for how many seconds after its reconcile a key rests, regardless of urgency.
        policy: The limits and delays.
    """

    def __init__(
        self,
        *,
        call_later: Callable[[float, Callable[[], None]], asyncio.TimerHandle],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        rest: Callable[[K], float] = lambda _: 0.0,
        policy: Policy,
    ) -> None:
        self._call_later, self._clock, self._jitter = call_later, clock, jitter
        self._rest, self._policy = rest, policy
        # In the order in which they were added, with the time when the key was added.
        self._waiting: dict[Urgency, dict[K, float]] = {urgency: {} for urgency in Urgency}
        self._taken = 0
        self._running: set[K] = set()
        # The timer of the rest, and whether urgent changes wait for it too.
        self._resting: dict[K, tuple[asyncio.TimerHandle, bool]] = {}
        self._again: dict[K, Urgency] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._news = asyncio.Event()
        self._closed = False

    def add(self, key: K, urgency: Urgency = Urgency.ROUTINE) -> None:
        """Queue the key, after the end of its reconcile and its rest."""
        resting = self._resting.get(key)
        if key in self._running or (resting and (resting[1] or urgency is Urgency.ROUTINE)):
            self._again[key] = min(self._again.get(key, urgency), urgency)
            return
        known = next((each for each in Urgency if key in self._waiting[each]), None)
        if not self._closed and (known is None or urgency < known):
            since = self._clock() if known is None else self._waiting[known].pop(key)
            self._waiting[urgency][key] = since
            self._news.set()

    def schedule(self, key: K, seconds: float | None) -> None:
        """Queue the key after a delay, which replaces an earlier one; None cancels it."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if seconds is not None and not self._closed:
            look = partial(self.add, key, Urgency.SPEC)
            self._timers[key] = self._call_later(max(seconds, 0.0), look)

    def retry(self, key: K, *, least_seconds: float = 0.0) -> float:
        """Queue the key with a delay after a failure, and return the delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(least_seconds, self._policy.retry_seconds(failures, self._jitter()))
        self.schedule(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the failures of a key after a successful reconcile."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Return the next key; the caller must call `done` for it.

        Raises:
            Closed: The queue is closed.
        """
        while not (waiting := self._next()):
            if self._closed:
                raise Closed
            self._news.clear()
            await self._news.wait()
        self._taken += 1
        key = next(iter(waiting))
        del waiting[key]
        self._again.pop(key, None)  # this reconcile sees that change too
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """End the key's reconcile; if the key was added meanwhile, it is queued after its rest."""
        self._running.remove(key)
        self._news.set()
        if rested := self._resting.pop(key, None):
            rested[0].cancel()
        if not self._closed:
            firm = self._rest(key)
            seconds = max(firm, self._policy.rest_seconds)
            self._resting[key] = self._call_later(seconds, lambda: self._rested(key)), firm > 0
        self._add_again(key)

    def close(self) -> None:
        """Drop all keys, and end the wait for the next one."""
        self._closed = True
        for timer in (*self._timers.values(), *(timer for timer, _ in self._resting.values())):
            timer.cancel()
        for keys in (*self._waiting.values(), self._again):
            keys.clear()
        self._news.set()

    @property
    def depth(self) -> int:
        """The number of keys that wait for a reconcile."""
        return sum(map(len, self._waiting.values()))

    @property
    def oldest_seconds(self) -> float:
        """The seconds that the oldest key has waited."""
        first = (next(iter(keys.values())) for keys in self._waiting.values() if keys)
        return self._clock() - min(first, default=self._clock())

    def _next(self) -> dict[K, float]:
        """Return the keys whose first one is next; empty if no key may run now."""
        waiting = [self._waiting[each] for each in Urgency if self._waiting[each]]
        if not waiting or len(self._running) >= self._policy.passes:
            return self._waiting[Urgency.READINESS]
        is_fair = (self._taken + 1) % self._policy.turn == 0
        return min(waiting, key=lambda keys: next(iter(keys.values()))) if is_fair else waiting[0]

    def _rested(self, key: K) -> None:
        del self._resting[key]
        self._add_again(key)

    def _add_again(self, key: K) -> None:
        if (urgency := self._again.pop(key, None)) is not None:
            self.add(key, urgency)
