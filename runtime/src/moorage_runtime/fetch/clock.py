"""The only clock of the download: the present moment, and pauses that an end cuts short."""

import threading
from datetime import UTC, datetime

__all__ = ["Stop", "utc_now"]


def utc_now() -> datetime:
    """The present moment, aware."""
    return datetime.now(UTC)


class Stop:
    """Whether work should end; one file's failure ends the others."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """From now on."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether it should."""
        return self._event.is_set()

    def pause(self, seconds: float) -> None:
        """Wait, unless work ends before."""
        self._event.wait(seconds)
