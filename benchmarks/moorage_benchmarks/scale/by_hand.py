"""What the least of programs does in place of the operator: a burst, and changes of readiness.

Cases as those of `cases`. They show how soon children can be there, and a status can say so, on
this machine, whoever makes and writes them.
"""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from moorage_benchmarks import programs
from moorage_benchmarks.scale import clearing, minimal_controller, minimal_teller, objects
from moorage_benchmarks.scale.cases import REPLICAS, Figures, at_rest, flips, until_ready
from moorage_benchmarks.scale.world import World


async def changes_by_hand(
    world: World, names: Sequence[str], seconds: float, *, a_second: int
) -> Figures:
    """As `changes`, told by `minimal_teller`; the operator does not run meanwhile."""
    async with _in_place_of_the_operator(world, minimal_teller.__name__):
        found = await flips(world, names, seconds, a_second=a_second)
    await at_rest(world)  # what it says of those models now stands in nobody's way either
    return found


async def burst_by_hand(world: World, count: int) -> Figures:
    """As `grow`, served by `minimal_controller`; all of it is taken away again."""
    models = [
        objects.by_hand(objects.model(f"least-{number}", replicas=REPLICAS, number=number))
        for number in range(count)
    ]
    async with _in_place_of_the_operator(world, minimal_controller.__name__, str(REPLICAS)):
        found = await until_ready(world, models)
        await clearing.clear(json.loads(world.kubeconfig.read_text()))
    for model in models:
        world.models.forget(model["metadata"]["name"])
    return found


@asynccontextmanager
async def _in_place_of_the_operator(
    world: World, module: str, *arguments: str
) -> AsyncGenerator[None]:
    await at_rest(world)  # what it has still to write stands in nobody's way
    await world.operator.stop()
    words = [sys.executable, "-m", module, str(world.kubeconfig), *arguments]
    environment = {"PYTHONPATH": str(programs.ROOT / "benchmarks")}
    try:
        with programs.process(words, minimal_teller.WATCHING, environment):
            yield
    finally:
        await world.operator.start()
