"""What the machine can do at most where readiness changes: a write for each, by nobody who thinks.

Cases as those of `cases`, of which `by_hand` is the floor of a burst.
"""

import asyncio
from typing import Any

from moorage_benchmarks.scale import objects
from moorage_benchmarks.scale.cases import Figures, flips, grow
from moorage_benchmarks.scale.world import World


async def changes_by_hand(world: World, count: int, seconds: float, *, a_second: int) -> Figures:
    """The floor of `changes`: one write follows each change that this process sees, at once.

    The operator does not run meanwhile.
    """
    prefix = f"by-hand-{a_second}"
    await grow(world, prefix, count, replicas=1)
    names = [f"{prefix}-{number}" for number in range(count)]
    await world.operator.stop()
    writing: set[asyncio.Task[Any]] = set()

    def follow(pod: str, status: str) -> None:
        named = world.pods.bodies[pod]["metadata"]
        task = asyncio.ensure_future(
            world.report_model(lambda now: objects.model_status(named, ready=status, now=now))
        )
        writing.add(task)
        task.add_done_callback(writing.discard)

    world.pods.follow = follow
    try:
        found = await flips(world, names, seconds, a_second=a_second)
        await asyncio.gather(*writing)
    finally:
        world.pods.follow = None
        await world.operator.start()
    return found
