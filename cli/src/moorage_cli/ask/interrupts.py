"""The two ways in which an interrupt ends a command: after a cleanup, and at once."""

import contextlib
import os
import signal
import sys
from collections.abc import Generator
from typing import NoReturn

__all__ = ["immediate_interrupt", "interrupted_by_signals"]

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def immediate_interrupt(
    status: int, last_words: bytes = b"", complaint: str = ""
) -> Generator[None]:
    """End the process at once on an interrupt, with this exit status.

    An exception may arrive during a library's cleanup, where Python discards it, and the watch
    would never end. A watch has nothing to clean up apart from the terminal.

    Args:
        status: Of the process.
        last_words: What standard output gets, to restore the terminal.
        complaint: A line for standard error.
    """

    def leave(*_: object) -> NoReturn:
        os.write(sys.stdout.fileno(), last_words)
        if complaint:
            # a terminal has shown ^C in the line
            start = "\n" if sys.stderr.isatty() else ""
            with contextlib.suppress(OSError):
                os.write(sys.stderr.fileno(), f"{start}{complaint}\n".encode())
        os._exit(status)

    before = signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def interrupted_by_signals() -> Generator[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {each: signal.signal(each, interrupt) for each in SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
