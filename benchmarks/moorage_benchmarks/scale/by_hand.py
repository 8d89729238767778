"""Runs cases with the baseline controller instead of the operator: a burst, and readiness changes.

The cases match those of `cases`. They show how soon children and statuses can exist on this
machine, whichever program writes them.
"""

import json
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from moorage_benchmarks import programs
from moorage_benchmarks.scale import clearing, minimal_controller, objects
from moorage_benchmarks.scale.cases import REPLICAS, Figures, at_rest, flips, until_ready
from moorage_benchmarks.scale.world import World


async def changes_by_hand(
    world: World, names: Sequence[str], seconds: float, *, a_second: int
) -> Figures:
    """As `changes`, with the baseline controller; the operator does not run meanwhile."""
    async with _in_place_of_the_operator(world, replicas=1):
        found = await flips(world, names, seconds, a_second=a_second)
    await at_rest(world)  # the operator has corrected these statuses before the next case
    return found


async def burst_by_hand(world: World, count: int) -> Figures:
    """As `grow`, with the baseline controller; everything is deleted afterwards."""
    models = [
        objects.by_hand(objects.model(f"least-{number}", replicas=REPLICAS, number=number))
        for number in range(count)
    ]
    async with _in_place_of_the_operator(world, replicas=REPLICAS):
        found = await until_ready(world, models)
        await clearing.clear(json.loads(world.kubeconfig.read_text()))
    for model in models:
        world.models.forget(model["metadata"]["name"])
    return found


@asynccontextmanager
async def _in_place_of_the_operator(world: World, *, replicas: int) -> AsyncGenerator[None]:
    await at_rest(world)  # nothing that the operator has yet to write delays the baseline
    await world.operator.stop()
    words = [sys.executable, "-m", minimal_controller.__name__, str(world.kubeconfig)]
    environment = {"PYTHONPATH": str(programs.ROOT / "benchmarks")}
    try:
        with programs.process([*words, str(replicas)], minimal_controller.WATCHING, environment):
            yield
    finally:
        await world.operator.start()
