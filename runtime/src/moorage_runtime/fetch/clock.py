"""The only clock of the download: the current time, and interruptible pauses."""

import threading
from datetime import UTC, datetime

__all__ = ["Stop", "utc_now"]


def utc_now() -> datetime:
    """The current time, with time zone."""
    return datetime.now(UTC)


class Stop:
    """Whether downloads must stop, because one file failed."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Stop all downloads."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether downloads must stop."""
        return self._event.is_set()

    def pause(self, seconds: float) -> None:
        """Wait, unless downloads must stop before."""
        self._event.wait(seconds)
