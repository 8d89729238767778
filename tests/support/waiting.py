"""Waiting for a condition with a deadline; tests do not wait in any other way."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.2


def eventually(
    what: str, observe: Callable[[], T], holds: Callable[[T], bool], seconds: float
) -> T:
    """Wait until `holds` is true of the result of `observe`, and return that.

    Raises:
        AssertionError: The deadline passed; the message has the last observation.
    """
    deadline = time.monotonic() + seconds
    while True:
        seen = observe()
        if holds(seen):
            return seen
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s; last seen: {seen!r:.3000}")
        time.sleep(POLL_SECONDS)
