"""Runs a loaded model for concurrent requests without blocking the event loop.

    dataplane -> Runner.begin -> batcher, worker thread -> LoadedModel.infer
                              -> the event loop itself  -> LoadedModel.infer

The transfer to a thread costs about 50 us. A request whose run provably takes little longer, by a
static bound on the model's graph, runs in the event loop.

The runner admits requests and owns the threads, which streams share. The batcher has the queue,
and decides what a free thread runs. The threads' own queue alone would be simpler, but requests
that wait there cannot be merged: with 32 concurrent clients, a request for a small perceptron then
takes 4.2 times the CPU time.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Generic, TypeVar

import msgspec

from moorage_runtime.backends.base import HttpModel, LoadedModel, Supervised
from moorage_runtime.backends.containment import contained, fault_of
from moorage_runtime.execution.batcher import Batcher, RunObserver
from moorage_runtime.execution.batching.policy import BatchingPolicy
from moorage_runtime.execution.request_size import size_of
from moorage_runtime.values.budget import ByteBudget
from moorage_runtime.values.errors import DeadlineExceeded, InvalidRequest, QueueFull
from moorage_runtime.values.inference import HttpCall, HttpReply, InferRequest
from moorage_runtime.values.tensors import Tensor

Part = TypeVar("Part")


class Runner:
    """Runs one version of a model.

    Args:
        model: The loaded model; closed after the last run that follows ``close``.
        name: Name for the worker threads.
        threads: Maximum number of concurrent runs.
        waiting: Maximum number of waiting requests; further ones are refused.
        batching: How waiting requests are merged; None disables merging.
        observe: Receives the figures of each run in a thread.
        timeout_seconds: Maximum time of a request, and of each part of a stream; 0 is no limit.
        budget: Limits the memory of the current requests of all models.
    """

    def __init__(  # noqa: PLR0913 - the parts of a runner, mostly keywords
        self,
        model: LoadedModel,
        name: str,
        *,
        threads: int,
        waiting: int,
        batching: BatchingPolicy | None = None,
        observe: RunObserver | None = None,
        timeout_seconds: float = 0.0,
        budget: ByteBudget | None = None,
    ) -> None:
        self.model = model
        self._inline_rows = model.inline_rows
        self._timeout_seconds = timeout_seconds
        self._budget = budget or ByteBudget()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"model-{name}")
        self._batcher = Batcher(
            model.infer,
            name,
            executor=self._pool,
            slots=threads,
            policy=batching,
            observe=observe,
        )
        self._limit = threads + waiting
        self._active = 0
        self._is_closed = False

    def problem(self) -> str:
        """Why the model cannot currently answer; "" if it can."""
        return self.model.problem() if isinstance(self.model, Supervised) else ""

    def active(self) -> int:
        """Number of requests that run or wait."""
        return self._active

    async def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once.

        Raises:
            QueueFull, ServerBusy: Too many requests wait, or they hold too much memory.
            DeadlineExceeded: The model took too long.
            RuntimeFault: As the model's ``infer``.
        """
        begun = self.begin(request)
        return begun if isinstance(begun, tuple) else await begun

    def begin(self, request: InferRequest) -> tuple[Tensor, ...] | Awaitable[tuple[Tensor, ...]]:
        """Run once: return the outputs if the run is provably short, otherwise an awaitable.

        The run starts before this returns, so the model may be closed before the awaitable is
        awaited.

        Raises:
            QueueFull, RuntimeFault: As ``infer``; the awaitable may raise the latter too.
        """
        if self._inline_rows and _most_rows(request) <= self._inline_rows:
            return contained(partial(self.model.infer, request))
        size = size_of(request)
        self._enter(size)
        return self._batcher.submit(request, partial(self._leave, size), self._timeout_seconds)

    async def stream(self, request: InferRequest) -> AsyncIterator[tuple[Tensor, ...]]:
        """Run and yield the parts as they arrive; raises like ``infer``.

        The next part is requested from the model only after the last one was consumed. When the
        consumer stops, the model's generator is closed.
        """
        if not self.model.streams:
            yield await self.infer(request)
            return
        parts = self._parts(size_of(request), lambda: self.model.stream(request))
        async for part in parts:
            yield part

    async def http(self, call: HttpCall) -> AsyncIterator[HttpReply]:
        """Let the model answer in its own HTTP format.

        Yields the model's reply. If its body is an iterator, yields the reply once for each part,
        with that part as the body.

        Raises:
            InvalidRequest: The model has no HTTP format of its own.
            QueueFull: Too many requests wait.
            RuntimeFault: As the model's ``http``.
        """
        model = self.model
        if not isinstance(model, HttpModel):
            raise InvalidRequest("the model has no HTTP format of its own")
        parts = self._parts(len(call.body), lambda: _http(model, call))
        async for part in parts:
            yield part

    async def _parts(self, size: int, start: Callable[[], Iterator[Part]]) -> AsyncIterator[Part]:
        """The parts of a response, each made in a thread on demand."""
        self._enter(size)
        loop = asyncio.get_running_loop()

        def closed() -> None:
            # a closed loop counts no requests
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._leave, size)

        source = _Source(start, closed)
        try:
            while (part := await self._in_time(source.next)) is not None:
                yield part
        finally:
            if source.leave():
                self._pool.submit(source.close)

    async def _in_time(self, call: Callable[[], Part]) -> Part:
        running = asyncio.get_running_loop().run_in_executor(self._pool, call)
        try:
            return await asyncio.wait_for(running, self._timeout_seconds or None)
        except TimeoutError:
            raise DeadlineExceeded(
                f"the model did not answer within {self._timeout_seconds:g} s"
            ) from None

    def close(self) -> None:
        """Let current requests finish, then close the model."""
        self._is_closed = True
        if not self._active:
            self._free()

    def _enter(self, size: int) -> None:
        if self._active >= self._limit:
            raise QueueFull(
                f"the model's queue is full: {self._active} requests are running or waiting, at "
                f"most {self._limit} are allowed"
            )
        self._budget.take(size)
        self._active += 1

    def _leave(self, size: int) -> None:
        self._budget.give_back(size)
        self._active -= 1
        if self._is_closed and not self._active:
            self._free()

    def _free(self) -> None:
        # closing may block, and nothing waits for it
        self._pool.submit(self.model.close)
        self._pool.shutdown(wait=False)


