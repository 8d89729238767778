"""The queue between what changed and the pass that looks at it.

    add(key) --> ready, in order --> get() --> [a worker runs] --> done(key)
                   ^                              |
    schedule(key, seconds) ---- later ------------+---- retry(key): later, with back-off

A key stands in the queue once however often it is added, and never runs twice at a time: what is
added while it runs, or rests after it, is remembered and queued again when that is over. So a
burst of events costs one pass, and the pass always sees the newest state. Each key has at most
one timer; every pass replaces it. The queue knows nothing of models; the clock and the timer are
injected.
"""

import asyncio
import random
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)

RETRY_FIRST_SECONDS = 0.25
RETRY_LAST_SECONDS = 300.0


class Timer(Protocol):
    """What `call_later` returns."""

    def cancel(self) -> None:
        """Do not call."""
        ...


class Closed(Exception):
    """The queue was closed: workers end."""


class WorkQueue(Generic[K]):
    """Keys that wait for a worker.

    Args:
        call_later: Calls a function after some seconds, as the event loop's does.
        clock: Monotonic seconds.
        jitter: A number from [0, 1), to spread retries.
        rest: Seconds after a key's pass in which it does not run again, whatever happens.
    """

    def __init__(
        self,
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        rest: Callable[[K], float] = lambda _: 0.0,
    ) -> None:
        self._rest = rest
        self._call_later = call_later
        self._clock = clock
        self._jitter = jitter
        self._ready: dict[K, float] = {}  # insertion order is the queue; value: since when
        self._running: set[K] = set()
        self._resting: dict[K, Timer] = {}
        self._again: set[K] = set()
        self._timers: dict[K, Timer] = {}
        self._failures: dict[K, int] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    def add(self, key: K) -> None:
        """Have the key looked at as soon as a worker is free."""
        if key in self._running or key in self._resting:
            self._again.add(key)
        elif key not in self._ready and not self._closed:
            self._ready[key] = self._clock()
            self._wake_one()

    def schedule(self, key: K, seconds: float | None) -> None:
        """Have the key looked at after some seconds; None takes its timer away."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if seconds is not None and not self._closed:
            self._timers[key] = self._call_later(max(seconds, 0.0), lambda: self._due(key))

    def retry(self, key: K, *, least_seconds: float = 0.0) -> float:
        """Schedule the key with back-off and return the delay in seconds.

        The bound doubles from 0.25 s to 5 min with each failure; the delay is drawn from its
        upper half: after the third failure from [0.5, 1) s.
        """
        failures = self._failures.get(key, 0)
        # 2**11 times the first is beyond the last already; the cap keeps the number small.
        self._failures[key] = min(failures + 1, 11)
        bound = min(RETRY_LAST_SECONDS, RETRY_FIRST_SECONDS * 2.0**failures)
        delay = max(least_seconds, bound * (0.5 + self._jitter() / 2))
        self.schedule(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key's pass went well: the next failure starts at the first delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; `done` must follow.

        Raises:
            Closed: The queue was closed.
        """
        while not self._ready:
            if self._closed:
                raise Closed
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        key = next(iter(self._ready))
        del self._ready[key]
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """The key's pass is over; it runs again, after its rest, when it was added meanwhile."""
        self._running.discard(key)
        rest_seconds = self._rest(key)
        if rest_seconds > 0 and not self._closed:
            self._resting[key] = self._call_later(rest_seconds, lambda: self._rested(key))
        elif key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """Let no further key in and wake the workers, so that they end."""
        self._closed = True
        self._ready.clear()
        self._again.clear()
        for timer in (*self._timers.values(), *self._resting.values()):
            timer.cancel()
        self._timers.clear()
        self._resting.clear()
        while self._waiting:
            self._wake_one()

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return len(self._ready)

    @property
    def oldest_seconds(self) -> float:
        """How long the first key has waited."""
        return self._clock() - next(iter(self._ready.values())) if self._ready else 0.0

    def _rested(self, key: K) -> None:
        del self._resting[key]
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
