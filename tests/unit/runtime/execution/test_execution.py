import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from moorage_runtime.execution.runner import Runner
from moorage_runtime.values.errors import DeadlineExceeded, ModelFailed, QueueFull
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

X = Tensor("x", Datatype.FP32, np.zeros(4, np.float32))
REQUEST = InferRequest("m", "1", (X,))


class Model:
    """A model with steps that the test controls."""

    platform = "test"
    inputs = ()
    outputs = ()
    dynamic = True

    def __init__(self, *, inline_rows: int = 0, streams: bool = False) -> None:
        self.inline_rows = inline_rows
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


async def until_idle(running: Runner) -> None:
    async with asyncio.timeout(10):
        while running.active():  # noqa: ASYNC110 - the runner tells nobody
            await asyncio.sleep(0.001)


async def test_a_model_runs_in_a_thread():
    model = Model()

    assert await runner(model).infer(REQUEST) == (X,)
    assert threading.get_ident() not in model.threads


async def test_exceptions_of_the_model_reach_the_caller():
    with pytest.raises(ModelFailed, match="as asked"):
        await runner(Model()).infer(InferRequest("m", "1", (X,), id="raise"))


async def test_a_request_within_the_static_bound_runs_in_the_event_loop_from_the_first_on():
    model = Model(inline_rows=4)

    await runner(model).infer(REQUEST)

    assert model.threads == [threading.get_ident()]


@pytest.mark.parametrize("inline_rows", [0, 3])
async def test_a_larger_request_never_runs_in_the_event_loop(inline_rows):
    model = Model(inline_rows=inline_rows)
    running = runner(model)

    for _ in range(50):
        await running.infer(REQUEST)

    assert threading.get_ident() not in model.threads


async def test_more_requests_than_may_wait_are_refused():
    model = Model()
    model.go.clear()
    running = runner(model, threads=1, waiting=2)
    tasks = [asyncio.create_task(running.infer(REQUEST)) for _ in range(3)]
    await asyncio.to_thread(model.started.acquire)

    with pytest.raises(
        QueueFull, match="the model's queue is full: 3 requests are running or waiting,"
    ):
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


async def test_an_abandoned_stream_is_closed():
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


async def test_a_stream_abandoned_during_a_part_is_closed_by_its_thread():
    model = Model(streams=True)
    inside, go = threading.Event(), threading.Event()
    closed_by: list[int] = []

    def stream(_):
        try:
            inside.set()
            assert go.wait(10)
            model.threads.append(threading.get_ident())
            yield (X,)
        finally:
            closed_by.append(threading.get_ident())
            model.stream_closed.set()

    model.stream = stream
    running = runner(model)
    parts = running.stream(REQUEST)
    task = asyncio.ensure_future(anext(parts))
    await until(inside)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert running.active() == 1
    go.set()

    await until(model.stream_closed)
    assert closed_by == model.threads
    await until_idle(running)


async def test_an_exception_on_close_of_a_generator_frees_its_place():
    model = Model(streams=True)

    def stream(_):
        try:
            yield (X,)
        finally:
            sys.exit(1)

    model.stream = stream
    running = runner(model)
    parts = running.stream(REQUEST)
    await anext(parts)
    await parts.aclose()

    await until_idle(running)


async def test_a_part_that_takes_too_long_ends_the_stream():
    model = Model(streams=True)
    go = threading.Event()

    def stream(_):
        yield (X,)
        assert go.wait(10)
        yield (X,)

    model.stream = stream
    parts = Runner(model, "m", threads=1, waiting=1, timeout_seconds=0.05).stream(REQUEST)
    await anext(parts)

    with pytest.raises(DeadlineExceeded, match=r"within 0\.05 s"):
        await anext(parts)
    go.set()


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collector")
async def test_a_closed_model_is_freed_without_the_garbage_collector():
    model = Model()
    running = runner(model)
    await running.infer(REQUEST)
    model.go.clear()
    waiting = running.begin(REQUEST)
    running.close()
    model.go.set()
    await waiting
    await until(model.closed)

    freed = threading.Event()
    weakref.finalize(model, freed.set)
    del model, running, waiting

    await until(freed)
