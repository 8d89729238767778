import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from moorage_runtime.execution.batcher import Batcher
from moorage_runtime.execution.batching.policy import BatchingPolicy
from moorage_runtime.values.errors import DeadlineExceeded, InvalidRequest, ModelFailed
from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype, Tensor

KNOWN = BatchingPolicy(max_rows=8)


class Unprintable(Exception):
    """An exception whose text cannot be created."""

    def __str__(self) -> str:
        raise SystemExit


def request_of(*values: float, columns: int = 2) -> InferRequest:
    array = np.repeat(np.array(values, np.float32)[:, np.newaxis], columns, 1)
    return InferRequest("m", "", (Tensor("x", Datatype.FP32, array),))


class Model:
    """Doubles its rows; `go` delays it; it refuses a 13, and a 7 ends the thread."""

    def __init__(self) -> None:
        self.runs: list[list[float]] = []
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()
        self.loses = False
        self.error: BaseException | None = None

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        x = request.inputs[0].array
        self.runs.append(x[:, 0].tolist())
        self.started.release()
        assert self.go.wait(10)
        if self.error is not None:
            raise self.error
        if 13 in x:
            raise InvalidRequest("13 is refused")
        if 7 in x:
            raise SystemExit
        y = x * 2
        return (Tensor("y", Datatype.FP32, y[:1] if self.loses else y),)


class Bench:
    """A batcher with a model, and its observations."""

    def __init__(self, policy: BatchingPolicy | None, slots: int) -> None:
        self.model = Model()
        self.left = 0
        self.figures: list[int] = []
        self.pool = ThreadPoolExecutor(slots)
        self.batcher = Batcher(
            self.model.infer,
            "m",
            executor=self.pool,
            slots=slots,
            policy=policy,
            observe=self.observe,
        )

    def observe(self, requests, waited) -> None:
        assert len(waited) == requests
        assert min(waited) >= 0
        self.figures.append(requests)

    def leave(self) -> None:
        self.left += 1

    def submit(self, *values: float, columns: int = 2) -> "asyncio.Future[tuple[Tensor, ...]]":
        return self.batcher.submit(request_of(*values, columns=columns), self.leave)

    async def answer(self, future) -> list[float]:
        return (await future)[0].array[:, 0].tolist()

    async def round(self, *values: float) -> list[list[float]]:
        """Send one request that runs and others that wait for it; returns the responses of the
        others.
        """
        self.model.go.clear()
        first = self.submit(1)
        await asyncio.to_thread(self.model.started.acquire)
        waiting = [self.submit(value) for value in values]
        self.model.go.set()
        await first
        return [await self.answer(future) for future in waiting]


@contextlib.asynccontextmanager
async def bench(policy: BatchingPolicy | None = KNOWN, slots: int = 1) -> AsyncIterator[Bench]:
    made = Bench(policy, slots)
    try:
        async with asyncio.timeout(10):
            yield made
    finally:
        made.model.go.set()
        made.pool.shutdown()


async def test_a_request_for_an_idle_model_runs_at_once_and_alone():
    async with bench() as made:
        assert await made.answer(made.submit(3)) == [6]

        assert made.model.runs == [[3]]


async def test_waiting_requests_share_the_next_run():
    async with bench() as made:
        answers = await made.round(2, 3, 4)

        assert answers == [[4], [6], [8]]
        assert made.model.runs == [[1], [2, 3, 4]]
        assert made.figures == [1, 3]
        assert made.left == 4


async def test_a_run_has_as_many_rows_as_allowed():
    async with bench(BatchingPolicy(max_rows=2)) as made:
        await made.round(2, 3, 4)

        assert made.model.runs == [[1], [2, 3], [4]]


async def test_requests_with_different_shapes_run_separately_and_in_order():
    async with bench() as made:
        made.model.go.clear()
        first = made.submit(1)
        others = [made.submit(2), made.submit(3, columns=3), made.submit(4)]
        made.model.go.set()

        assert [await made.answer(future) for future in (first, *others)] == [[2], [4], [6], [8]]
        assert made.model.runs == [[1], [2, 4], [3]]


async def test_without_a_policy_nothing_is_merged():
    async with bench(None) as made:
        await made.round(2, 3)

        assert made.model.runs == [[1], [2], [3]]


