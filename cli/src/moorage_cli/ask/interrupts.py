"""Ends a command that has something to clean up in the same way for every signal."""

import contextlib
import signal
from collections.abc import Generator

__all__ = ["interrupted_by_signals"]

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


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
