import asyncio
import os
import signal

import pytest

from moorage_operator.process.lifecycle import Lifecycle


async def test_a_signal_ends_the_process_in_order() -> None:
    lifecycle = Lifecycle()
    lifecycle.end_on_signals()
    lifecycle.spawn(asyncio.Event().wait(), "forever")  # type: ignore[arg-type]

    os.kill(os.getpid(), signal.SIGTERM)

    assert await lifecycle.stopped()
    await lifecycle.cancel()


async def test_a_task_that_ends_by_itself_ends_the_process_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise ValueError("broken")

    lifecycle = Lifecycle()
    lifecycle.spawn(asyncio.Event().wait(), "forever")  # type: ignore[arg-type]
    lifecycle.spawn(fail(), "poller")

    assert not await lifecycle.stopped()
    await lifecycle.cancel()

    [record] = caplog.records
    assert (record.message, record.__dict__["task"]) == ("background task ended", "poller")


async def test_a_signal_during_the_start_cancels_the_start_and_all_tasks() -> None:
    ended: list[str] = []

    async def forever(name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    async def start() -> None:
        lifecycle.spawn(forever("watch"), "watch")
        await asyncio.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        await forever("start")

    lifecycle = Lifecycle()
    lifecycle.end_on_signals()

    assert not await lifecycle.unless_stopped(start())
    assert sorted(ended) == ["start", "watch"]


async def test_waiting_for_a_future_stops_when_a_task_ends() -> None:
    async def end() -> None:
        return

    lifecycle = Lifecycle()
    lifecycle.spawn(end(), "reflector")
    awaited = asyncio.ensure_future(asyncio.Event().wait())

    assert not await lifecycle.unless_one_ends(awaited)
    await asyncio.wait([awaited])
    assert awaited.cancelled()


async def test_a_drain_waits_for_the_tasks_with_its_prefix_and_no_others() -> None:
    ended: list[str] = []

    async def end() -> None:
        await asyncio.sleep(0)
        ended.append("worker")

    lifecycle = Lifecycle()
    lifecycle.spawn(end(), "worker 0")
    lifecycle.spawn(asyncio.Event().wait(), "watch")  # type: ignore[arg-type]

    async with asyncio.timeout(10):
        await lifecycle.drain("worker", 60)

    assert ended == ["worker"]
    await lifecycle.cancel()
