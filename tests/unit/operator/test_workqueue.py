import asyncio
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.urgency import Urgency
from moorage_operator.workqueue import (
    CROWD,
    PATIENCE_SECONDS,
    RETRY_LAST_SECONDS,
    TURN,
    Closed,
    WorkQueue,
    bounds_for,
)


class Timer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Time:
    """A clock that moves when told, and calls what is due."""

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


def gather(moments: Mapping[Urgency, float]) -> Callable[[str, Urgency], float]:
    return lambda _, urgency: moments.get(urgency, 0.0)


@pytest.fixture
def queue(time: Time) -> WorkQueue[str]:
    return WorkQueue(call_later=time.call_later, clock=lambda: time.now, jitter=lambda: 1.0)


async def test_keys_come_in_the_order_of_their_first_add(queue: WorkQueue[str]) -> None:
    for key in "abca":
        queue.add(key)

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]
    assert queue.depth == 0


async def test_what_is_urgent_goes_before_routine(queue: WorkQueue[str]) -> None:
    queue.add("c")
    queue.add("b", Urgency.SPEC)
    queue.add("a", Urgency.READINESS)
    assert queue.depth == 3
    assert [queue.waiting(each) for each in Urgency] == [1, 1, 0, 1]

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_neither_readiness_nor_a_new_spec_waits_for_a_flood_of_the_other(
    queue: WorkQueue[str],
) -> None:
    for number in range(4):
        queue.add(f"made {number}", Urgency.SPEC)
        queue.add(f"ready {number}", Urgency.READINESS)
    queue.add("routine")

    taken = [(await queue.get()).split()[0] for _ in range(9)]

    assert taken == ["ready", "made"] * 4 + ["routine"]


async def test_routine_gathers_for_a_moment_and_urgency_does_not_wait_for_it(time: Time) -> None:
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, gather=gather({Urgency.ROUTINE: 0.2})
    )
    for key in "aabb":
        queue.add(key)
    queue.add("b", Urgency.READINESS)
    assert queue.depth == 1
    assert await queue.get() == "b"
    queue.done("b")

    time.advance(0.2)

    assert queue.depth == 1
    assert await queue.get() == "a"
    queue.add("a")
    queue.done("a")
    assert queue.depth == 0
    time.advance(0.2)
    assert queue.depth == 1


async def test_what_is_more_urgent_shortens_the_moment_and_what_is_less_does_not_lengthen_it(
    time: Time,
) -> None:
    moments = {Urgency.READINESS: 0.005, Urgency.ROUTINE: 0.5}
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, gather=gather(moments)
    )
    queue.add("a")
    time.advance(0.1)
    queue.add("a", Urgency.READINESS)
    queue.add("a")
    time.advance(0.004)
    queue.add("a", Urgency.READINESS)
    assert queue.depth == 0

    time.advance(0.002)
    assert queue.waiting(Urgency.READINESS) == 1
    assert await queue.get() == "a"

    queue.done("a")
    time.advance(1.0)
    assert queue.depth == 0


async def test_a_key_whose_time_has_come_does_not_gather(time: Time) -> None:
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, gather=gather({Urgency.ROUTINE: 0.2})
    )
    queue.schedule("a", 1.0)

    time.advance(1.0)

    assert queue.depth == 1


@pytest.mark.parametrize("then", [Urgency.SPEC, Urgency.FOLLOWING, Urgency.ROUTINE])
async def test_what_ends_the_moment_of_a_more_urgent_change_leaves_it_as_urgent(
    time: Time, then: Urgency
) -> None:
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later,
        clock=lambda: time.now,
        gather=gather({Urgency.READINESS: 0.05}),
    )
    if then is Urgency.ROUTINE:
        queue.schedule("a", 0.02)  # a timer adds it so
    queue.add("a", Urgency.READINESS)

    time.advance(0.02)
    queue.add("a", then)

    assert queue.waiting(Urgency.READINESS) == queue.depth == 1
    time.advance(0.05)
    assert queue.depth == 1


