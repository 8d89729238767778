"""Schedules the polls of all replicas.

    watch(key, targets, pace) --> heap of due times --> [fair slots] --> deliver
    ask_now(pod uid) -----------------^                                     |
                                      `------ next due time, by pace -------'

`pace` computes the next poll, with a jitter of 20 %. There is no task per replica, only one loop
and the polls in flight. A result is delivered if it differs from the last one. Servers are not
trusted: no tenant gets all slots, and a model with expensive answers is polled less often.
"""

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from sys import intern

from moorage_operator.probe.driver import Driver
from moorage_operator.probe.reading.cost import counted
from moorage_operator.values.answers import AnswerReason, ProbeResult
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import PollPace, ProbeTarget
from moorage_operator.values.smoke import SmokeVerdict

from .comparison import has_new_tests, is_described
from .fair_slots import FairSlots, Turn
from .interrogation import as_spoken, interrogate
from .pace import (
    DESCRIBE_SECONDS,
    FAILING_FIRST_SECONDS,
    PollState,
    delay_seconds,
    describe_seconds,
    describes_soon,
    due_at,
    stretched_seconds,
)
from .smoke_runner import SmokeRunner

logger = logging.getLogger(__name__)

STARTING = 128
"""The number of polls that may have started just now, which bounds the work of the event loop. One
namespace gets at most half of them."""

STARTING_SECONDS = 0.1
"""After this time a poll only waits for its answer, which costs nothing, so another may start."""

IN_FLIGHT = 1024
"""The number of polls in flight; each holds a connection and about 10 KiB."""

JITTER = 0.2

CPU_SHARE = 0.01
"""The share of a core for parsing the answers of one model: 10 ms of parsing are followed by a
pause of one second. A normal answer takes 0.1 ms."""


@dataclass(slots=True)
class _Poll:
    """A replica between its polls."""

    key: ObjectKey
    target: ProbeTarget
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
    waiting: bool = False
    cost_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Polled:
    """A finished poll, for metrics; the first poll of a container has no previous one."""

    protocol: str
    transport: str
    outcome: str
    seconds: float
    late_seconds: float
    since_last_seconds: float | None


@dataclass(frozen=True, slots=True)
class Edges:
    """External functions of the poller: time, randomness and observers.

    Attributes:
        clock: Returns monotonic seconds.
        jitter: Returns a number from [0, 1).
        polled: Called after each poll.
        smoked: Called with the outcome and the duration of a container's smoke tests.
    """

    clock: Callable[[], float]
    jitter: Callable[[], float] = random.random
    polled: Callable[[Polled], None] = field(default=lambda _: None)
    smoked: Callable[[SmokeVerdict, float], None] = field(default=lambda _, __: None)


