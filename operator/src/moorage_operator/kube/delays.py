"""Delays between attempts: jittered, and doubling until something works."""

import random

__all__ = ["Delays"]


class Delays:
    """The delays of one task that is repeated forever.

    Args:
        first_seconds: The longest first delay.
        last_seconds: The longest delay of all.
    """

    def __init__(self, first_seconds: float, last_seconds: float) -> None:
        self._first = first_seconds
        self._last = last_seconds
        self._longest = first_seconds

    def next_seconds(self) -> float:
        """Return the next delay: at least half of the longest one, which doubles each time."""
        longest = self._longest
        self._longest = min(2 * longest, self._last)
        return longest * random.uniform(0.5, 1)  # noqa: S311 -- spreads retries; no secret

    def reset(self) -> None:
        """Start again with the first delay, because the task worked."""
        self._longest = self._first
