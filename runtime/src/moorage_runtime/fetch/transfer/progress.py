"""Logs the progress of a download every few seconds and at the end."""

import logging
import threading
import time

from moorage_runtime.fetch.decide.amounts import in_bytes

__all__ = ["Progress", "line"]

log = logging.getLogger(__name__)

LINE_SECONDS = 5.0


class Progress:
    """Counts bytes and files of all threads.

    Args:
        total_bytes: Total size of the files with a known size.
        total_files: Number of files.
    """

    def __init__(self, total_bytes: int, total_files: int) -> None:
        self._total_bytes = total_bytes
        self._total_files = total_files
        self._have = 0
        self._arrived = 0
        self._files = 0
        self._lock = threading.Lock()
        self._told_at = time.monotonic()
        self._told_arrived = 0

    def add(self, count: int) -> None:
        """Count received bytes, and log a line at intervals."""
        with self._lock:
            self._have += count
            self._arrived += count
            now = time.monotonic()
            passed = now - self._told_at
            if passed < LINE_SECONDS:
                return
            rate = (self._arrived - self._told_arrived) / passed
            self._told_at, self._told_arrived = now, self._arrived
            text = line(self._have, self._total_bytes, self._files, self._total_files, rate)
        log.info("%s", text)

    def resume(self, count: int) -> None:
        """Count bytes of an earlier download; a negative number discards them."""
        with self._lock:
            self._have += count

    def finish_file(self) -> None:
        """Count a completed file."""
        with self._lock:
            self._files += 1


def line(have: int, total: int, files: int, total_files: int, rate: float) -> str:
    """One line of progress.

    1.2 GiB of 4.7 GiB (26 %), 3 of 12 files, 85.0 MiB/s
    """
    share = f" of {in_bytes(total)} ({100 * have // total} %)" if total >= have > 0 else ""
    return f"{in_bytes(have)}{share}, {files} of {total_files} files, {in_bytes(int(rate))}/s"
