"""When to ask which replica.

    watch(key, targets, pace) --> heap of due times --> [bounded number in flight] --> deliver
    ask_now(pod uid) -----------------^                                                   |
                                      `------------- next due time, by pace --------------'

`pace` says when the next poll is; all are spread by +-20 %. No task is kept per replica:
one loop and the questions in flight. A result is delivered when it says something that the last
one did not.
"""

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from sys import intern

from moorage_operator.answers import AnswerReason, ProbeResult
from moorage_operator.packing import Packer
from moorage_operator.planned import PollPace, ProbeTarget
from moorage_operator.sharing import share_answers
from moorage_operator.smoke import SmokeVerdict
from moorage_operator.state import ObjectKey

from .comparison import has_new_tests, is_described, says_the_same
from .driver import Driver
from .interrogation import as_spoken, interrogate
from .owed import Owed
from .pace import (
    FAILING_FIRST_SECONDS,
    Standing,
    Usual,
    delay_seconds,
    describe_seconds,
    describes_soon,
    due_at,
    stretched_seconds,
)
from .slot import Slot
from .smoke_runner import SmokeRunner

logger = logging.getLogger(__name__)

STARTING = 64
"""Polls at a time that were started just now: what the event loop has to do at once."""

STARTING_SECONDS = 0.1
"""A poll that has no answer by then costs nothing while it waits, and makes room for another."""

IN_FLIGHT = 1024
"""Polls at a time, waiting ones included: each holds a connection and some 10 KiB."""

JITTER = 0.2


@dataclass(slots=True)
class _Poll:
    """A replica between its polls; the target is packed, for most of the time nobody asks it."""

    key: ObjectKey
    packed: bytes
    pace: PollPace
    interval: float
    since: float
    due: float = 0.0
    result: ProbeResult | None = None
    failures: int = 0
    describe_due: float = 0.0
    undescribed: int = 0
    asked: float | None = None
    running: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Polled:
    """A finished poll, for metrics; the first of a container has no last one."""

    protocol: str
    transport: str
    outcome: str
    seconds: float
    late_seconds: float
    since_last_seconds: float | None


@dataclass(frozen=True, slots=True)
class Edges:
    """What the poller needs from outside: time, chance and ears.

    Attributes:
        clock: Monotonic seconds.
        now: The time in UTC.
        jitter: A number from [0, 1).
        polled: Called after each poll.
        smoked: Called with how a container did in its smoke tests and the seconds they took.
    """

    clock: Callable[[], float]
    now: Callable[[], datetime]
    jitter: Callable[[], float] = random.random
    polled: Callable[[Polled], None] = field(default=lambda _: None)
    smoked: Callable[[SmokeVerdict, float], None] = field(default=lambda _, __: None)


