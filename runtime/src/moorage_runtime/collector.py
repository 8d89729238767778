"""Python's garbage collector, held off while one call makes very many objects and no garbage.

    json_text -> paused -> a parser

The collector looks at young objects after every few hundred new ones, and at all others again
whenever they have grown by a quarter. A parser that makes millions of lists and objects of a body
spends three quarters of its time so, and all the while no other thread gets its turn. Higher
thresholds for the whole process would help as well, but a model whose runs leave cycles behind
would then hold their memory that much longer.
"""

import contextlib
import gc
import threading
from collections.abc import Generator


class Pauses:
    """Pauses of the collector, which may overlap: it goes on when the last one ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    @contextlib.contextmanager
    def pause(self) -> Generator[None]:
        """No collection begins within."""
        with self._lock:
            if not self._count:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1
        try:
            yield
        finally:
            with self._lock:
                self._count -= 1
                if not self._count and self._was_enabled:
                    gc.enable()


paused = Pauses().pause
