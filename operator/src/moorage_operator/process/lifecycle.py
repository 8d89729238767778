"""Starts, awaits and cancels the background tasks of the process.

    SIGTERM, SIGINT --> stopped --> drain --> cancel

The process also ends when a task ends by itself, because all tasks run as long as the process.
"""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any

__all__ = ["Lifecycle"]

logger = logging.getLogger(__name__)


class Lifecycle:
    """The background tasks of a process."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def end_on_signals(self) -> None:
        """Stop on SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task of the process."""
        self._tasks.append(asyncio.create_task(coroutine, name=name))

    async def unless_stopped(self, coroutine: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine; on a signal, cancel it and all tasks. Whether it completed."""
        task = asyncio.create_task(coroutine, name="start")
        ending = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait([task, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.gather(task, *self._cancelled(), return_exceptions=True)
        return False

    async def unless_one_ends(self, awaited: asyncio.Future[Any]) -> bool:
        """Wait for a future; if a task ends first, cancel it. Whether the future was done."""
        await asyncio.wait([awaited, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if awaited.done():
            return True
        awaited.cancel()
        return False

    async def stopped(self) -> bool:
        """Wait for a signal or the end of a task; whether it was a signal."""
        ending = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait([ending, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if self._stop.is_set():
            return True
        self._report_ended()
        return False

    async def drain(self, prefix: str, seconds: float) -> None:
        """Wait for the tasks whose names have a prefix, but no longer than so many seconds."""
        tasks = [task for task in self._tasks if task.get_name().startswith(prefix)]
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        await asyncio.gather(*self._cancelled(), return_exceptions=True)

    def _cancelled(self) -> list[asyncio.Task[None]]:
        for task in self._tasks:
            task.cancel()
        return self._tasks

    def _report_ended(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                logger.error(
                    "background task ended",
                    extra={"task": task.get_name()},
                    exc_info=task.exception(),
                )
