"""The time before `main`: an interrupt during the imports ends the process without a stack trace.

`__main__` imports this module first, because the others take longer, and those of a command most.
"""

import signal
import threading

__all__ = ["end_startup"]

_BEFORE = signal.getsignal(signal.SIGINT)
# A process in the background may ignore interrupts, and stays so.
_CHANGES = _BEFORE is signal.default_int_handler and (
    threading.current_thread() is threading.main_thread()
)

if _CHANGES:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def end_startup() -> None:
    """Let interrupts be exceptions again."""
    if _CHANGES and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
