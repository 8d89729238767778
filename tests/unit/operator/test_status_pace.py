"""Which status is written at once, and how long a model's pauses are."""

import itertools
from typing import Any

import pytest

from moorage_operator.state import ObjectKey
from moorage_operator.status_pace import (
    FAR_SECONDS,
    FORGET_SECONDS,
    PAUSE_FIRST_SECONDS,
    PAUSE_LAST_SECONDS,
    PROGRESS_A_SECOND,
    PROGRESS_APART,
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


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_model_that_was_never_written_does_not_wait() -> None:
    assert StatusPace(Clock()).wait_seconds(KEY) == 0.0


def test_the_pause_doubles_with_each_write_of_progress_and_begins_anew_with_an_urgent_one() -> (
    None
):
    clock = Clock()
    pace = StatusPace(clock)
    waits: list[float] = []
    for urgent in (False, False, False, False, False, True, False):
        pace.wrote(KEY, urgent=urgent, seconds=0.0)
        waits.append(pace.wait_seconds(KEY))
        clock.now += waits[-1]
        assert pace.wait_seconds(KEY) == 0.0

    assert waits == [PAUSE_FIRST_SECONDS, 2.0, 4.0, 8.0, PAUSE_LAST_SECONDS, 1.0, 2.0]


def test_progress_of_all_models_keeps_within_a_budget() -> None:
    clock = Clock()
    pace = StatusPace(clock)
    clock.now += 1000.0
    keys = [ObjectKey("ns", str(number)) for number in range(3 * PROGRESS_AT_ONCE)]

    waits = [pace.wait_seconds(key) for key in keys]

    at_once = waits.count(0.0)
    assert PROGRESS_AT_ONCE <= at_once <= PROGRESS_AT_ONCE + 1
    assert waits[-1] == pytest.approx((len(keys) - at_once) / PROGRESS_A_SECOND)
    # Whoever waits keeps its turn, however often it asks.
    assert pace.wait_seconds(keys[-1]) == pytest.approx(waits[-1])
    clock.now += waits[-1]
    assert pace.wait_seconds(keys[-1]) == 0.0


def test_progress_has_a_part_of_what_the_api_server_can_do() -> None:
    clock = Clock()
    pace = StatusPace(clock)
    for _ in range(100):
        pace.wrote(KEY, urgent=True, seconds=0.05)
    others = [ObjectKey("ns", str(number)) for number in range(2 * PROGRESS_AT_ONCE)]

    waits = [wait for key in others if (wait := pace.wait_seconds(key))]

    assert [after - before for before, after in itertools.pairwise(waits)] == pytest.approx(
        [PROGRESS_APART * 0.05] * (len(waits) - 1), rel=1e-3
    )


def test_whoever_needs_its_turn_no_more_lets_the_others_move_up() -> None:
    """A thousand models that come to be Ready leave the last none of their turns to wait for."""
    clock = Clock()
    pace = StatusPace(clock)
    keys = [ObjectKey("ns", str(number)) for number in range(1000)]
    last = [pace.wait_seconds(key) for key in keys][-1]
    assert last > FAR_SECONDS
    for number, key in enumerate(keys[:-1]):
        if number % 2:
            pace.wrote(key, urgent=True, seconds=0.0)
        else:
            pace.forget(key)

    clock.now += PAUSE_FIRST_SECONDS

    assert pace.wait_seconds(keys[-1]) == 0.0
    assert pace.wait_seconds(KEY) == 0.0


def test_whose_turn_is_far_away_looks_again_half_way() -> None:
    clock = Clock()
    pace = StatusPace(clock)
    count = PROGRESS_AT_ONCE + 1 + round(10 * FAR_SECONDS * PROGRESS_A_SECOND)
    waits = [pace.wait_seconds(ObjectKey("ns", str(number))) for number in range(count)]

    assert max(waits) == pytest.approx(5 * FAR_SECONDS, rel=0.01)


def test_models_that_were_not_written_lately_are_forgotten() -> None:
    clock = Clock()
    pace = StatusPace(clock)
    for number in range(5):
        pace.wrote(ObjectKey("ns", str(number)), urgent=False, seconds=0.0)
    clock.now += FORGET_SECONDS

    pace.wrote(KEY, urgent=False, seconds=0.0)

    assert list(pace._last) == [KEY]
