import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from moorage_runtime.errors import ModelFailed, QueueFull
from moorage_runtime.execution import INLINE_SECONDS, CostEstimate, Runner
from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import Datatype, Tensor

X = Tensor("x", Datatype.FP32, np.zeros(4, np.float32))
REQUEST = InferRequest("m", "1", (X,))


class Model:
    """A model whose every step a test controls."""

    platform = "test"
    inputs = ()
    outputs = ()
    dynamic = True

    def __init__(self, *, steady: bool = False, streams: bool = False) -> None:
        self.steady = steady
        self.streams = streams
        self.threads: list[int] = []
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()
        self.closed = threading.Event()
        self.stream_closed = threading.Event()

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        self.threads.append(threading.get_ident())
        self.started.release()
        assert self.go.wait(10)
        if request.id == "raise":
            raise ModelFailed("as asked")
        return request.inputs

    def stream(self, _: InferRequest) -> Iterator[tuple[Tensor, ...]]:
        try:
            for number in range(3):
                yield (Tensor(str(number), X.datatype, X.array),)
        finally:
            self.stream_closed.set()

    def close(self) -> None:
        self.closed.set()


def runner(model: Model, *, threads: int = 2, waiting: int = 8) -> Runner:
    return Runner(model, "m", threads=threads, waiting=waiting)


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 10)


async def test_a_model_runs_in_a_thread():
    model = Model()

    assert await runner(model).infer(REQUEST) == (X,)
    assert threading.get_ident() not in model.threads


async def test_what_the_model_raises_arrives():
    with pytest.raises(ModelFailed, match="as asked"):
        await runner(Model()).infer(InferRequest("m", "1", (X,), id="raise"))


async def test_a_cheap_steady_model_moves_into_the_event_loop():
    model = Model(steady=True)
    running = runner(model)

    for _ in range(200):
        await running.infer(REQUEST)

    assert model.threads[0] != threading.get_ident()
    assert model.threads[-1] == threading.get_ident()


async def test_a_model_that_may_block_never_does():
    model = Model(steady=False)
    running = runner(model)

    for _ in range(50):
        await running.infer(REQUEST)

    assert threading.get_ident() not in model.threads


def test_the_cost_is_believed_after_some_runs_and_by_size():
    cost = CostEstimate()
    for _ in range(3):
        cost.record(3, INLINE_SECONDS / 10)
    assert 3 not in cost.cheap

    cost.record(3, INLINE_SECONDS / 10)

    assert 3 in cost.cheap
    assert 4 not in cost.cheap


def test_one_slow_run_sends_a_size_back_to_threads():
    cost = CostEstimate()
    for _ in range(100):
        cost.record(3, INLINE_SECONDS / 2)

    cost.record(3, 1.0)

    assert 3 not in cost.cheap
    cost.record(3, INLINE_SECONDS / 2)
    assert 3 in cost.cheap


async def test_more_requests_than_may_wait_are_refused():
    model = Model()
    model.go.clear()
    running = runner(model, threads=1, waiting=2)
    tasks = [asyncio.create_task(running.infer(REQUEST)) for _ in range(3)]
    await asyncio.to_thread(model.started.acquire)

    with pytest.raises(QueueFull, match="at most 3 may"):
        await running.infer(REQUEST)

    model.go.set()
    assert await asyncio.gather(*tasks) == [(X,)] * 3
    assert running.active() == 0
    assert await running.infer(REQUEST) == (X,)


async def test_a_cancelled_request_that_waits_never_runs():
    model = Model()
    model.go.clear()
    running = runner(model, threads=1)
    first = asyncio.create_task(running.infer(REQUEST))
    await asyncio.to_thread(model.started.acquire)
    second = asyncio.create_task(running.infer(REQUEST))
    await asyncio.sleep(0)

    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    model.go.set()
    await first

    assert len(model.threads) == 1
    assert running.active() == 0


async def test_a_stream_comes_in_parts():
    model = Model(streams=True)

    parts = [outputs[0].name async for outputs in runner(model).stream(REQUEST)]

    assert parts == ["0", "1", "2"]


async def test_a_model_that_does_not_stream_gives_one_part():
    assert [part async for part in runner(Model()).stream(REQUEST)] == [(X,)]


async def test_a_stream_that_is_left_is_closed():
    model = Model(streams=True)
    running = runner(model)
    stream = running.stream(REQUEST)
    await anext(stream)

    await stream.aclose()

    await until(model.stream_closed)


async def test_a_closed_model_is_freed_after_its_last_run():
    model = Model()
    model.go.clear()
    running = runner(model)
    task = asyncio.create_task(running.infer(REQUEST))
    await asyncio.to_thread(model.started.acquire)

    running.close()

    assert not model.closed.is_set()
    model.go.set()
    await task
    await until(model.closed)


async def test_an_idle_model_is_freed_at_once():
    model = Model()

    runner(model).close()

    await until(model.closed)
