"""How often and how soon a request is made again. Pure but for the pauses that it is given.

A download that makes progress may fail any number of times: a store that cuts every connection
after a gigabyte still delivers the model.
"""

import logging
import random
from collections.abc import Callable
from typing import TypeVar

from moorage_runtime.fetch.failures import Unreachable

__all__ = ["ATTEMPTS", "delay_seconds", "persistently"]

T = TypeVar("T")
log = logging.getLogger(__name__)

# Failures in a row without progress; with the delays below about a minute. After that the kubelet
# starts the container again with its own, longer back-off, and the user sees why.
ATTEMPTS = 7
FIRST_SECONDS = 0.5
LONGEST_SECONDS = 20.0


def delay_seconds(failures: int, asked_seconds: float, chance: float) -> float:
    """How long to wait after so many failures in a row.

    0.5, 1, 2, 4, 8, 16 s, each between half of it and all of it, so that many pods do not come
    back together; with three failures and a chance of 0.5 that is 2 * 0.75 = 1.5 s. A server that
    asks for longer gets that.
    """
    longest = min(FIRST_SECONDS * 2 ** (failures - 1), LONGEST_SECONDS)
    return max(asked_seconds, longest * (0.5 + chance / 2))


def persistently(
    attempt: Callable[[], T], pause: Callable[[float], None], progress: Callable[[], int]
) -> T:
    """The result of the first attempt that reaches the store.

    Args:
        attempt: What to do; it is done again after an `Unreachable`.
        pause: Waits so many seconds.
        progress: A count that grows while attempts achieve something.

    Raises:
        FetchError: As `attempt` does; an `Unreachable` after ATTEMPTS in a row without progress.
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
            chance = random.random()  # noqa: S311  spreads retries, guards nothing
            seconds = delay_seconds(failures, error.wait_seconds, chance)
            log.warning("%s; trying again in %.1f s", error, seconds)
            pause(seconds)
