"""Runs the smoke tests of each container once, independently of the polls.

    poller: the model is ready --> consider --> [fair slots] --> ended(pod uid)
    poller <-- outcome(pod uid, container) -------------------------'

An inference may take seconds and must not delay polls, so the tests have their own tasks and
slots. Passed tests are not repeated. Failed tests are repeated with increasing pauses, because a
node may have been busy or a dependency unavailable.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import Driver
from moorage_operator.probe.reading.aside import aside
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.json_answers import JsonAnswer, unmet
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import (
    Outputs,
    SmokeOutcome,
    SmokeTask,
    SmokeVerdict,
    mismatch,
)

from .fair_slots import FairSlots, Turn

logger = logging.getLogger(__name__)

IN_FLIGHT = 32
"""The number of containers tested at the same time; with the largest answers this is 128 MiB."""

ATTEMPTS = 3
"""The fastest of this many answers counts, because the first one after a load is slow."""

DEADLINE_SECONDS = 30.0
"""The deadline of an answer, unless the test allows a longer latency."""

AGAIN_FIRST_SECONDS = 10.0
AGAIN_LAST_SECONDS = 600.0


_FAILURES = {
    AnswerReason.TIMED_OUT: SmokeVerdict.LATENCY_EXCEEDED,
    AnswerReason.UNAUTHORIZED: SmokeVerdict.REQUEST_UNAUTHORIZED,
}


@dataclass(slots=True)
class _Trial:
    container_id: str
    digest: str
    outcome: SmokeOutcome | None = None
    failures: int = 0
    due: float = 0.0
    waiting: Callable[[], asyncio.Task[None]] | None = None
    task: asyncio.Task[None] | None = None


class SmokeRunner:
    """Runs smoke tests and keeps their outcomes.

    Args:
        drivers: A driver for each (protocol, transport).
        ended: Called with the uid of a pod whose tests have finished.
        clock: Returns monotonic seconds.
        measured: Called with the outcome and the duration of the tests of a container, without
            the wait for a slot.
    """

    def __init__(
        self,
        drivers: Mapping[tuple[str, str], Driver],
        ended: Callable[[str], None],
        clock: Callable[[], float],
        measured: Callable[[SmokeVerdict, float], None],
    ) -> None:
        self._drivers = drivers
        self._ended = ended
        self._clock = clock
        self._measured = measured
        self._trials: dict[str, _Trial] = {}
        self._slots = FairSlots(IN_FLIGHT, starting=IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()

    def consider(self, key: ObjectKey, target: ProbeTarget) -> None:
        """Run the tests of a ready model if they are due."""
        wanted = target.smoke
        if wanted is None or wanted.done:
            return
        trial = self._trials.get(target.pod_uid)
        if trial is None or (trial.container_id, trial.digest) != (
            target.container_id,
            wanted.digest,
        ):
            self.forget(target.pod_uid)
            trial = _Trial(target.container_id, wanted.digest)
            self._trials[target.pod_uid] = trial
        passed = trial.outcome is not None and trial.outcome.verdict is SmokeVerdict.PASSED
        busy = trial.task or trial.waiting
        if not busy and not passed and trial.due <= self._clock():
            loop = asyncio.get_running_loop()
            run = partial(self._run, target, wanted, trial)
            trial.waiting = lambda: loop.create_task(run())
            self._slots.put(Turn(key, target.pod_uid))
            self._start_waiting()

    def outcome(self, target: ProbeTarget) -> SmokeOutcome | None:
        """Return the last outcome for the target's container, of any tests."""
        trial = self._trials.get(target.pod_uid)
        same = trial is not None and trial.container_id == target.container_id
        return trial.outcome if trial and same else None

    def again_in_seconds(self, pod_uid: str) -> float | None:
        """Return the seconds until failed tests are due again; None if there are none."""
        trial = self._trials.get(pod_uid)
        if trial is None or trial.task or trial.waiting or not trial.failures:
            return None
        return max(trial.due - self._clock(), 0.0)

    def forget(self, pod_uid: str) -> None:
        """Stop the tests of a pod that was deleted or whose container was replaced."""
        trial = self._trials.pop(pod_uid, None)
        if trial and trial.task:
            trial.task.cancel()

    async def close(self) -> None:
        """Cancel all tests."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start_waiting(self) -> None:
        while turn := self._slots.take():
            trial = self._trials.get(turn.uid)
            if trial is None or trial.waiting is None:  # removed while it waited for a slot
                self._slots.give(turn)
                continue
            trial.task, trial.waiting = trial.waiting(), None
            self._tasks.add(trial.task)
            trial.task.add_done_callback(partial(self._finished, turn))

    def _finished(self, turn: Turn, task: asyncio.Task[None]) -> None:
        self._slots.give(turn)
        self._tasks.discard(task)
        self._start_waiting()
        if not task.cancelled() and (error := task.exception()):
            logger.error("smoke tests failed with an unexpected error", exc_info=error)

    async def _run(self, target: ProbeTarget, wanted: SmokeTask, trial: _Trial) -> None:
        trial.failures += 1  # reset once they have passed
        try:
            driver = self._drivers[target.way.protocol, target.way.transport]
            started = self._clock()
            outcome = await run_tests(driver, target, wanted, self._clock)
            self._measured(outcome.verdict, self._clock() - started)
        finally:
            trial.task = None
            trial.due = self._clock() + pause_seconds(trial.failures)
        if outcome.verdict is SmokeVerdict.PASSED:
            trial.failures = 0
        trial.outcome = outcome
        logger.info("smoke tests finished", extra={"verdict": str(outcome.verdict)})
        if self._trials.get(target.pod_uid) is trial:
            self._ended(target.pod_uid)


def pause_seconds(failures: int) -> float:
    """Return the seconds until failed tests are run again: 10, 20, 40 .. 600."""
    # 2**6 times the first pause exceeds the last one.
    return min(AGAIN_FIRST_SECONDS * 2 ** min(failures - 1, 6), AGAIN_LAST_SECONDS)


async def run_tests(
    driver: Driver, target: ProbeTarget, task: SmokeTask, clock: Callable[[], float]
) -> SmokeOutcome:
    """Run the tests of a container until the first failure."""
    for test in task.tests:
        verdict, message = await _run_test(driver, target, test, clock)
        if verdict is not SmokeVerdict.PASSED:
            return SmokeOutcome(task.digest, verdict, f"smoke test {test.name}: {message}")
    return SmokeOutcome(task.digest, SmokeVerdict.PASSED)


async def _ask(
    driver: Driver, target: ProbeTarget, test: SmokeTest
) -> Outputs | JsonAnswer | Answer:
    if test.request:
        return await driver.send(target, test)
    return await driver.infer(target, test.inputs)


async def _run_test(
    driver: Driver, target: ProbeTarget, test: SmokeTest, clock: Callable[[], float]
) -> tuple[SmokeVerdict, str]:
    bound = test.max_latency_milliseconds
    deadline = max(DEADLINE_SECONDS, (bound or 0) / 1000)
    patient = replace(target, timeout_seconds=deadline)
    fastest = float("inf")
    for _ in range(ATTEMPTS):
        started = clock()
        answer = await _ask(driver, patient, test)
        fastest = min(fastest, (clock() - started) * 1000)
        if isinstance(answer, Answer):
            verdict = _FAILURES.get(answer.reason, SmokeVerdict.REQUEST_REJECTED)
            return verdict, answer.message
        wrong = (
            await aside(answer.size_bytes, unmet, test.expect, answer.document)
            if isinstance(answer, JsonAnswer)
            else mismatch(test, answer)
        )
        if wrong:
            return SmokeVerdict.OUTPUT_MISMATCH, wrong
        if bound is None or fastest <= bound:
            return SmokeVerdict.PASSED, ""
    message = (
        f"the fastest of {ATTEMPTS} answers took {fastest:.0f} ms, but the limit is {bound} ms"
    )
    return SmokeVerdict.LATENCY_EXCEEDED, message
