"""Children that somebody changes or deletes after each write."""

import pytest

from moorage_operator.write.contests import (
    KEPT,
    TIMES,
    WITHIN_SECONDS,
    Contested,
    Contests,
    Place,
)

CHILD = Place("u", "Service", "iris")


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def contested(clock: Clock, count: int = 1 + TIMES) -> Contests:
    """A child whose plan `h` was written so often, one second apart."""
    contests = Contests(clock)
    for _ in range(count):
        contests.check(CHILD, "h")
        contests.wrote(CHILD, "h")
        clock.seconds += 1
    return contests


def is_held(contests: Contests, child: Place = CHILD, planned: str = "h") -> bool:
    try:
        contests.check(child, planned)
    except Contested:
        return True
    return False


def test_a_child_is_written_once_and_restored_ten_times() -> None:
    assert not is_held(contested(Clock(), TIMES))
    assert is_held(contested(Clock()))


def test_the_message_says_how_often_it_was_changed_and_where_to_look() -> None:
    with pytest.raises(Contested) as raised:
        contested(Clock()).check(CHILD, "h")

    assert "Service 'iris'" in raised.value.message
    assert "10 times within 3 minutes" in raised.value.message
    assert "managedFields" in raised.value.message
    assert "audit log if it was deleted; if they name only moorage" in raised.value.message
    assert raised.value.message.endswith("serves this model")
    assert raised.value.reason == "Contested"
    assert raised.value.code == 403


def test_another_plan_and_another_child_are_written() -> None:
    contests = contested(Clock())

    assert not is_held(contests, planned="h2")
    assert not is_held(contests, child=CHILD._replace(uid="u2"))


def test_a_plan_that_returns_begins_anew() -> None:
    contests = contested(Clock())
    contests.wrote(CHILD, "h2")
    contests.wrote(CHILD, "h")

    assert not is_held(contests)


def test_a_child_is_restored_again_once_the_first_of_the_ten_is_three_minutes_ago() -> None:
    clock = Clock()
    first = clock.seconds + 1  # the first write restores nothing
    contests = contested(clock)

    clock.seconds = first + WITHIN_SECONDS - 1
    assert is_held(contests)
    clock.seconds = first + WITHIN_SECONDS
    assert not is_held(contests)
    contests.wrote(CHILD, "h")
    assert is_held(contests)  # until the second one is three minutes ago
    clock.seconds += 1
    assert not is_held(contests)


def test_a_child_that_the_operator_itself_deleted_begins_anew() -> None:
    contests = contested(Clock())
    contests.forget(CHILD)
    contests.forget(CHILD._replace(name="never-written"))
    contests.wrote(CHILD, "h")

    assert not is_held(contests)


def test_only_the_last_children_are_remembered() -> None:
    contests = contested(Clock())
    for number in range(KEPT - 1):
        contests.wrote(CHILD._replace(name=f"{number}"), "h")
    assert is_held(contests)

    contests.wrote(CHILD._replace(name="another"), "h")

    assert not is_held(contests)


def test_a_child_that_is_written_again_is_remembered_longer() -> None:
    contests = contested(Clock())
    for number in range(KEPT - 1):
        contests.wrote(CHILD._replace(name=f"{number}"), "h")
    contests.wrote(CHILD, "h")

    contests.wrote(CHILD._replace(name="another"), "h")

    assert is_held(contests)