async def test_the_last_change_that_a_key_waits_for_ends_its_moment(time: Time) -> None:
    waited_for = {"a"}
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later,
        clock=lambda: time.now,
        gather=lambda key, _: 0.1 if key in waited_for else 0.0,
    )
    queue.add("a", Urgency.READINESS)
    time.advance(0.01)
    queue.add("a", Urgency.READINESS)
    assert queue.depth == 0

    waited_for.clear()
    queue.add("a", Urgency.READINESS)

    assert queue.waiting(Urgency.READINESS) == 1
    assert await queue.get() == "a"
    queue.done("a")
    time.advance(1.0)
    assert queue.depth == 0


async def waits(taking: asyncio.Future[str]) -> bool:
    await asyncio.sleep(0)
    return not taking.done()


async def test_a_lane_at_its_bound_leaves_workers_for_the_rest(time: Time) -> None:
    bounds = {Urgency.SPEC: 2}
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, bounds=bounds
    )
    for key in "abc":
        queue.add(key, Urgency.SPEC)
    assert [await queue.get() for _ in range(2)] == ["a", "b"]
    third = asyncio.ensure_future(queue.get())
    assert await waits(third)

    queue.add("pod")
    assert await third == "pod"
    fourth = asyncio.ensure_future(queue.get())
    assert await waits(fourth)
    queue.done("pod")
    assert await waits(fourth)

    queue.done("a")
    assert await fourth == "c"


async def test_what_follows_shares_the_bound_of_what_is_new_until_that_is_done(time: Time) -> None:
    bounds = {Urgency.SPEC: 2, Urgency.FOLLOWING: 3}
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, bounds=bounds
    )
    for key in "abc":
        queue.add(key, Urgency.SPEC)
    for key in "1234":
        queue.add(key, Urgency.FOLLOWING)
    taking = [asyncio.ensure_future(queue.get()) for _ in range(8)]

    async def taken() -> str:
        for _ in range(20):
            await asyncio.sleep(0)
        return "".join(sorted(each.result() for each in taking if each.done()))

    assert await taken() == "ab"
    queue.done("a")
    assert await taken() == "abc"
    queue.done("b")
    assert await taken() == "1abc"
    queue.done("c")
    assert await taken() == "123abc"
    queue.done("1")
    assert await taken() == "1234abc"
    for each in taking:
        each.cancel()


def test_no_lane_has_all_workers() -> None:
    bounds = bounds_for(32)

    assert bounds.keys() == set(Urgency)
    assert max(bounds.values()) < CROWD * 32
    assert all(bounds_for(1).values())


