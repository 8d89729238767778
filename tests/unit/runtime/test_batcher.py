import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from moorage_runtime.batching.batcher import Batcher
from moorage_runtime.batching.policy import BatchingPolicy
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import InferRequest
from moorage_runtime.tensors import Datatype, Tensor

KNOWN = BatchingPolicy(max_rows=8, is_tried=False)
TRIED = BatchingPolicy(max_rows=8)


class Model:
    """Doubles its rows; `go` holds it up; a 13 among them is refused, a 7 ends the thread."""

    def __init__(self) -> None:
        self.runs: list[list[float]] = []
        self.started = threading.Semaphore(0)
        self.go = threading.Event()
        self.go.set()
        self.mixes = False
        self.loses = False

    def infer(self, request: InferRequest) -> tuple[Tensor, ...]:
        x = request.inputs[0].array
        self.runs.append(x[:, 0].tolist())
        self.started.release()
        assert self.go.wait(10)
        if 13 in x:
            raise InvalidRequest("13 is refused")
        if 7 in x:
            raise SystemExit
        y = x * 2 + (x.sum() if self.mixes else 0)
        return (Tensor("y", Datatype.FP32, y[:1] if self.loses else y),)


class Bench:
    """A batcher over a model, and what it told."""

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
            on_leave=self.leave,
        )

    def observe(self, requests, waited) -> None:
        assert len(waited) == requests
        assert min(waited) >= 0
        self.figures.append(requests)

    def leave(self) -> None:
        self.left += 1

    def submit(self, *values: float, columns: int = 2) -> "asyncio.Future[tuple[Tensor, ...]]":
        array = np.repeat(np.array(values, np.float32)[:, np.newaxis], columns, 1)
        return self.batcher.submit(InferRequest("m", "", (Tensor("x", Datatype.FP32, array),)))

    async def answer(self, future) -> list[float]:
        return (await future)[0].array[:, 0].tolist()

    async def round(self, *values: float) -> list[list[float]]:
        """One request that runs, and these that wait for its end; the answers of these."""
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


async def test_a_request_that_finds_the_model_idle_runs_at_once_and_alone():
    async with bench() as made:
        assert await made.answer(made.submit(3)) == [6]

        assert made.model.runs == [[3]]


async def test_what_waits_for_a_run_goes_together_into_the_next():
    async with bench() as made:
        answers = await made.round(2, 3, 4)

        assert answers == [[4], [6], [8]]
        assert made.model.runs == [[1], [2, 3, 4]]
        assert made.figures == [1, 3]
        assert made.left == 4


async def test_a_run_has_as_many_rows_as_allowed():
    async with bench(BatchingPolicy(max_rows=2, is_tried=False)) as made:
        await made.round(2, 3, 4)

        assert made.model.runs == [[1], [2, 3], [4]]


async def test_requests_of_other_shapes_run_apart_and_in_turn():
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
        # and merging goes on
        assert await made.round(2, 3) == [[4], [6]]
        assert made.model.runs[-1] == [2, 3]


async def test_an_exit_of_the_model_is_an_error_of_the_request_alone():
    async with bench(slots=2) as made:
        outcomes = await asyncio.gather(made.submit(7), made.submit(2), return_exceptions=True)

        assert "SystemExit" in str(outcomes[0])
        assert outcomes[1][0].array[0, 0] == 4


async def test_a_cancelled_request_leaves_the_others_of_its_run_alone():
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


async def test_one_that_is_cancelled_while_its_batch_runs_leaves_the_others_alone():
    async with bench() as made:
        made.model.go.clear()
        made.submit(1)
        await asyncio.to_thread(made.model.started.acquire)
        made.model.go.set()
        cancelled, other = made.submit(2), made.submit(3)
        await asyncio.to_thread(made.model.started.acquire)
        cancelled.cancel()

        assert await made.answer(other) == [6]


async def test_rows_that_wait_for_company_go_when_the_time_is_up_or_the_batch_is_full():
    policy = BatchingPolicy(max_rows=2, max_delay_seconds=0.02, is_tried=False)
    async with bench(policy) as made:
        lone = made.submit(1)
        assert not made.model.runs
        await lone

        full = made.submit(2), made.submit(3)
        assert made.figures == [1, 2]
        await asyncio.gather(*full)


async def test_a_model_that_mixes_rows_is_found_out_before_anyone_gets_a_merged_answer(caplog):
    async with bench(TRIED) as made:
        made.model.mixes = True
        with caplog.at_level(logging.WARNING):
            answers = await made.round(1, 1)

        # x + x, and its two columns: each as if it were alone
        assert answers == [[4], [4]]
        assert "no longer batched" in caplog.text
        before = len(made.model.runs)
        await made.round(1, 1)
        assert made.model.runs[before:] == [[1]] * 3


async def test_a_row_wise_model_is_believed_after_some_trials():
    async with bench(TRIED) as made:
        for _ in range(3):
            assert await made.round(2, 3) == [[4], [6]]
            # the answers come from the single runs; the third is the comparison
            assert [2, 3, 0] in made.model.runs[-1:]
        before = len(made.model.runs)

        assert await made.round(2, 3) == [[4], [6]]

        assert made.model.runs[before:] == [[1], [2, 3]]


async def test_a_trial_is_small():
    async with bench(TRIED) as made:
        await made.round(2, 3, 4, 5, 6, 8)

        assert max(map(len, made.model.runs)) == 5


async def test_a_model_that_loses_rows_is_no_longer_merged():
    async with bench(KNOWN) as made:
        made.model.loses = True

        assert await made.round(2, 3) == [[4], [6]]

        assert made.model.runs == [[1], [2, 3], [2], [3]]
        await made.round(2, 3)
        assert made.model.runs[4:] == [[1], [2], [3]]


async def test_one_run_at_a_time_where_merging_pays_and_all_threads_where_not():
    async with bench(KNOWN, slots=2) as merged, bench(None, slots=2) as single:
        for made in (merged, single):
            made.model.go.clear()
            made.submit(1)
            made.submit(2)

        assert [merged.figures, single.figures] == [[1], [1, 1]]
