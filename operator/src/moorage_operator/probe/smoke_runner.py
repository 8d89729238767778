"""Puts each container to its smoke tests, once, and beside the polls.

    poller: the model is ready --> consider --> [bounded number at a time] --> ended(pod uid)
    poller <-- outcome(pod uid, container) -------------------------------------------'

An inference may take seconds and a poll must not wait for it, so the tests have tasks and slots of
their own. What has passed is not asked again; what has failed is, after pauses that grow, since a
node may have been busy and an upstream away.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import SmokeOutcome, SmokeTask, SmokeVerdict, mismatch

from .driver import Driver

logger = logging.getLogger(__name__)

IN_FLIGHT = 32
"""Containers at a time; with the largest answers this is 128 MiB."""

ATTEMPTS = 3
"""The fastest of so many answers counts: the first one after a load pays for caches and pools."""

DEADLINE_SECONDS = 30.0
"""For one answer, and more where the test allows more: a hanging server ends its tests."""

AGAIN_FIRST_SECONDS = 10.0
AGAIN_LAST_SECONDS = 600.0


@dataclass(slots=True)
class _Trial:
    container_id: str
    digest: str
    outcome: SmokeOutcome | None = None
    failures: int = 0
    due: float = 0.0
    task: asyncio.Task[None] | None = None


class SmokeRunner:
    """Runs smoke tests and keeps how they ended.

    Args:
        drivers: A driver for each (protocol, transport).
        ended: Called with the uid of a pod whose tests have ended.
        clock: Monotonic seconds.
        measured: Called with how a container did and the seconds that its tests took, the wait
            for a slot left out.
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
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._tasks: set[asyncio.Task[None]] = set()

    def consider(self, target: ProbeTarget) -> None:
        """The target's model is ready: run its tests where that is due."""
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
        if trial.task is None and not passed and trial.due <= self._clock():
            trial.task = asyncio.get_running_loop().create_task(self._run(target, wanted, trial))
            self._tasks.add(trial.task)
            trial.task.add_done_callback(self._finished)

    def outcome(self, target: ProbeTarget) -> SmokeOutcome | None:
        """How the target's container did last, in whatever tests."""
        trial = self._trials.get(target.pod_uid)
        same = trial is not None and trial.container_id == target.container_id
        return trial.outcome if trial and same else None

    def again_in_seconds(self, pod_uid: str) -> float | None:
        """When failed tests are due again; None: nothing is."""
        trial = self._trials.get(pod_uid)
        if trial is None or trial.task or not trial.failures:
            return None
        return max(trial.due - self._clock(), 0.0)

    def forget(self, pod_uid: str) -> None:
        """The pod is gone, or its container is another one."""
        trial = self._trials.pop(pod_uid, None)
        if trial and trial.task:
            trial.task.cancel()

    async def close(self) -> None:
        """End what runs."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            logger.error("smoke tests broke", exc_info=error)

    async def _run(self, target: ProbeTarget, wanted: SmokeTask, trial: _Trial) -> None:
        trial.failures += 1  # until they have passed
        try:
            async with self._slots:
                driver = self._drivers[target.protocol, target.transport]
                started = self._clock()
                outcome = await put_to_tests(driver, target, wanted, self._clock)
                self._measured(outcome.verdict, self._clock() - started)
        finally:
            trial.task = None
            trial.due = self._clock() + pause_seconds(trial.failures)
        if outcome.verdict is SmokeVerdict.PASSED:
            trial.failures = 0
        trial.outcome = outcome
        logger.info("smoke tests ended", extra={"verdict": str(outcome.verdict)})
        if self._trials.get(target.pod_uid) is trial:
            self._ended(target.pod_uid)


def pause_seconds(failures: int) -> float:
    """Seconds until failed tests are run again: 10, 20, 40 .. 600."""
    # 2**6 times the first is beyond the last already.
    return min(AGAIN_FIRST_SECONDS * 2 ** min(failures - 1, 6), AGAIN_LAST_SECONDS)


async def put_to_tests(
    driver: Driver, target: ProbeTarget, task: SmokeTask, clock: Callable[[], float]
) -> SmokeOutcome:
    """How one container does; the first test that fails is the last that is run."""
    for test in task.tests:
        verdict, told = await _put_to_test(driver, target, test, clock)
        if verdict is not SmokeVerdict.PASSED:
            return SmokeOutcome(task.digest, verdict, f"smoke test {test.name}: {told}")
    return SmokeOutcome(task.digest, SmokeVerdict.PASSED)


async def _put_to_test(
    driver: Driver, target: ProbeTarget, test: SmokeTest, clock: Callable[[], float]
) -> tuple[SmokeVerdict, str]:
    bound = test.max_latency_milliseconds
    deadline = max(DEADLINE_SECONDS, (bound or 0) / 1000)
    patient = replace(target, timeout_seconds=deadline)
    fastest = float("inf")
    for _ in range(ATTEMPTS):
        started = clock()
        answer = await driver.infer(patient, test.inputs)
        fastest = min(fastest, (clock() - started) * 1000)
        if isinstance(answer, Answer):
            late = answer.reason is AnswerReason.TIMED_OUT
            verdict = SmokeVerdict.LATENCY_EXCEEDED if late else SmokeVerdict.REQUEST_REJECTED
            return verdict, answer.message
        if wrong := mismatch(test, answer):
            return SmokeVerdict.OUTPUT_MISMATCH, wrong
        if bound is None or fastest <= bound:
            return SmokeVerdict.PASSED, ""
    told = f"the fastest of {ATTEMPTS} answers took {fastest:.0f} ms, at most {bound} ms wanted"
    return SmokeVerdict.LATENCY_EXCEEDED, told
