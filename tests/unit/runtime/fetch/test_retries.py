"""Retries of a download: their delays and their number."""

import contextlib

from moorage_runtime.fetch.decide.failures import Unreachable
from moorage_runtime.fetch.transfer import retries


def test_delays_grow_and_honour_retry_after():
    assert [retries.delay_seconds(n, 0, 1) for n in range(1, 8)] == [0.5, 1, 2, 4, 8, 16, 20]
    assert retries.delay_seconds(3, 0, 0.5) == 1.5
    assert retries.delay_seconds(1, 9, 0) == 9


def attempts(progress_at: set[int], until: int | None) -> tuple[int, list[float]]:
    """Number of attempts for an action that makes progress at some of them and succeeds at one."""
    made, waits, reached = 0, [], 0

    def attempt() -> int:
        nonlocal made, reached
        made += 1
        reached += made in progress_at
        if made == until:
            return made
        raise Unreachable("no")

    with contextlib.suppress(Unreachable):
        retries.persistently(attempt, waits.append, lambda: reached)
    return made, waits


def test_retries_without_progress_end_after_seven_attempts():
    made, waits = attempts(set(), None)

    assert (made, len(waits)) == (7, 6)


def test_progress_resets_the_count_of_attempts():
    assert attempts({5}, None)[0] == 5 + 6
    assert attempts({3, 6, 9, 12}, 15)[0] == 15
