"""Which status is written at once, how long a model's pauses are, and whose turn is next."""

from collections.abc import Callable
from typing import Any

import pytest

from moorage_operator.state import ObjectKey
from moorage_operator.status_pace import (
    FORGET_SECONDS,
    PAUSE_FIRST_SECONDS,
    PAUSE_LAST_SECONDS,
    PROGRESS_A_SECOND,
    PROGRESS_APART,
    PROGRESS_APART_SECONDS,
    PROGRESS_AT_ONCE,
    StatusPace,
    is_urgent,
)

KEY = ObjectKey("ns", "iris")


def status(generation: int = 1, **conditions: str) -> dict[str, Any]:
    """A status with conditions by type, each "Status Reason"."""
    found = [
        dict(zip(("type", "status", "reason"), (type_, *said.split()), strict=True))
        for type_, said in conditions.items()
    ]
    return {"observedGeneration": generation, "conditions": found}


STARTING = status(Accepted="True Valid", WorkloadAvailable="False Pending", Ready="False Pending")
SERVING = status(Ready="True Serving", UpToDate="True RolloutComplete")


@pytest.mark.parametrize(
    ("before", "after", "urgent"),
    [
        ({}, STARTING, False),
        ({}, SERVING, True),
        ({}, status(Accepted="False InvalidSpec", Ready="False InvalidSpec"), True),
        (STARTING, {**STARTING, "replicas": 2}, False),
        (STARTING, {**STARTING, "observedGeneration": 2}, True),
        (STARTING, status(Ready="False ModelLoading"), False),
        (STARTING, status(Ready="True Serving"), True),
        (STARTING, status(Ready="False ImagePullBackOff"), True),
        (STARTING, {**STARTING, "lastFailure": {"reason": "OOMKilled"}}, True),
        (STARTING, status(WorkloadAvailable="True MinimumReplicasAvailable"), False),
        (STARTING, status(Ready="False Pending", ModelReady="Unknown ProbeTimeout"), True),
        (SERVING, status(Ready="False Pending", UpToDate="True RolloutComplete"), True),
        (SERVING, status(Ready="True Serving", UpToDate="False RollingOut"), True),
        (SERVING, status(Ready="True ServingPreviousRevision"), False),
        (SERVING, {**SERVING, "replicaSummary": "1/2"}, False),
    ],
)
def test_what_somebody_waits_for_is_urgent_and_progress_is_not(
    before: dict[str, Any], after: dict[str, Any], urgent: bool
) -> None:
    assert is_urgent(before, after) is urgent


class Time:
    """A clock with timers, and who was woken."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.woken: list[ObjectKey] = []

    def __call__(self) -> float:
        return self.now

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and each timer end when it is due."""
        end = self.now + seconds
        while due := [each for each in self.timers if each[0] <= end]:
            first = min(due, key=lambda each: each[0])
            self.timers.remove(first)
            self.now = max(self.now, first[0])
            first[1]()
        self.now = end


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> StatusPace:
    return StatusPace(time, time.call_later, time.woken.append)


def keys(count: int) -> list[ObjectKey]:
    return [ObjectKey("ns", str(number)) for number in range(count)]


def exhaust(pace: StatusPace) -> None:
    """Take the turns that may be had at once."""
    for key in keys(PROGRESS_AT_ONCE + 1):
        assert pace.wait_seconds(key) == 0.0


def test_a_model_that_was_never_written_does_not_wait(pace: StatusPace) -> None:
    assert pace.wait_seconds(KEY) == 0.0


def test_the_pause_doubles_with_each_write_of_progress_and_begins_anew_with_an_urgent_one(
    time: Time, pace: StatusPace
) -> None:
    waits: list[float | None] = []
    for urgent in (False, False, False, False, False, True, False):
        pace.wrote(KEY, urgent=urgent, seconds=0.0)
        wait = pace.wait_seconds(KEY)
        waits.append(wait)
        time.advance(wait or 0.0)
        assert pace.wait_seconds(KEY) == 0.0

    assert waits == [PAUSE_FIRST_SECONDS, 2.0, 4.0, 8.0, PAUSE_LAST_SECONDS, 1.0, 2.0]


def test_progress_of_all_models_keeps_within_a_budget(time: Time, pace: StatusPace) -> None:
    exhaust(pace)
    waiting = keys(100)[-30:]

    assert [pace.wait_seconds(key) for key in waiting] == [None] * len(waiting)

    time.advance(10.4 / PROGRESS_A_SECOND)
    assert time.woken == waiting[:10]
    # Whoever asks again keeps its place, and whose turn has come has it once.
    assert pace.wait_seconds(waiting[20]) is None
    assert pace.wait_seconds(waiting[0]) == 0.0
    assert pace.wait_seconds(waiting[0]) is None

    time.advance(21 / PROGRESS_A_SECOND)
    assert time.woken == [*waiting, waiting[0]]
    assert not time.timers


@pytest.mark.parametrize(
    ("write_seconds", "apart"),
    [
        (0.05, PROGRESS_APART * 0.05),
        # A moment in which nothing went does not silence progress.
        (30.0, PROGRESS_APART_SECONDS),
    ],
)
def test_progress_has_a_part_of_what_the_api_server_can_do(
    time: Time, pace: StatusPace, write_seconds: float, apart: float
) -> None:
    for _ in range(100):
        pace.wrote(KEY, urgent=True, seconds=write_seconds)
    exhaust(pace)
    waiting = keys(100)[-30:]
    for key in waiting:
        pace.wait_seconds(key)

    time.advance(10.4 * apart)

    assert time.woken == waiting[:10]


def test_whoever_needs_its_turn_no_more_lets_the_others_move_up(
    time: Time, pace: StatusPace
) -> None:
    """A thousand models that come to be Ready leave the last none of their turns to wait for."""
    exhaust(pace)
    waiting = keys(1000)[-900:]
    for key in waiting:
        pace.wait_seconds(key)
    for number, key in enumerate(waiting[:-1]):
        if number % 2:
            pace.wrote(key, urgent=True, seconds=0.0)
        else:
            pace.forget(key)

    time.advance(1.1 / PROGRESS_A_SECOND)

    assert time.woken == waiting[-1:]


def test_a_turn_that_was_given_is_not_kept_beyond_an_urgent_write(
    time: Time, pace: StatusPace
) -> None:
    exhaust(pace)
    pace.wait_seconds(KEY)
    time.advance(1.1 / PROGRESS_A_SECOND)
    assert time.woken == [KEY]

    pace.wrote(KEY, urgent=True, seconds=0.0)

    assert pace.wait_seconds(KEY) == PAUSE_FIRST_SECONDS
    assert not pace._turns


def test_models_that_were_not_written_lately_are_forgotten(time: Time, pace: StatusPace) -> None:
    for key in keys(5):
        pace.wrote(key, urgent=False, seconds=0.0)
    time.advance(FORGET_SECONDS)

    pace.wrote(KEY, urgent=False, seconds=0.0)

    assert list(pace._last) == [KEY]