class _Source(Generic[Part]):
    """A model's iterator, which can be left at any time and is closed once.

    A generator must not be closed while it runs: a thread that is inside it closes it afterwards.
    """

    def __init__(self, start: Callable[[], Iterator[Part]], closed: Callable[[], None]) -> None:
        self._start = start
        self._closed = closed
        self._parts: Iterator[Part] | None = None
        self._lock = threading.Lock()
        self._is_inside = False
        self._is_left = False

    def next(self) -> Part | None:
        """The next part, or None at the end; called in a thread.

        Raises:
            RuntimeFault: Any exception of the model, wrapped.
        """
        with self._lock:
            if self._is_left:
                return None
            self._is_inside = True
        try:
            return contained(self._next)
        finally:
            with self._lock:
                self._is_inside = False
                must_close = self._is_left
            if must_close:
                self.close()

    def leave(self) -> bool:
        """Stop iterating; return whether the caller must call ``close`` in a thread."""
        with self._lock:
            self._is_left = True
            return not self._is_inside

    def close(self) -> None:
        """Close the iterator; called in a thread. Exceptions of the model are logged."""
        try:
            close = getattr(self._parts, "close", None)
            if close is not None:
                close()
        except BaseException as error:  # noqa: BLE001 - nothing waits for the result
            fault_of(error)
        finally:
            self._closed()

    def _next(self) -> Part | None:
        if self._parts is None:
            self._parts = self._start()
        return next(self._parts, None)


def _http(model: HttpModel, call: HttpCall) -> Iterator[HttpReply]:
    reply = model.http(call)
    yield reply
    if isinstance(reply.body, bytes):
        return
    body = iter(reply.body)
    try:
        for part in body:
            yield msgspec.structs.replace(reply, body=part)
    finally:
        close = getattr(body, "close", None)
        if close is not None:
            close()


def _most_rows(request: InferRequest) -> int:
    rows = 0
    for tensor in request.inputs:
        shape = tensor.array.shape
        if shape and shape[0] > rows:
            rows = shape[0]
    return rows
