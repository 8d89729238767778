"""Changes of readiness without an operator: a status for each, by the process that makes them.

Cases as those of `cases`. It shows what so many writes come to on this machine. It is no floor:
the operator is a process of its own.
"""

import asyncio
from functools import partial

from moorage_benchmarks.scale import objects
from moorage_benchmarks.scale.cases import Figures, at_rest, flips, grow
from moorage_benchmarks.scale.world import World


async def changes_by_hand(world: World, count: int, seconds: float, *, a_second: int) -> Figures:
    """As `changes`, but one write follows each change that this process sees, at once.

    The operator does not run meanwhile.
    """
    prefix = f"by-hand-{a_second}"
    await grow(world, prefix, count, replicas=1)
    names = [f"{prefix}-{number}" for number in range(count)]
    await world.operator.stop()
    news: dict[str, str] = {}
    writing: dict[str, asyncio.Task[None]] = {}

    async def write(pod: str) -> None:
        named = world.pods.bodies[pod]["metadata"]
        while (ready := news.pop(pod, None)) is not None:
            await world.report_model(partial(objects.model_status, named, ready))
        del writing[pod]

    def follow(pod: str, ready: str) -> None:
        news[pod] = ready
        if pod not in writing:  # else what is being written is followed by this
            writing[pod] = asyncio.ensure_future(write(pod))

    world.pods.follow = follow
    try:
        found = await flips(world, names, seconds, a_second=a_second)
        await asyncio.gather(*writing.values())
    finally:
        world.pods.follow = None
        await world.operator.start()
    await at_rest(world)  # what it says of those models now stands in nobody's way
    return found