class Poller:
    """Polls replicas and delivers what changed.

    Args:
        drivers: A driver for each (protocol, transport).
        deliver: Takes a result that differs from the one before.
        edges: Time, chance and ears.
        polls_a_second: The budget that replicas which serve share.

    Attributes:
        owed: Whose answers are waited for.
        usual: How long they take to come.
    """

    def __init__(
        self,
        drivers: Mapping[tuple[str, str], Driver],
        deliver: Callable[[ObjectKey, ProbeResult], None],
        edges: Edges,
        *,
        polls_a_second: float,
    ) -> None:
        self._polls_a_second = polls_a_second
        self._drivers = drivers
        self._deliver = deliver
        self._edges = edges
        self._polls: dict[str, _Poll] = {}
        self._by_key: dict[ObjectKey, tuple[str, ...]] = {}
        self._packer: Packer[ProbeTarget] = Packer(ProbeTarget)
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Semaphore(STARTING)
        self._in_flight = asyncio.Semaphore(IN_FLIGHT)
        self.owed = Owed()
        self.usual = Usual()
        self._smoke = SmokeRunner(drivers, self._smoke_ended, edges.clock, edges.smoked)

    def watch(
        self, key: ObjectKey, targets: Iterable[ProbeTarget], pace: PollPace, interval: float
    ) -> None:
        """From now on poll these replicas of the model, and no others of it.

        A new container, and a model that begins to settle, is asked at once; those that their
        statuses vouch for one after the other, so that a restarted operator asks no crowd.
        """
        wanted = {intern(target.pod_uid): target for target in targets}
        for uid in set(self._by_key.get(key, ())) - wanted.keys():
            self._polls.pop(uid, None)
            self.owed.settle(key, uid)
            self._smoke.forget(uid)
        if wanted:
            self._by_key[key] = tuple(wanted)
        else:
            self._by_key.pop(key, None)
        for uid, target in wanted.items():
            self._set(key, uid, target, pace, interval)

    def forget(self, key: ObjectKey) -> None:
        """The model is gone."""
        self.watch(key, (), PollPace.STABLE, 0.0)

    def ask_now(self, pod_uid: str) -> None:
        """Something happened to the pod: ask at once, or again where a poll is under way."""
        poll = self._polls.get(pod_uid)
        if poll is None:
            return
        poll.since = self._edges.clock()
        self.owed.ask(poll.key, pod_uid)
        if poll.running:
            poll.again = True
        else:
            self._schedule(pod_uid, poll, 0.0)

    @property
    def in_flight(self) -> int:
        """Polls under way."""
        return len(self._tasks)

    @property
    def targets(self) -> int:
        """Replicas that are polled."""
        return len(self._polls)

    @property
    def least_interval_seconds(self) -> float:
        """How often the budget lets each replica be asked, were all of them stable."""
        return self._stretched(0.0)

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                self._wake.clear()
                uid = self._pop_due()
                if uid is None:
                    await self._sleep()
                    continue
                await self._in_flight.acquire()
                await self._starting.acquire()
                self._start(uid)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._smoke.close()

    def _set(
        self, key: ObjectKey, uid: str, target: ProbeTarget, pace: PollPace, interval: float
    ) -> None:
        now = self._edges.clock()
        poll = self._polls.get(uid)
        same = poll is not None and self._packer.holds(poll.packed, target)
        packed = poll.packed if poll and same else self._packer.pack(target)
        known = self._target(poll) if poll and not same else target
        if poll is None or not (known == target or known.asks_as(target)):
            again = poll is not None and poll.running
            poll = _Poll(key, packed, pace, interval, since=now, running=again, again=again)
            self._polls[uid] = poll
            calm = target.vouched and pace is PollPace.STABLE
            if not calm:
                self.owed.ask(key, uid)
            if not again:
                self._schedule(uid, poll, self.least_interval_seconds if calm else 0.0)
            return
        if has_new_tests(known, target):
            self.ask_now(uid)
        poll.packed = packed
        if (poll.pace, poll.interval) == (pace, interval):
            return
        slower = poll.pace is PollPace.SETTLING
        poll.pace, poll.interval, poll.failures = pace, interval, 0
        if not slower:
            poll.since = now
        if not poll.running:
            self._schedule(uid, poll, self._delay(uid, poll))

    def _schedule(self, uid: str, poll: _Poll, delay: float) -> None:
        poll.due = due_at(self._edges.clock(), delay)
        heapq.heappush(self._heap, (poll.due, next(self._order), uid))
        self._wake.set()

    def _pop_due(self) -> str | None:
        now = self._edges.clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, uid = heapq.heappop(self._heap)
            if self._is_current(uid, due):
                return uid
        return None

    def _is_current(self, uid: str, due: float) -> bool:
        # A poll that was rescheduled or dropped leaves its old entry in the heap.
        poll = self._polls.get(uid)
        return poll is not None and not poll.running and poll.due == due

    async def _sleep(self) -> None:
        timeout = self._heap[0][0] - self._edges.clock() if self._heap else None
        try:
            async with asyncio.timeout(timeout):
                await self._wake.wait()
        except TimeoutError:
            return

    def _start(self, uid: str) -> None:
        poll = self._polls.get(uid)
        if poll is None:  # dropped while it waited for a slot
            self._starting.release()
            self._in_flight.release()
            return
        poll.running = True
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._poll(uid, poll))
        self._tasks.add(task)
        slot = Slot(self._starting)
        timer = loop.call_later(STARTING_SECONDS, slot.release)
        task.add_done_callback(lambda task: self._finished(task, slot, timer))

    def _finished(self, task: asyncio.Task[None], slot: Slot, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        slot.release()
        self._tasks.discard(task)
        self._in_flight.release()
        if not task.cancelled() and (error := task.exception()):
            logger.error("poll failed", exc_info=error)

    async def _poll(self, uid: str, poll: _Poll) -> None:
        started = self._edges.clock()
        late = started - poll.due
        since_last = None if poll.asked is None else started - poll.asked
        poll.asked = started
        target = self._target(poll)
        try:
            await self._ask(poll, target, started)
        finally:
            self._reschedule(uid, poll)
        outcome = poll.result.model_ready.reason if poll.result else "Dropped"
        spent = self._edges.clock() - started
        if poll.result and poll.result.model_ready.verdict is not None:
            self.usual.took(late + spent)
        self._edges.polled(
            Polled(target.protocol, target.transport, outcome, spent, late, since_last)
        )

    async def _ask(self, poll: _Poll, target: ProbeTarget, started: float) -> None:
        describe = started >= poll.describe_due
        async for result in interrogate(
            self._drivers, target, poll.result, describe=describe, now=self._edges.now
        ):
            if self._polls.get(target.pod_uid) is not poll:
                return  # another container, or no longer wanted: the answer is void
            if not poll.again:
                self.owed.settle(poll.key, target.pod_uid)
            self._take(poll, replace(result, smoke=self._smoke.outcome(target)))
        if describe and poll.result and poll.result.model_ready.verdict is True:
            poll.undescribed = 0 if is_described(poll.result) else poll.undescribed + 1
            again = describe_seconds(poll.undescribed, self.least_interval_seconds)
            poll.describe_due = started + again
        self._test(poll)

    def _take(self, poll: _Poll, result: ProbeResult) -> None:
        if poll.result is None or not says_the_same(poll.result, result):
            poll.result = share_answers(result)
            self._deliver(poll.key, poll.result)

    def _test(self, poll: _Poll) -> None:
        """Put a container whose model is ready to its smoke tests."""
        if poll.result is None or poll.result.model_ready.verdict is not True:
            return
        if target := as_spoken(self._target(poll), poll.result.spoken):
            self._smoke.consider(target)

    def _smoke_ended(self, uid: str) -> None:
        poll = self._polls.get(uid)
        if poll and poll.result:
            outcome = self._smoke.outcome(self._target(poll))
            self._take(poll, replace(poll.result, smoke=outcome))
            if not poll.running:
                self._schedule(uid, poll, self._delay(uid, poll))

    def _reschedule(self, uid: str, poll: _Poll) -> None:
        poll.running = False
        current = self._polls.get(uid)
        if current is poll and not poll.again:
            self.owed.settle(poll.key, uid)
        if current is None:
            return
        if current is not poll:
            if current.again:  # it waited for this one to end
                current.running = current.again = False
                self._schedule(uid, current, 0.0)
            return
        unwell = poll.result is None or poll.result.model_ready.verdict is not True
        poll.failures = poll.failures + 1 if unwell else 0
        again, poll.again = poll.again, False
        self._schedule(uid, poll, 0.0 if again else self._delay(uid, poll))

    def _delay(self, uid: str, poll: _Poll) -> float:
        standing = self._standing(poll)
        delay = delay_seconds(poll.pace, self._stretched(poll.interval), standing)
        delay *= 1 - JITTER + 2 * JITTER * self._edges.jitter()
        if standing.ready and describes_soon(poll.undescribed):
            # No sooner than a second: a question that breaks leaves the next one due at once.
            soon = max(FAILING_FIRST_SECONDS, poll.describe_due - self._edges.clock())
            delay = min(delay, soon)
        again = self._smoke.again_in_seconds(uid)
        return delay if again is None else min(delay, again)

    def _target(self, poll: _Poll) -> ProbeTarget:
        return self._packer.unpack(poll.packed)

    def _standing(self, poll: _Poll) -> Standing:
        result = poll.result
        answer = result.model_ready if result else None
        timed_out = answer is not None and answer.reason is AnswerReason.TIMED_OUT
        return Standing(
            waited=self._edges.clock() - poll.since,
            failures=poll.failures,
            silent=result.consecutive_unknown if result and timed_out else 0,
            ready=answer is not None and answer.verdict is True,
            mates=len(self._by_key.get(poll.key, ())),
        )

    def _stretched(self, interval: float) -> float:
        return stretched_seconds(interval, len(self._polls), self._polls_a_second)
