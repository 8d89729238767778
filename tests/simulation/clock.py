"""An event loop with simulated time, without real waiting and without I/O.

When nothing is ready to run, the time advances to the next timer. Tasks and callbacks belong to
the simulated process that created them, so that a process can be killed or frozen as a whole.
"""

import asyncio
import heapq
from collections.abc import Coroutine
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(eq=False, slots=True)
class Owner:
    """A simulated process and its tasks.

    Attributes:
        tasks: Its tasks, in order of creation.
        is_frozen: Whether its callbacks are held back.
        waiting: The callbacks that are held back, in the order in which they were due.
    """

    tasks: list[asyncio.Task[Any]] = field(default_factory=list[asyncio.Task[Any]])
    is_frozen: bool = False
    waiting: list["Handle"] = field(default_factory=list["Handle"])


OWNER: ContextVar[Owner | None] = ContextVar("owner", default=None)
"""The process that runs; None for the rest of the cluster."""


class Stuck(Exception):
    """No callback is ready or scheduled, so the simulation would never end."""


class Handle:
    """A ready or scheduled callback, with less overhead than asyncio's."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(self, callback: Any, args: Any, context: Context | None) -> None:
        self.callback = callback
        self.args = args
        self.context = copy_context() if context is None else context
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the call."""
        self.is_cancelled = True
        self.callback = self.args = None


class SimulatedLoop(asyncio.BaseEventLoop):
    """An event loop in simulated time; it has no sockets and no threads."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._frozen = 0
        self._order = 0

    def time(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def freeze(self, owner: Owner) -> None:
        """Suspend a process until it is thawed, as if its machine were suspended."""
        if not owner.is_frozen:
            owner.is_frozen = True
            self._frozen += 1

    def thaw(self, owner: Owner) -> None:
        """Resume a frozen process and run everything that became due."""
        if owner.is_frozen:
            owner.is_frozen = False
            self._frozen -= 1
            self._ready.extend(owner.waiting)
            owner.waiting.clear()

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        """Create a task of the current process."""
        task = super().create_task(coro, name=name, context=context)
        owned = OWNER.get() if context is None else context.get(OWNER)
        if owned is not None:
            owned.tasks.append(task)
        return task

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Handle:
        """Call after everything that is already ready."""
        handle = Handle(callback, args, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # there is one thread

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        """Call after some simulated seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> Handle:
        """Call at a time; calls with the same time run in the order of registration."""
        handle = Handle(callback, args, context)
        self._order += 1
        heapq.heappush(self._scheduled, (when, self._order, handle))
        return handle

    def _run_once(self) -> None:
        """Run ready callbacks, or advance the time to the next timer."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and not ready:
            when, _, handle = heapq.heappop(scheduled)
            if not handle.is_cancelled:
                self._now = max(self._now, when)
                ready.append(handle)
        while scheduled and scheduled[0][0] <= self._now:
            ready.append(heapq.heappop(scheduled)[2])
        if not ready:
            raise Stuck
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            if self._frozen and (owner := handle.context.get(OWNER)) and owner.is_frozen:
                owner.waiting.append(handle)
                continue
            try:
                handle.context.run(handle.callback, *handle.args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 -- logged, as asyncio does it
                told = {"message": f"exception in {handle.callback!r}", "exception": error}
                self.call_exception_handler(told)


def moment(seconds: float) -> datetime:
    """Convert simulated seconds to UTC."""
    return START + timedelta(seconds=seconds)


def timestamp(seconds: float) -> str:
    """Convert simulated seconds to a timestamp of the API."""
    return _timestamp(int(seconds))


@lru_cache(maxsize=4096)
def _timestamp(seconds: int) -> str:
    return moment(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
