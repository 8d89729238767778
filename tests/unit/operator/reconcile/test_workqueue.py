import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.reconcile.policy import Policy
from moorage_operator.reconcile.workqueue import Closed, WorkQueue
from moorage_operator.values.urgency import Urgency

POLICY = Policy()


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Time:
    """A clock that a test advances, and that calls due timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.calls: list[tuple[float, Callable[[], None], Timer]] = []

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        timer = Timer()
        self.calls.append((self.now + seconds, call, timer))
        return timer

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = [each for each in self.calls if each[0] <= self.now]
        self.calls = [each for each in self.calls if each[0] > self.now]
        for _, call, timer in due:
            if not timer.cancelled:
                call()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def queue(time: Time) -> WorkQueue[str]:
    return made(time)


def made(time: Time, policy: Policy = POLICY, **options: Any) -> WorkQueue[str]:
    return WorkQueue(
        call_later=time.call_later,  # type: ignore[arg-type]
        clock=lambda: time.now,
        jitter=lambda: 1.0,
        policy=policy,
        **options,
    )


async def test_keys_are_returned_in_the_order_of_their_first_add(queue: WorkQueue[str]) -> None:
    for key in "abca":
        queue.add(key)

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    assert queue.depth == 0


async def test_urgent_keys_come_before_routine_ones(queue: WorkQueue[str]) -> None:
    queue.add("c")
    queue.add("b", Urgency.SPEC)
    queue.add("a", Urgency.READINESS)
    assert queue.depth == 3

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def waits(taking: asyncio.Future[str]) -> bool:
    await asyncio.sleep(0)
    return not taking.done()


async def test_only_changes_of_readiness_exceed_the_limit_of_concurrent_keys(time: Time) -> None:
    queue = made(time, Policy(passes=2))
    for key in "abc":
        queue.add(key, Urgency.SPEC)
    assert [await queue.get() for _ in range(2)] == ["a", "b"]
    third = asyncio.ensure_future(queue.get())
    assert await waits(third)

    queue.add("pod", Urgency.READINESS)
    assert await third == "pod"
    fourth = asyncio.ensure_future(queue.get())
    assert await waits(fourth)
    queue.done("pod")
    assert await waits(fourth)

    queue.done("a")
    assert await fourth == "c"


async def test_a_key_is_queued_once_with_its_highest_urgency(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    queue.add("b", Urgency.SPEC)
    queue.add("a", Urgency.READINESS)
    queue.add("a", Urgency.SPEC)

    assert [await queue.get() for _ in range(2)] == ["a", "b"]
    assert queue.depth == 0


async def test_a_key_added_while_it_runs_keeps_its_urgency(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a", Urgency.READINESS)
    queue.add("a", Urgency.ROUTINE)
    queue.add("b")

    queue.done("a")

    assert await queue.get() == "a"


async def test_urgent_keys_do_not_starve_routine_ones(queue: WorkQueue[str], time: Time) -> None:
    queue.add("patient")
    time.advance(0.1)
    for number in range(2 * POLICY.turn):
        queue.add(f"urgent {number}", Urgency.READINESS)

    taken = [await queue.get() for _ in range(POLICY.turn)]

    assert taken[-1] == "patient"
    assert queue.oldest_seconds == 0


async def test_only_routine_changes_wait_for_the_rest(queue: WorkQueue[str], time: Time) -> None:
    queue.add("a")
    queue.done(await queue.get())

    queue.add("a")
    assert queue.depth == 0
    time.advance(POLICY.rest_seconds)
    assert queue.depth == 1

    queue.done(await queue.get())
    queue.add("a")
    queue.add("a", Urgency.SPEC)
    assert queue.depth == 1
    queue.done(await queue.get())
    time.advance(2 * POLICY.rest_seconds)
    assert queue.depth == 0 or await queue.get() == "a"


async def test_an_urgent_reconcile_also_covers_the_routine_changes_before_it(
    queue: WorkQueue[str], time: Time
) -> None:
    queue.add("a")
    queue.done(await queue.get())
    queue.add("a", Urgency.ROUTINE)
    queue.add("a", Urgency.READINESS)

    queue.done(await queue.get())
    time.advance(2 * POLICY.rest_seconds)

    assert queue.depth == 0


async def test_a_scheduled_key_does_not_rest(queue: WorkQueue[str], time: Time) -> None:
    queue.add("a")
    queue.done(await queue.get())
    queue.schedule("a", 0.0)

    time.advance(0.0)

    assert queue.depth == 1


async def test_a_key_added_while_it_runs_runs_again_once(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a", Urgency.SPEC)
    assert queue.depth == 0

    queue.done("a")

    assert await queue.get() == "a"
    queue.done("a")
    assert queue.depth == 0


async def test_a_resting_key_runs_once_afterwards_and_does_not_block_others(time: Time) -> None:
    queue = made(time, rest=lambda key: 1.0 if key == "large" else 0.0)
    queue.add("large")
    await queue.get()
    queue.add("large")
    queue.done("large")
    queue.add("large", Urgency.READINESS)
    queue.add("small")

    assert await queue.get() == "small"
    assert queue.depth == 0
    time.advance(1.0)
    assert await queue.get() == "large"
    assert queue.depth == 0


async def test_a_rested_key_runs_at_once(time: Time) -> None:
    queue = made(time, rest=lambda _: 1.0)
    queue.add("a")
    queue.done(await queue.get())
    time.advance(1.0)

    queue.add("a")

    assert queue.depth == 1


async def test_a_waiting_worker_gets_a_new_key(queue: WorkQueue[str]) -> None:
    workers = [asyncio.ensure_future(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)

    queue.add("a")
    queue.add("b")

    assert sorted(await asyncio.gather(*workers)) == ["a", "b"]


async def test_a_cancelled_worker_loses_no_key(queue: WorkQueue[str]) -> None:
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)

    queue.add("a")

    assert await second == "a"


async def test_a_scheduled_key_is_queued_when_it_is_due(queue: WorkQueue[str], time: Time) -> None:
    queue.schedule("a", 5)
    time.advance(4.9)
    assert queue.depth == 0

    time.advance(0.2)

    assert queue.depth == 1
    assert await queue.get() == "a"


async def test_a_later_schedule_replaces_the_earlier_one(
    queue: WorkQueue[str], time: Time
) -> None:
    queue.schedule("a", 1)
    queue.schedule("a", None)

    time.advance(2)

    assert queue.depth == 0


async def test_a_failed_key_is_queued_after_its_delay(queue: WorkQueue[str], time: Time) -> None:
    delay = queue.retry("a")
    assert queue.depth == 0

    time.advance(delay)

    assert queue.depth == 1
    assert await queue.get() == "a"


async def test_retries_back_off_until_a_success(queue: WorkQueue[str]) -> None:
    queue.forget("a")
    assert [queue.retry("a") for _ in range(4)] == [0.25, 0.5, 1.0, 2.0]

    queue.forget("a")

    assert queue.retry("a") == 0.25


async def test_a_retry_respects_the_delay_that_the_server_requests(queue: WorkQueue[str]) -> None:
    assert queue.retry("a", least_seconds=7) == 7


@given(failures=st.integers(1, 60), chance=st.floats(0, 1, exclude_max=True))
def test_retry_delays_stay_within_their_bounds(failures: int, chance: float) -> None:
    delay = POLICY.retry_seconds(failures, chance)

    assert 0.125 <= delay <= POLICY.retry_last_seconds


async def test_a_closed_queue_ends_workers_and_accepts_no_keys(
    queue: WorkQueue[str], time: Time
) -> None:
    queue.schedule("later", 1)
    worker = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)

    queue.close()
    queue.add("a")
    time.advance(2)

    with pytest.raises(Closed):
        await worker
    assert queue.depth == 0


async def test_the_age_of_the_oldest_key_is_measured(queue: WorkQueue[str], time: Time) -> None:
    assert queue.oldest_seconds == 0
    queue.add("a")
    time.advance(3)
    queue.add("b")

    assert queue.oldest_seconds == 3
