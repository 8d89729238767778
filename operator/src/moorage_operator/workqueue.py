"""The queue between what changed and the pass that looks at it.

    add(key, urgency) --> lanes, each in order --> get() --> [a worker runs] --> done(key)
                            ^                                    |
    schedule(key, seconds) -+-- later ---------------------------+---- retry(key): later

A key stands in the queue once however often it is added, in the most urgent lane that was named;
and it never runs twice at a time: what is added while it runs, or rests after it, is remembered
and queued again when that is over. So a burst of events costs one pass, and the pass always sees
the newest state.

Readiness and new specs take turns, so that neither waits for a flood of the other. What follows a
new spec takes its turns, once no other new one waits. Routine waits for all of them, but not for
ever. Each urgency has a moment to wait for what else is about to happen to the same key: a
Deployment that comes up changes ten times within a second, and a pod that becomes ready is
followed by its server's answer. To make what a new spec asks for may take the API server
seconds, so there is a bound to the passes of each lane, and workers are left for others.

Each key has at most one timer; every pass replaces it. The queue knows nothing of models; the
clock and the timer are injected.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from .urgency import Urgency

K = TypeVar("K", bound=Hashable)

RETRY_FIRST_SECONDS = 0.25
RETRY_LAST_SECONDS = 300.0

PATIENCE_SECONDS = {
    Urgency.READINESS: 1.0,
    Urgency.SPEC: 1.0,
    Urgency.FOLLOWING: 15.0,
    Urgency.ROUTINE: 1.0,
}
TURN = 8
"""Each so many keys one is taken that has waited longer than its lane's patience."""

MAKING = (Urgency.SPEC, Urgency.FOLLOWING)
"""The lanes whose passes make what is not there yet, the first before the other."""

CROWD = 2
"""Times as many models as usual are worked on while a crowd of new ones gets what follows, a
request each. More of them would make the children no sooner, and what traffic depends on would
wait behind them in the API server."""


