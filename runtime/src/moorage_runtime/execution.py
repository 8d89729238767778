"""Runs a loaded model for many requests at once without holding up the event loop.

    dataplane -> Runner.begin -> batcher, worker thread -> LoadedModel.infer
                              -> the event loop itself  -> LoadedModel.infer

A hand-over to a thread costs some 50 us. A model that is known to take less, and whose time
depends on nothing but the shapes, is therefore run in the event loop; how long it takes is
measured with every run, by size of the input, and the first surprise sends it back to threads.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from moorage_runtime.backends.base import HttpModel, LoadedModel
from moorage_runtime.batching.batcher import Batcher, RunObserver
from moorage_runtime.batching.policy import BatchingPolicy
from moorage_runtime.errors import InvalidRequest, ModelFailed, QueueFull, RuntimeFault
from moorage_runtime.inference import HttpCall, HttpReply, InferRequest
from moorage_runtime.tensors import Datatype, Tensor

Part = TypeVar("Part")

# Below this a thread costs more than it frees: about three hand-overs.
INLINE_SECONDS: Final = 150e-6
# Runs of a size before its cost is believed: the first ones warm caches and allocate.
_SAMPLES: Final = 4
# To add up the lengths of more strings would itself take long; no run of so many is short.
_COUNTED_ELEMENTS: Final = 8 * 1024
# Looking a member up on its enum costs as much as a small function.
_BYTES: Final = Datatype.BYTES
# How fast the estimate follows a slower run; a faster one is taken at once, because noise only
# ever adds.
_RISE: Final = 0.1


class CostEstimate:
    """Seconds a run takes, by the power of two of the number of input elements.

    Attributes:
        cheap: The sizes whose runs are known to be shorter than INLINE_SECONDS.
    """

    def __init__(self) -> None:
        self.cheap: set[int] = set()
        self._seconds: dict[int, float] = {}
        self._samples: dict[int, int] = {}

    def record(self, size_class: int, seconds: float) -> None:
        """Learn from one run."""
        known = self._seconds.get(size_class, seconds)
        if seconds > known:
            seconds = known + (seconds - known) * _RISE
        self._seconds[size_class] = seconds
        if seconds >= INLINE_SECONDS or size_class not in self.cheap:
            self._judge(size_class, seconds)

    def _judge(self, size_class: int, seconds: float) -> None:
        samples = self._samples[size_class] = self._samples.get(size_class, 0) + 1
        if seconds >= INLINE_SECONDS:
            self.cheap.discard(size_class)
        elif samples >= _SAMPLES:
            self.cheap.add(size_class)


class Runner:
    """Runs one version of a model.

    Args:
        model: The loaded model; closed when the last run after ``close`` has ended.
        name: For the names of the worker threads.
        threads: Runs at the same time.
        waiting: Requests that may wait for a thread before further ones are refused.
        batching: How requests that wait are merged; None merges none.
        observe: Gets the figures of each run in a thread.
    """

    def __init__(
        self,
        model: LoadedModel,
        name: str,
        *,
        threads: int,
        waiting: int,
        batching: BatchingPolicy | None = None,
        observe: RunObserver | None = None,
    ) -> None:
        self.model = model
        self._cost = CostEstimate() if model.steady else None
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"model-{name}")
        self._batcher = Batcher(
            self._measured,
            name,
            executor=self._pool,
            slots=threads,
            policy=batching,
            observe=observe,
            on_leave=self._leave,
        )
        self._limit = threads + waiting
        self._active = 0
        self._is_closed = False

    def active(self) -> int:
        """Requests that run or wait."""
        return self._active

    async def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        """Run once.

        Raises:
            QueueFull: Too many requests wait already.
            RuntimeFault: As the model's ``infer``.
        """
        begun = self.begin(request)
        return begun if isinstance(begun, tuple) else await begun

    def begin(self, request: InferRequest) -> tuple[Tensor, ...] | Awaitable[tuple[Tensor, ...]]:
        """Run once: the outputs where that is known to be short, else what to await for them.

        The run has begun when this returns, so the model may be closed before it is awaited.

        Raises:
            QueueFull, RuntimeFault: As ``infer``; the awaitable may raise the latter too.
        """
        cost = self._cost
        if cost is not None:
            size = _size_class(request)
            if size in cost.cheap:
                return self._timed(request, cost, size)
        self._enter()
        return self._batcher.submit(request)

    async def stream(self, request: InferRequest) -> AsyncIterator[tuple[Tensor, ...]]:
        """Run, yielding the parts as they come; raises as ``infer``.

        The model is asked for the next part only when this one was taken. When the consumer
        stops, the model's generator is closed.
        """
        if not self.model.streams:
            yield await self.infer(request)
            return
        self._enter()
        loop = asyncio.get_running_loop()
        parts = self.model.stream(request)
        try:
            while (part := await loop.run_in_executor(self._pool, _next, parts)) is not None:
                yield part
        finally:
            closing = loop.run_in_executor(self._pool, _close, parts)
            closing.add_done_callback(lambda _: self._leave())

    async def http(self, call: HttpCall) -> AsyncIterator[HttpReply]:
        """Let the model answer in a format of its own.

        Yields the model's answer, and when its body is an iterator the answer with each part of
        it as the body.

        Raises:
            InvalidRequest: The model has no such format.
            QueueFull: Too many requests wait already.
            RuntimeFault: As the model's ``http``.
        """
        model = self.model
        if not isinstance(model, HttpModel):
            raise InvalidRequest("the model has no HTTP format of its own")
        self._enter()
        loop = asyncio.get_running_loop()
        parts: Iterator[bytes] = iter(())
        try:
            reply = await loop.run_in_executor(self._pool, model.http, call)
            yield reply
            if not isinstance(reply.body, bytes):
                parts = iter(reply.body)
                while (part := await loop.run_in_executor(self._pool, _next, parts)) is not None:
                    yield msgspec.structs.replace(reply, body=part)
        finally:
            closing = loop.run_in_executor(self._pool, _close, parts)
            closing.add_done_callback(lambda _: self._leave())

    def close(self) -> None:
        """Let running requests finish, then free the model."""
        self._is_closed = True
        if not self._active:
            self._free()

    def _measured(self, request: InferRequest) -> tuple[Tensor, ...]:
        if self._cost is None:
            return self.model.infer(request)
        return self._timed(request, self._cost, _size_class(request))

    def _timed(self, request: InferRequest, cost: CostEstimate, size: int) -> tuple[Tensor, ...]:
        started = time.perf_counter()
        outputs = self.model.infer(request)
        cost.record(size, time.perf_counter() - started)
        return outputs

    def _enter(self) -> None:
        if self._active >= self._limit:
            raise QueueFull(
                f"{self._active} requests are running or waiting for the model already, at most "
                f"{self._limit} may"
            )
        self._active += 1

    def _leave(self) -> None:
        self._active -= 1
        if self._is_closed and not self._active:
            self._free()

    def _free(self) -> None:
        # closing may block, and nobody waits for it
        self._pool.submit(self.model.close)
        self._pool.shutdown(wait=False)


def _size_class(request: InferRequest) -> int:
    size = 0
    for tensor in request.inputs:
        size += tensor.array.size
        if tensor.datatype is _BYTES and tensor.array.size < _COUNTED_ELEMENTS:
            # the elements' lengths count too
            size += sum(map(len, tensor.array.reshape(-1).tolist()))
    return size.bit_length()


def _next(parts: Iterator[Part]) -> Part | None:
    try:
        return next(parts, None)
    except RuntimeFault:
        raise
    except Exception as error:
        # StopIteration and whatever a model's own generator raises
        raise ModelFailed(f"the model failed: {type(error).__name__}: {error}") from error


def _close(parts: Iterator[object]) -> None:
    close = getattr(parts, "close", None)
    if close is not None:
        close()
