"""A place among a bounded number, for work that may give it up before it ends."""

import asyncio


class Slot:
    """A place in a semaphore that is given back once, by who comes first."""

    def __init__(self, semaphore: asyncio.Semaphore) -> None:
        self._semaphore: asyncio.Semaphore | None = semaphore

    def release(self) -> None:
        """Give it back, unless that is done."""
        if self._semaphore:
            self._semaphore.release()
        self._semaphore = None
