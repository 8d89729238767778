"""The time until the next poll of a replica."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.schedule.pace import (
    CALM_SECONDS,
    MOMENT_SECONDS,
    PollState,
    delay_seconds,
    describe_seconds,
    due_at,
    stretched_seconds,
)
from moorage_operator.values.plan import PollPace


@pytest.mark.parametrize(
    ("pace", "state", "expected"),
    [
        (PollPace.SETTLING, PollState(), 0.1),
        (PollPace.SETTLING, PollState(waited=20), 0.4),
        (PollPace.SETTLING, PollState(waited=600), 1.0),
        (PollPace.SETTLING, PollState(waited=600, ready=True), 30.0),
        (PollPace.SETTLING, PollState(failures=1, silent=1), 1.0),
        (PollPace.SETTLING, PollState(failures=9, silent=9), 15.0),
        (PollPace.SETTLING, PollState(mates=500), 5.0),
        (PollPace.STABLE, PollState(waited=600), 30.0),
        (PollPace.STABLE, PollState(waited=600, failures=1), 1.0),
        (PollPace.STABLE, PollState(waited=600, failures=9), 30.0),
        (PollPace.STABLE, PollState(mates=500), 30.0),
        (PollPace.FAILING, PollState(failures=1), 1.0),
        (PollPace.FAILING, PollState(failures=3), 4.0),
        (PollPace.FAILING, PollState(failures=99), 60.0),
    ],
)
def test_the_delay_follows_the_pace(pace: PollPace, state: PollState, expected: float) -> None:
    assert delay_seconds(pace, 30.0, state) == expected


@given(
    st.sampled_from(list(PollPace)),
    st.floats(1, 3600),
    st.builds(
        PollState,
        waited=st.floats(0, 1e6),
        failures=st.integers(0, 10**6),
        silent=st.integers(0, 10**6),
        ready=st.booleans(),
        mates=st.integers(1, 1000),
    ),
)
def test_the_delay_is_at_least_a_tenth_of_a_second(
    pace: PollPace, interval: float, state: PollState
) -> None:
    assert 0.1 <= delay_seconds(pace, interval, state) <= 3600


@pytest.mark.parametrize(
    ("interval", "replicas", "expected"), [(30, 100, 30), (30, 1500, 30), (30, 20000, 400)]
)
def test_the_interval_is_stretched_to_the_budget(
    interval: float, replicas: int, expected: float
) -> None:
    assert stretched_seconds(interval, replicas, 50) == expected


@pytest.mark.parametrize(
    ("delay", "expected"),
    [(0, 1000.125), (4.5, 1004.625), (5, 1005.25), (9.875, 1010), (10, 1010.25)],
)
def test_polls_that_are_far_away_are_due_at_common_times(delay: float, expected: float) -> None:
    assert due_at(1000.125, delay) == expected


@pytest.mark.parametrize(
    ("undescribed", "least_interval", "expected"),
    [(0, 1, 600), (0, 400, 4000), (1, 400, 30), (3, 400, 30), (4, 400, 4000), (4, 1, 30)],
)
def test_incomplete_metadata_is_retried_soon_for_a_limited_time(
    undescribed: int, least_interval: float, expected: float
) -> None:
    assert describe_seconds(undescribed, least_interval) == expected


@given(st.floats(0, 1e6), st.floats(0, 1000))
def test_no_poll_is_early_or_later_than_the_next_common_time(now: float, delay: float) -> None:
    waits = due_at(now, delay) - (now + delay)

    assert 0 <= waits < MOMENT_SECONDS
    assert waits == 0 or delay >= CALM_SECONDS