def bounds_for(workers: int) -> Mapping[Urgency, int]:
    """How many keys of each lane run at a time, so that none has all workers. Pure.

    Args:
        workers: Keys that run at a time where no crowd has come.
    """
    return {
        Urgency.READINESS: workers,
        Urgency.SPEC: max(1, workers // 2),
        Urgency.FOLLOWING: (CROWD - 1) * workers,
        Urgency.ROUTINE: workers,
    }


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
        bounds: How many keys of a lane run at a time; a lane without a bound has all workers.
        gather: Seconds that a change of an urgency waits for further ones of its key, 0 where it
            is the last to be waited for: then the key waits no longer.
    """

    def __init__(
        self,
        *,
        call_later: Callable[[float, Callable[[], None]], Timer],
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        rest: Callable[[K], float] = lambda _: 0.0,
        bounds: Mapping[Urgency, int] = MappingProxyType({}),
        gather: Callable[[K, Urgency], float] = lambda _, __: 0.0,
    ) -> None:
        self._gather = gather
        self._gathering: dict[K, tuple[Urgency, Timer]] = {}
        self._bounds = bounds
        self._rest = rest
        self._call_later = call_later
        self._clock = clock
        self._jitter = jitter
        # A lane's order is that of its insertions; the value is since when the key waits.
        self._lanes: dict[Urgency, dict[K, float]] = {urgency: {} for urgency in Urgency}
        self._taken = 0
        self._running: dict[K, Urgency] = {}
        self._runs_of = Counter[Urgency]()
        self._resting: dict[K, Timer] = {}
        self._again: dict[K, Urgency] = {}
        self._timers: dict[K, Timer] = {}
        self._failures: dict[K, int] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self._closed = False

    def add(self, key: K, urgency: Urgency = Urgency.ROUTINE) -> None:
        """Have the key looked at as soon as a worker is free."""
        if key in self._running or key in self._resting:
            self._again[key] = min(self._again.get(key, urgency), urgency)
        elif not self._closed and not self._waits_as(key, urgency):
            self._collect(key, urgency)

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
        while (urgency := self._next_lane()) is None:
            if self._closed:
                raise Closed
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        self._taken += 1
        lane = self._lanes[urgency]
        key = next(iter(lane))
        del lane[key]
        self._running[key] = urgency
        self._runs_of[urgency] += 1
        if self._waiting and self._next_lane() is not None:
            self._wake_one()  # one key taken, or one done, may make room for several
        return key

    def done(self, key: K) -> None:
        """The key's pass is over; it runs again, after its rest, when it was added meanwhile."""
        self._runs_of[self._running.pop(key)] -= 1
        self._wake_one()  # its lane may have been at its bound
        rest_seconds = self._rest(key)
        if rest_seconds > 0 and not self._closed:
            self._resting[key] = self._call_later(rest_seconds, lambda: self._rested(key))
        else:
            self._add_again(key)

    def close(self) -> None:
        """Let no further key in and wake the workers, so that they end."""
        self._closed = True
        for lane in self._lanes.values():
            lane.clear()
        self._again.clear()
        gathering = (timer for _, timer in self._gathering.values())
        for timer in (*self._timers.values(), *self._resting.values(), *gathering):
            timer.cancel()
        self._gathering.clear()
        self._timers.clear()
        self._resting.clear()
        while self._waiting:
            self._wake_one()

    @property
    def depth(self) -> int:
        """Keys that wait for a worker."""
        return sum(map(len, self._lanes.values()))

    @property
    def oldest_seconds(self) -> float:
        """How long the first key of a lane has waited, of all lanes the longest."""
        waited = (self._waited(urgency) for urgency, lane in self._lanes.items() if lane)
        return max(waited, default=0.0)

    def waiting(self, urgency: Urgency) -> int:
        """Keys that wait in one lane."""
        return len(self._lanes[urgency])

    def _waits_as(self, key: K, urgency: Urgency) -> bool:
        """Whether the key waits in a lane that is as urgent; it leaves one that is less so."""
        for known, lane in self._lanes.items():
            if key in lane:
                if known <= urgency:
                    return True
                del lane[key]
        return False

    def _next_lane(self) -> Urgency | None:
        """The lane whose first key is next; None where no key may run now."""
        waiting = [
            urgency for urgency, lane in self._lanes.items() if lane and self._has_room(urgency)
        ]
        if not waiting:
            return None
        turn = self._taken + 1
        if turn % TURN == 0:
            late = [each for each in waiting if self._waited(each) > PATIENCE_SECONDS[each]]
            if late:
                return max(late, key=self._waited)
        if turn % 2 == 0:
            return next((urgency for urgency in MAKING if urgency in waiting), waiting[0])
        return waiting[0]

    def _has_room(self, urgency: Urgency) -> bool:
        """Whether one more key of the lane may run.

        While something new runs, what follows shares its bound: Services that are under way would
        wait for the pods of all the others.
        """
        bound, runs = self._bounds.get(urgency), self._runs_of[urgency]
        if urgency is Urgency.FOLLOWING and (new := self._runs_of[Urgency.SPEC]):
            bound, runs = self._bounds.get(Urgency.SPEC), runs + new
        return bound is None or runs < bound

    def _waited(self, urgency: Urgency) -> float:
        """How long the lane's first key has waited."""
        return self._clock() - next(iter(self._lanes[urgency].values()))

    def _rested(self, key: K) -> None:
        del self._resting[key]
        self._add_again(key)

    def _add_again(self, key: K) -> None:
        urgency = self._again.pop(key, None)
        if urgency is not None:
            self.add(key, urgency)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self._add_now(key, Urgency.ROUTINE)

    def _collect(self, key: K, urgency: Urgency) -> None:
        """Let the key wait for its moment, unless it does so already, or has none."""
        moment = self._gather(key, urgency)
        if moment <= 0:
            self._enqueue(key, urgency)
            return
        if known := self._gathering.get(key):
            if known[0] <= urgency:
                return
            known[1].cancel()
        timer = self._call_later(moment, lambda: self._gathered(key))
        self._gathering[key] = urgency, timer

    def _gathered(self, key: K) -> None:
        urgency, _ = self._gathering.pop(key)
        self._add_now(key, urgency)

    def _add_now(self, key: K, urgency: Urgency) -> None:
        """Add a key that has waited for its moment."""
        if key in self._running or key in self._resting:
            self.add(key, urgency)
        elif not self._closed and not self._waits_as(key, urgency):
            self._enqueue(key, urgency)

    def _enqueue(self, key: K, urgency: Urgency) -> None:
        if known := self._gathering.pop(key, None):
            gathered, timer = known
            timer.cancel()
            urgency = min(urgency, gathered)  # a timer that ends meanwhile makes it no routine
        self._lanes[urgency][key] = self._clock()
        self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.pop(0)
            if not waiter.done():
                waiter.set_result(None)
                return