class Poller:
    """Polls replicas and delivers changed results.

    Args:
        drivers: A driver for each (protocol, transport).
        deliver: Receives a result that differs from the previous one.
        forget: Called with the uid of each pod that is no longer polled; its result is void.
        edges: Time, randomness and observers.
        polls_a_second: The budget that all serving replicas share.
    """

    def __init__(
        self,
        drivers: Mapping[tuple[str, str], Driver],
        deliver: Callable[[ObjectKey, ProbeResult], None],
        forget: Callable[[str], None],
        edges: Edges,
        *,
        polls_a_second: float,
    ) -> None:
        self._polls_a_second = polls_a_second
        self._drivers = drivers
        self._deliver = deliver
        self._forget = forget
        self._edges = edges
        self._polls: dict[str, _Poll] = {}
        self._by_key: dict[ObjectKey, tuple[str, ...]] = {}
        self._heap: list[tuple[float, int, str]] = []
        self._order = itertools.count()
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._slots = FairSlots(IN_FLIGHT, starting=STARTING)
        self._smoke = SmokeRunner(drivers, self._smoke_ended, edges.clock, edges.smoked)

    def watch(
        self, key: ObjectKey, targets: Iterable[ProbeTarget], pace: PollPace, interval: float
    ) -> None:
        """Poll exactly these replicas of the model from now on.

        A new container and a model that starts settling are polled at once. Replicas that were
        ready according to their status are spread out, so that a restarted operator does not poll
        all of them at once.
        """
        wanted = {intern(target.pod_uid): target for target in targets}
        for uid in set(self._by_key.get(key, ())) - wanted.keys():
            self._polls.pop(uid, None)
            self._smoke.forget(uid)
            self._forget(uid)
        if wanted:
            self._by_key[key] = tuple(wanted)
        else:
            self._by_key.pop(key, None)
        for uid, target in wanted.items():
            self._set(key, uid, target, pace, interval)

    def forget(self, key: ObjectKey) -> None:
        """Stop polling a deleted model."""
        self.watch(key, (), PollPace.STABLE, 0.0)

    def ask_now(self, pod_uid: str) -> None:
        """Poll a changed pod at once, or again if a poll is in flight."""
        poll = self._polls.get(pod_uid)
        if poll is None:
            return
        poll.since = self._edges.clock()
        if poll.running:
            poll.again = True
        else:
            self._schedule(pod_uid, poll, self._rest(poll))

    @property
    def in_flight(self) -> int:
        """The number of polls in flight."""
        return len(self._tasks)

    @property
    def targets(self) -> int:
        """The number of polled replicas."""
        return len(self._polls)

    @property
    def least_interval_seconds(self) -> float:
        """The shortest interval within the budget if all replicas are stable."""
        return self._stretched(0.0)

    async def run(self) -> None:
        """Poll until cancelled."""
        try:
            while True:
                self._wake.clear()
                self._line_up()
                while turn := self._slots.take():
                    self._start(turn)
                await self._sleep()
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
        if poll is None or not poll.target.asks_as(target):
            again = poll is not None and poll.running
            poll = _Poll(key, target, pace, interval, since=now, running=again, again=again)
            self._polls[uid] = poll
            calm = target.vouched and pace is PollPace.STABLE
            if not again:
                self._schedule(uid, poll, self.least_interval_seconds if calm else 0.0)
            return
        if has_new_tests(poll.target, target):
            self.ask_now(uid)
        poll.target = target
        if (poll.pace, poll.interval) == (pace, interval):
            return
        slower = poll.pace is PollPace.SETTLING
        poll.pace, poll.interval, poll.failures = pace, interval, 0
        if not slower:
            poll.since = now
        if poll.running:
            return
        delay = self._delay(uid, poll)
        # A replica that serves keeps its place: changes of the pace, for which another replica
        # may be the reason, must not postpone its poll again and again.
        if not self._state(poll).ready or now + delay < poll.due:
            self._schedule(uid, poll, delay)

    def _schedule(self, uid: str, poll: _Poll, delay: float) -> None:
        poll.due = due_at(self._edges.clock(), delay)
        heapq.heappush(self._heap, (poll.due, next(self._order), uid))
        self._wake.set()

    def _line_up(self) -> None:
        """Queue due polls for a slot."""
        now = self._edges.clock()
        while self._heap and self._heap[0][0] <= now:
            due, _, uid = heapq.heappop(self._heap)
            poll = self._polls.get(uid)
            if poll and not poll.waiting and self._is_current(uid, due):
                poll.waiting = True
                self._slots.put(Turn(poll.key, uid, self._state(poll).silent > 0))

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

    def _start(self, turn: Turn) -> None:
        poll = self._polls.get(turn.uid)
        if poll is None or poll.running:  # removed or replaced while it waited for a slot
            self._slots.give(turn)
            return
        poll.running, poll.waiting = True, False
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._poll(turn.uid, poll))
        self._tasks.add(task)
        timer = loop.call_later(STARTING_SECONDS, self._started, turn)
        task.add_done_callback(lambda task: self._finished(task, turn, timer))

    def _started(self, turn: Turn) -> None:
        self._slots.started(turn)
        self._wake_waiting()

    def _finished(self, task: asyncio.Task[None], turn: Turn, timer: asyncio.TimerHandle) -> None:
        timer.cancel()
        self._slots.give(turn)
        self._wake_waiting()
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("poll failed", exc_info=error)

    def _wake_waiting(self) -> None:
        if self._slots:
            self._wake.set()

    async def _poll(self, uid: str, poll: _Poll) -> None:
        started = self._edges.clock()
        late = started - poll.due
        since_last = None if poll.asked is None else started - poll.asked
        poll.asked = started
        target = poll.target
        with counted() as cost:
            try:
                await self._ask(poll, target, started)
            finally:
                poll.cost_seconds = cost.seconds
                self._reschedule(uid, poll)
        outcome = poll.result.model_ready.reason if poll.result else "Dropped"
        spent = self._edges.clock() - started
        self._edges.polled(
            Polled(target.way.protocol, target.way.transport, outcome, spent, late, since_last)
        )

    async def _ask(self, poll: _Poll, target: ProbeTarget, started: float) -> None:
        describe = started >= poll.describe_due
        async for result in interrogate(self._drivers, target, poll.result, describe=describe):
            if self._polls.get(target.pod_uid) is not poll:
                return  # the container was replaced or is no longer polled
            self._take(poll, replace(result, smoke=self._smoke.outcome(target)))
        if describe and poll.result and poll.result.model_ready.verdict is True:
            poll.undescribed = 0 if is_described(poll.result) else poll.undescribed + 1
            again = describe_seconds(poll.undescribed, self.least_interval_seconds)
            poll.describe_due = started + again
        self._test(poll)

    def _take(self, poll: _Poll, result: ProbeResult) -> None:
        if result != poll.result:
            poll.result = result
            self._deliver(poll.key, result)

    def _test(self, poll: _Poll) -> None:
        """Run the smoke tests of a container with a ready model."""
        if poll.result is None or poll.result.model_ready.verdict is not True:
            return
        if target := as_spoken(poll.target, poll.result.spoken):
            self._smoke.consider(poll.key, target)

    def _smoke_ended(self, uid: str) -> None:
        poll = self._polls.get(uid)
        if poll and poll.result:
            outcome = self._smoke.outcome(poll.target)
            self._take(poll, replace(poll.result, smoke=outcome))
            if not poll.running:
                self._schedule(uid, poll, self._delay(uid, poll))

    def _reschedule(self, uid: str, poll: _Poll) -> None:
        poll.running = False
        current = self._polls.get(uid)
        if current is None:
            return
        if current is not poll:
            if current.again:  # it waited for the end of this one
                current.running = current.again = False
                self._schedule(uid, current, 0.0)
            return
        unwell = poll.result is None or poll.result.model_ready.verdict is not True
        poll.failures = poll.failures + 1 if unwell else 0
        again, poll.again = poll.again, False
        self._schedule(uid, poll, self._rest(poll) if again else self._delay(uid, poll))

    def _rest(self, poll: _Poll) -> float:
        """Return the seconds until the model is within its share of the CPU again."""
        mates = len(self._by_key.get(poll.key, ()))
        pause = min(mates * poll.cost_seconds / CPU_SHARE, DESCRIBE_SECONDS)
        return max(0.0, (poll.asked or 0.0) + pause - self._edges.clock())

    def _delay(self, uid: str, poll: _Poll) -> float:
        state = self._state(poll)
        delay = delay_seconds(poll.pace, self._stretched(poll.interval), state)
        delay *= 1 - JITTER + 2 * JITTER * self._edges.jitter()
        if state.ready and describes_soon(poll.undescribed):
            # At least one second, because a failed query leaves the next one due immediately.
            soon = max(FAILING_FIRST_SECONDS, poll.describe_due - self._edges.clock())
            delay = min(delay, soon)
        delay = max(delay, self._rest(poll))
        again = self._smoke.again_in_seconds(uid)
        return delay if again is None else min(delay, again)

    def _state(self, poll: _Poll) -> PollState:
        result = poll.result
        answer = result.model_ready if result else None
        timed_out = answer is not None and answer.reason is AnswerReason.TIMED_OUT
        return PollState(
            waited=self._edges.clock() - poll.since,
            failures=poll.failures,
            silent=result.consecutive_unknown if result and timed_out else 0,
            ready=answer is not None and answer.verdict is True,
            mates=len(self._by_key.get(poll.key, ())),
        )

    def _stretched(self, interval: float) -> float:
        return stretched_seconds(interval, len(self._polls), self._polls_a_second)