async def test_a_request_that_the_model_refuses_fails_alone():
    async with bench() as made:
        made.model.go.clear()
        made.submit(1)
        waiting = [made.submit(value) for value in (2, 13, 4)]
        made.model.go.set()

        outcomes = await asyncio.gather(*waiting, return_exceptions=True)

        assert isinstance(outcomes[1], InvalidRequest)
        assert [outcomes[place][0].array[0, 0] for place in (0, 2)] == [4, 8]
        # and merging continues
        assert await made.round(2, 3) == [[4], [6]]
        assert made.model.runs[-1] == [2, 3]


async def test_an_exit_of_the_model_fails_only_the_request():
    async with bench(slots=2) as made:
        outcomes = await asyncio.gather(made.submit(7), made.submit(2), return_exceptions=True)

        assert "SystemExit" in str(outcomes[0])
        assert outcomes[1][0].array[0, 0] == 4


async def test_a_cancelled_request_does_not_affect_others_of_its_run():
    async with bench() as made:
        made.model.go.clear()
        first = made.submit(1)
        await asyncio.to_thread(made.model.started.acquire)
        waits, goes = made.submit(2), made.submit(3)
        waits.cancel()
        first.cancel()
        await asyncio.sleep(0)
        assert made.left == 1
        made.model.go.set()

        assert await made.answer(goes) == [6]
        assert made.model.runs == [[1], [3]]
        assert made.left == 3


async def test_a_request_cancelled_during_its_run_does_not_affect_others():
    async with bench() as made:
        made.model.go.clear()
        made.submit(1)
        await asyncio.to_thread(made.model.started.acquire)
        made.model.go.set()
        cancelled, other = made.submit(2), made.submit(3)
        await asyncio.to_thread(made.model.started.acquire)
        cancelled.cancel()

        assert await made.answer(other) == [6]


async def test_waiting_rows_run_at_the_delay_or_when_the_batch_is_full():
    policy = BatchingPolicy(max_rows=2, max_delay_seconds=0.02)
    async with bench(policy) as made:
        lone = made.submit(1)
        assert not made.model.runs
        await lone

        full = made.submit(2), made.submit(3)
        assert made.figures == [1, 2]
        await asyncio.gather(*full)


async def test_a_model_that_loses_rows_is_no_longer_merged(caplog):
    async with bench(KNOWN) as made:
        made.model.loses = True

        assert await made.round(2, 3) == [[4], [6]]

        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert made.model.runs == [[1], [2, 3], [2], [3]]
        await made.round(2, 3)
        assert made.model.runs[4:] == [[1], [2], [3]]


async def test_runs_are_sequential_only_if_merging_pays_off():
    async with bench(KNOWN, slots=2) as merged, bench(None, slots=2) as single:
        for made in (merged, single):
            made.model.go.clear()
            made.submit(1)
            made.submit(2)

        assert [merged.figures, single.figures] == [[1], [1, 1]]


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        StopIteration(),
        asyncio.CancelledError(),
        MemoryError(),
        RecursionError(),
        Unprintable(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_exception_of_a_merged_run_does_not_leak_a_slot(error):
    async with bench() as made:
        made.model.error = error
        made.model.go.clear()
        futures = [made.submit(value) for value in (1, 2, 3)]
        made.model.go.set()

        outcomes = await asyncio.gather(*futures, return_exceptions=True)

        assert [type(outcome) for outcome in outcomes] == [ModelFailed] * 3
        assert type(error).__name__ in str(outcomes[0])
        made.model.error = None
        assert await made.round(2, 3) == [[4], [6]]
        assert made.left == 6


async def test_a_request_that_times_out_in_the_queue_never_runs():
    async with bench() as made:
        made.model.go.clear()
        first = made.submit(1)
        await asyncio.to_thread(made.model.started.acquire)
        late = made.batcher.submit(request_of(2), made.leave, 0.01)

        with pytest.raises(DeadlineExceeded, match=r"within 0\.01 s"):
            await late
        made.model.go.set()

        await first
        assert made.model.runs == [[1]]
        assert made.left == 2


async def test_a_request_that_times_out_during_its_run_keeps_its_slot():
    async with bench() as made:
        made.model.go.clear()
        late = made.batcher.submit(request_of(2), made.leave, 0.01)

        with pytest.raises(DeadlineExceeded):
            await late

        assert made.left == 0
        made.model.go.set()
        assert await made.answer(made.submit(3)) == [6]
        assert made.left == 2
