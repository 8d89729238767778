"""Urgent statuses are written at once, and mere progress within a budget."""

from collections.abc import Callable
from typing import Any

import pytest

from moorage_operator.reconcile.status_pace import (
    APART_SECONDS,
    PROGRESS_A_SECOND,
    PROGRESS_AT_ONCE,
    SOON_SECONDS,
    StatusPace,
    is_urgent,
)
from moorage_operator.values.observed import ObjectKey

KEY = ObjectKey("ns", "iris")


def status(generation: int = 1, **conditions: str) -> dict[str, Any]:
    """Build a status from conditions by type, each "Status Reason"."""
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
        ({}, {**STARTING, "revisions": {"current": "a"}}, False),
        (
            {**SERVING, "revisions": {"current": "b", "canary": {"weight": 0}}},
            {**SERVING, "revisions": {"current": "b", "canary": {"weight": 10}}},
            True,
        ),
        # a failure that is already known
        (status(Ready="False InvalidSpec"), status(Ready="False InvalidSpec"), False),
        (
            status(Ready="False InvalidSpec"),
            status(Ready="False InvalidSpec", ModelReady="False ModelLoadFailed"),
            True,
        ),
        (
            {**STARTING, "lastFailure": {"reason": "OOMKilled"}},
            {**STARTING, "lastFailure": {"reason": "OOMKilled"}, "replicas": 2},
            False,
        ),
    ],
)
def test_every_change_but_progress_is_urgent(
    before: dict[str, Any], after: dict[str, Any], urgent: bool
) -> None:
    assert is_urgent(before, after) is urgent


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def pace(time: Time) -> StatusPace:
    return StatusPace(time)


def keys(count: int) -> list[ObjectKey]:
    return [ObjectKey("ns", str(number)) for number in range(count)]


def test_progress_waits_briefly_for_an_urgent_change(time: Time, pace: StatusPace) -> None:
    assert pace.reserve(KEY, is_first=False) == pytest.approx(SOON_SECONDS)

    time.now += SOON_SECONDS
    assert pace.reserve(KEY, is_first=False) == 0.0


def test_a_first_status_is_not_delayed(pace: StatusPace) -> None:
    assert pace.reserve(KEY, is_first=True) == 0.0


def test_progress_waits_for_the_minimum_interval(time: Time, pace: StatusPace) -> None:
    pace.wrote(KEY)
    time.now += 0.25

    assert pace.reserve(KEY, is_first=False) == pytest.approx(APART_SECONDS - 0.25)


def test_the_progress_of_all_models_stays_within_the_budget(time: Time, pace: StatusPace) -> None:
    waits = [pace.reserve(key, is_first=False) for key in keys(100)]

    at_once = [wait for wait in waits if wait == pytest.approx(SOON_SECONDS)]
    assert PROGRESS_AT_ONCE <= len(at_once) <= PROGRESS_AT_ONCE + 2
    assert waits[-1] == pytest.approx((99 - PROGRESS_AT_ONCE) / PROGRESS_A_SECOND)
    assert waits == sorted(waits)


def test_a_reserved_token_is_kept_until_the_write(time: Time, pace: StatusPace) -> None:
    waits = [pace.reserve(key, is_first=False) for key in keys(100)]
    assert [pace.reserve(key, is_first=False) for key in keys(100)] == waits

    last = keys(100)[-1]
    time.now += waits[-1] + APART_SECONDS
    assert pace.reserve(last, is_first=False) == 0.0
    pace.wrote(last)
    assert pace.reserve(last, is_first=False) == pytest.approx(APART_SECONDS)


def test_old_writes_are_forgotten(time: Time, pace: StatusPace) -> None:
    for key in keys(5):
        pace.wrote(key)
    time.now += APART_SECONDS + 0.1

    pace.wrote(KEY)

    assert list(pace._written) == [KEY]


def test_old_writes_are_forgotten_behind_a_model_that_is_written_often(
    time: Time, pace: StatusPace
) -> None:
    often, once = keys(2)
    for key in (often, once, often, often):
        pace.wrote(key)
        time.now += APART_SECONDS * 0.4

    pace.wrote(KEY)

    assert list(pace._written) == [often, KEY]


def test_a_status_that_is_up_to_date_needs_no_write(time: Time, pace: StatusPace) -> None:
    pace.forget(KEY)
    pace.reserve(KEY, is_first=False)
    time.now += SOON_SECONDS

    pace.forget(KEY)

    assert pace.reserve(KEY, is_first=False) == pytest.approx(SOON_SECONDS)


@pytest.mark.parametrize("end", [StatusPace.forget, StatusPace.wrote])
def test_tokens_that_are_not_needed_go_to_others(
    time: Time, pace: StatusPace, end: Callable[[StatusPace, ObjectKey], None]
) -> None:
    for key in keys(300):
        pace.reserve(key, is_first=False)
    time.now += SOON_SECONDS / 2

    for key in keys(300):
        end(pace, key)  # its status is up to date again, or an urgent change was written

    assert pace.reserve(KEY, is_first=True) == 0.0


def test_a_model_that_waits_gets_an_earlier_token_once_one_is_returned(pace: StatusPace) -> None:
    first, *others, last = keys(100)
    waits = [pace.reserve(key, is_first=False) for key in (first, *others, last)]

    pace.forget(others[-1])

    assert pace.reserve(last, is_first=False) == waits[-2]
    assert pace.reserve(KEY, is_first=False) == waits[-1]


def test_returned_tokens_do_not_exceed_the_budget(time: Time, pace: StatusPace) -> None:
    for key in keys(100):
        pace.reserve(key, is_first=True)
    for key in keys(100):
        pace.forget(key)
    time.now += 60

    waits = [pace.reserve(key, is_first=True) for key in keys(100)]

    assert waits.count(0.0) <= PROGRESS_AT_ONCE + 1
    assert waits[-1] == pytest.approx((99 - PROGRESS_AT_ONCE) / PROGRESS_A_SECOND)


def test_a_used_token_is_not_returned(time: Time, pace: StatusPace) -> None:
    for _ in range(2):
        for key in keys(PROGRESS_AT_ONCE):
            if pace.reserve(key, is_first=True) == 0.0:
                pace.wrote(key)

    late = PROGRESS_AT_ONCE / PROGRESS_A_SECOND
    assert pace.reserve(KEY, is_first=True) == pytest.approx(late)


def test_a_returned_token_is_as_old_as_before(pace: StatusPace) -> None:
    pace.reserve(KEY, is_first=False)
    pace.forget(KEY)

    waits = [pace.reserve(key, is_first=True) for key in keys(PROGRESS_AT_ONCE + 1)]

    assert waits == pytest.approx([0.0] * len(waits))
