"""How long until a replica is asked again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.planned import PollPace
from moorage_operator.probe.pace import (
    CALM_SECONDS,
    MOMENT_SECONDS,
    Standing,
    Usual,
    delay_seconds,
    describe_seconds,
    due_at,
    stretched_seconds,
)


@pytest.mark.parametrize(
    ("pace", "standing", "expected"),
    [
        (PollPace.SETTLING, Standing(), 0.1),
        (PollPace.SETTLING, Standing(waited=20), 0.4),
        (PollPace.SETTLING, Standing(waited=600), 1.0),
        (PollPace.SETTLING, Standing(waited=600, ready=True), 30.0),
        (PollPace.SETTLING, Standing(failures=1, silent=1), 1.0),
        (PollPace.SETTLING, Standing(failures=9, silent=9), 15.0),
        (PollPace.SETTLING, Standing(mates=500), 5.0),
        (PollPace.STABLE, Standing(waited=600), 30.0),
        (PollPace.STABLE, Standing(waited=600, failures=1), 1.0),
        (PollPace.STABLE, Standing(waited=600, failures=9), 30.0),
        (PollPace.STABLE, Standing(mates=500), 30.0),
        (PollPace.FAILING, Standing(failures=1), 1.0),
        (PollPace.FAILING, Standing(failures=3), 4.0),
        (PollPace.FAILING, Standing(failures=99), 60.0),
    ],
)
def test_the_delay_follows_the_pace(pace: PollPace, standing: Standing, expected: float) -> None:
    assert delay_seconds(pace, 30.0, standing) == expected


@given(
    st.sampled_from(list(PollPace)),
    st.floats(1, 3600),
    st.builds(
        Standing,
        waited=st.floats(0, 1e6),
        failures=st.integers(0, 10**6),
        silent=st.integers(0, 10**6),
        ready=st.booleans(),
        mates=st.integers(1, 1000),
    ),
)
def test_no_pace_asks_more_often_than_every_tenth_of_a_second(
    pace: PollPace, interval: float, standing: Standing
) -> None:
    assert 0.1 <= delay_seconds(pace, interval, standing) <= 3600


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
def test_polls_that_have_time_are_due_at_common_moments(delay: float, expected: float) -> None:
    assert due_at(1000.125, delay) == expected


@pytest.mark.parametrize(
    ("undescribed", "least_interval", "expected"),
    [(0, 1, 600), (0, 400, 4000), (1, 400, 30), (3, 400, 30), (4, 400, 4000), (4, 1, 30)],
)
def test_what_a_server_left_open_is_asked_for_soon_and_not_for_ever(
    undescribed: int, least_interval: float, expected: float
) -> None:
    assert describe_seconds(undescribed, least_interval) == expected


@given(st.floats(0, 1e6), st.floats(0, 1000))
def test_no_poll_is_due_early_or_waits_for_more_than_a_moment(now: float, delay: float) -> None:
    waits = due_at(now, delay) - (now + delay)

    assert 0 <= waits < MOMENT_SECONDS
    assert waits == 0 or delay >= CALM_SECONDS


def test_the_usual_time_follows_what_answers_take() -> None:
    usual = Usual()
    assert usual.seconds == 0.0
    for _ in range(100):
        usual.took(0.02)
    assert usual.seconds == pytest.approx(0.02, rel=0.01)

    usual.took(1.0)
    assert usual.seconds < 0.1
