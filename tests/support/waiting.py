"""Waiting for a condition with a deadline, the only way that tests wait."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.2


def eventually(
    what: str, observe: Callable[[], T], holds: Callable[[T], bool], seconds: float
) -> T:
    """What `observe` returned once `holds` was true of it.

    Raises:
        AssertionError: The deadline passed; the text has the last observation.
    """
    deadline = time.monotonic() + seconds
    while True:
        seen = observe()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s; last seen: {seen!r:.3000}")
        time.sleep(POLL_SECONDS)