async def test_a_key_waits_once_in_the_most_urgent_lane_that_was_named(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    queue.add("b", Urgency.SPEC)
    queue.add("a", Urgency.READINESS)
    queue.add("a", Urgency.SPEC)

    assert [await queue.get() for _ in range(2)] == ["a", "b"]
    assert queue.depth == 0


async def test_the_urgency_of_what_happens_while_a_key_runs_is_kept(
    queue: WorkQueue[str],
) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a", Urgency.READINESS)
    queue.add("a", Urgency.ROUTINE)
    queue.add("b")

    queue.done("a")

    assert await queue.get() == "a"


async def test_what_follows_waits_for_all_that_is_new_and_not_for_readiness(
    queue: WorkQueue[str],
) -> None:
    for number in range(2):
        queue.add("routine")
        queue.add(f"following {number}", Urgency.FOLLOWING)
        queue.add(f"ready {number}", Urgency.READINESS)
        queue.add(f"ready {number} too", Urgency.READINESS)
    queue.add("made", Urgency.SPEC)

    taken = [(await queue.get()).split()[0] for _ in range(8)]

    expected = ["ready", "made", "ready", "following", "ready", "following", "ready", "routine"]
    assert taken == expected


@pytest.mark.parametrize(
    ("lane", "flood"),
    [(Urgency.ROUTINE, Urgency.READINESS), (Urgency.FOLLOWING, Urgency.SPEC)],
)
async def test_no_lane_waits_for_ever(
    queue: WorkQueue[str], time: Time, lane: Urgency, flood: Urgency
) -> None:
    queue.add("patient", lane)
    time.advance(PATIENCE_SECONDS[lane] + 0.1)
    for number in range(2 * TURN):
        queue.add(f"urgent {number}", flood)

    taken = [await queue.get() for _ in range(TURN)]

    assert taken[-1] == "patient"
    assert queue.oldest_seconds == 0


async def test_a_key_added_while_it_runs_runs_once_more(queue: WorkQueue[str]) -> None:
    queue.add("a")
    await queue.get()
    queue.add("a")
    queue.add("a")
    assert queue.depth == 0

    queue.done("a")

    assert await queue.get() == "a"
    queue.done("a")
    assert queue.depth == 0


async def test_a_key_that_rests_runs_once_afterwards_and_others_meanwhile(time: Time) -> None:
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later,
        clock=lambda: time.now,
        rest=lambda key: 1.0 if key == "large" else 0.0,
    )
    queue.add("large")
    await queue.get()
    queue.add("large")
    queue.done("large")
    queue.add("large")
    queue.add("small")

    assert await queue.get() == "small"
    assert queue.depth == 0
    time.advance(1.0)
    assert await queue.get() == "large"
    assert queue.depth == 0


async def test_a_key_that_has_rested_runs_at_once(time: Time) -> None:
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: time.now, rest=lambda _: 1.0
    )
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


async def test_a_cancelled_worker_takes_no_key_along(queue: WorkQueue[str]) -> None:
    first, second = (asyncio.ensure_future(queue.get()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)

    queue.add("a")

    assert await second == "a"


async def test_a_scheduled_key_comes_when_it_is_due(queue: WorkQueue[str], time: Time) -> None:
    queue.schedule("a", 5)
    time.advance(4.9)
    assert queue.depth == 0

    time.advance(0.2)

    assert queue.depth == 1


async def test_a_later_schedule_replaces_the_earlier_one(
    queue: WorkQueue[str], time: Time
) -> None:
    queue.schedule("a", 1)
    queue.schedule("a", None)

    time.advance(2)

    assert queue.depth == 0


async def test_retries_back_off_and_success_forgets_them(queue: WorkQueue[str]) -> None:
    assert [queue.retry("a") for _ in range(4)] == [0.25, 0.5, 1.0, 2.0]

    queue.forget("a")

    assert queue.retry("a") == 0.25


async def test_a_retry_waits_as_long_as_the_server_asks(queue: WorkQueue[str]) -> None:
    assert queue.retry("a", least_seconds=7) == 7


@given(failures=st.integers(1, 60), chance=st.floats(0, 1, exclude_max=True))
def test_retry_delays_stay_within_their_bounds(failures: int, chance: float) -> None:
    time = Time()
    queue: WorkQueue[str] = WorkQueue(
        call_later=time.call_later, clock=lambda: 0.0, jitter=lambda: chance
    )

    delays = [queue.retry("a") for _ in range(failures)]

    assert all(0.125 <= delay <= RETRY_LAST_SECONDS for delay in delays)


async def test_closing_ends_workers_and_lets_nothing_in(queue: WorkQueue[str], time: Time) -> None:
    queue.schedule("later", 1)
    worker = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)

    queue.close()
    queue.add("a")
    time.advance(2)

    with pytest.raises(Closed):
        await worker
    assert queue.depth == 0


async def test_the_oldest_key_tells_how_long_it_waits(queue: WorkQueue[str], time: Time) -> None:
    assert queue.oldest_seconds == 0
    queue.add("a")
    time.advance(3)
    queue.add("b")

    assert queue.oldest_seconds == 3
