"""Changes of readiness that the least of programs tells, in place of the operator.

Cases as those of `cases`. They show how soon a status can say so on this machine,
whoever writes it.
"""

import sys
from collections.abc import Sequence

from moorage_benchmarks import programs
from moorage_benchmarks.scale import minimal_teller
from moorage_benchmarks.scale.cases import Figures, at_rest, flips
from moorage_benchmarks.scale.world import World


async def changes_by_hand(
    world: World, names: Sequence[str], seconds: float, *, a_second: int
) -> Figures:
    """As `changes`, told by `minimal_teller`; the operator does not run meanwhile."""
    await at_rest(world)  # what it has still to write stands in nobody's way
    await world.operator.stop()
    words = [sys.executable, "-m", minimal_teller.__name__, str(world.kubeconfig)]
    environment = {"PYTHONPATH": str(programs.ROOT / "benchmarks")}
    try:
        with programs.process(words, minimal_teller.WATCHING, environment):
            found = await flips(world, names, seconds, a_second=a_second)
    finally:
        await world.operator.start()
    await at_rest(world)  # what it says of those models now stands in nobody's way either
    return found
