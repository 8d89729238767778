"""Decides how often and how soon a request is retried. Pure, except for the pauses that it is
given.

A download that makes progress may fail any number of times: even if a store ends every connection
after a gigabyte, the model arrives.
"""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

from moorage_runtime.fetch.decide.failures import Unreachable

__all__ = ["ATTEMPTS", "delay_seconds", "persistently"]

T = TypeVar("T")
log = logging.getLogger(__name__)

# Maximum number of consecutive failures without progress, which is about a minute. Then the
# kubelet restarts the container with its own, longer backoff, and the user sees the reason.
ATTEMPTS = 7
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 20.0


def delay_seconds(failures: int, asked_seconds: float, chance: float) -> float:
    """The delay after this number of consecutive failures.

    0.5, 1, 2, 4, 8, 16 s, with a random factor between a half and one, so that many pods do not
    return
    together; with three failures and a chance of 0.5 that is 2 * 0.75 = 1.5 s. A longer delay that
    the server asks for takes precedence.
    """
    longest = min(FIRST_SECONDS * 2 ** (failures - 1), LONGEST_SECONDS)
    return max(asked_seconds, longest * (0.5 + chance / 2))


def persistently(
    attempt: Callable[[], T], pause: Callable[[float], None], progress: Callable[[], int]
) -> T:
    """The result of the first successful attempt.

    Args:
        attempt: The action; it is repeated after an `Unreachable`.
        pause: Waits for a number of seconds.
        progress: A count that grows while attempts make progress.

    Raises:
        FetchError: As `attempt`; an `Unreachable` after ATTEMPTS consecutive ones without
            progress.
    """
    failures, reached = 0, progress()
    while True:
        try:
            return attempt()
        except Unreachable as error:
            if progress() > reached:
                failures, reached = 0, progress()
            failures += 1
            if failures >= ATTEMPTS:
                raise
            chance = random.random()  # noqa: S311  only spreads retries
            seconds = delay_seconds(failures, error.wait_seconds, chance)
            log.warning("%s; retrying in %.1f s", error, seconds)
            pause(seconds)
