"""Starts of the operator: with nothing to do, and again when all models are as they should be.

Cases as those of `cases`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from moorage_benchmarks import figures, memory, procfs, programs
from moorage_benchmarks.scale import minimal_operator
from moorage_benchmarks.scale.cases import QUIET_SECONDS, READY_SECONDS, at_rest
from moorage_benchmarks.scale.operator_process import Usage
from moorage_benchmarks.scale.world import World

Figures = dict[str, Any]
T = TypeVar("T")

STARTS = 5


async def empty(world: World, python: Path) -> Figures:
    """What the operator takes to be ready without a model, beside its libraries alone, in turns.

    Args:
        world: Where the operator runs; there are no models yet.
        python: Interpreter of the operator's environment.
    """
    operators: list[float] = []
    libraries: list[float] = []
    for _ in range(STARTS):
        libraries.append(await asyncio.to_thread(_libraries, python, procfs.cpu_seconds))
        await world.operator.stop()
        await world.operator.start()
        operators.append((await world.operator.usage()).cpu)
    rest = await at_rest(world)
    held = await asyncio.to_thread(_libraries, python, memory.at_rest)
    return {
        "cpu_seconds_until_ready": figures.median(operators),
        "rss_bytes": rest.rss,
        "libraries_cpu_seconds": figures.median(libraries),
        "libraries_rss_bytes": held.rss,
    }


async def restart(world: World, models: int) -> Figures:
    """End the operator and start it again; consistent is when each model had its pass."""
    await world.operator.stop()
    began = await world.operator.start()
    usage = await world.operator.usage()
    while not _consistent(usage, models):
        if usage.at - began > READY_SECONDS:
            raise TimeoutError("the restarted operator does not come to rest")
        await asyncio.sleep(0.5)
        usage = await world.operator.usage()
    await asyncio.sleep(QUIET_SECONDS)
    settled = await world.operator.usage()
    return {
        "models": models,
        "consistent_seconds": usage.at - began,
        "operator_cpu_seconds": usage.cpu,
        "rss_bytes": settled.rss,
        "api_requests": settled.requests,
        "api_writes": settled.writes,
        "api_requests_by_kind": settled.requests_by_kind(),
    }


def _libraries(python: Path, look: Callable[[int], T]) -> T:
    """What is seen of a process, by its id, that has just imported the operator's libraries."""
    words = [str(python), minimal_operator.__file__]
    with programs.process(words, minimal_operator.IMPORTED) as (pid, _):
        return look(pid)


def _consistent(usage: Usage, models: int) -> bool:
    return (
        usage.passes >= models
        and usage.total("moorage_queue_depth") == 0
        and usage.total("moorage_models") == models
    )
