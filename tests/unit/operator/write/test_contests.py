"""Children that somebody changes again after each write."""

import pytest

from moorage_operator.kube.errors import Forbidden
from moorage_operator.write.contests import KEPT, REVERTS, WITHIN_SECONDS, Contests


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def contested(clock: Clock, count: int = 1 + REVERTS) -> Contests:
    """A child `u` whose plan `h` was written so often, one second apart."""
    contests = Contests(clock)
    for _ in range(count):
        contests.check("u", "h")
        contests.wrote("u", "h")
        clock.seconds += 1
    return contests


def is_held(contests: Contests, uid: str = "u", planned: str = "h") -> bool:
    try:
        contests.check(uid, planned)
    except Forbidden:
        return True
    return False


def test_a_child_is_written_once_and_reverted_ten_times() -> None:
    assert not is_held(contested(Clock(), REVERTS))
    assert is_held(contested(Clock()))


def test_the_message_says_how_often_it_was_changed_and_where_to_look() -> None:
    with pytest.raises(Forbidden) as raised:
        contested(Clock()).check("u", "h")

    assert "10 times within 3 minutes" in raised.value.message
    assert "managedFields" in raised.value.message
    assert raised.value.code == 403


def test_another_plan_and_another_child_are_written() -> None:
    contests = contested(Clock())

    assert not is_held(contests, planned="h2")
    assert not is_held(contests, uid="u2")


def test_a_plan_that_returns_begins_anew() -> None:
    contests = contested(Clock())
    contests.wrote("u", "h2")
    contests.wrote("u", "h")

    assert not is_held(contests)


def test_a_child_is_reverted_again_once_the_first_of_the_ten_is_three_minutes_ago() -> None:
    clock = Clock()
    first = clock.seconds + 1  # the first write is not a revert
    contests = contested(clock)

    clock.seconds = first + WITHIN_SECONDS - 1
    assert is_held(contests)
    clock.seconds = first + WITHIN_SECONDS
    assert not is_held(contests)
    contests.wrote("u", "h")
    assert is_held(contests)  # until the second one is three minutes ago
    clock.seconds += 1
    assert not is_held(contests)


def test_only_the_last_children_are_remembered() -> None:
    contests = contested(Clock())
    for number in range(KEPT - 1):
        contests.wrote(f"u{number}", "h")
    assert is_held(contests)

    contests.wrote("another", "h")

    assert not is_held(contests)


def test_a_child_that_is_written_again_is_remembered_longer() -> None:
    contests = contested(Clock())
    for number in range(KEPT - 1):
        contests.wrote(f"u{number}", "h")
    contests.wrote("u", "h")

    contests.wrote("another", "h")

    assert is_held(contests)
