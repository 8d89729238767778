"""Every fault at every point of every scenario: `python tests/faults/run.py [--help]`."""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

from faults.runs import Report, injections, play, play_all
from faults.scenarios import SCENARIOS, Scenario
from support.testbed.api import Object
from support.testbed.proxy import Injection
from support.testbed.world import World, world

BASELINES = 2
"""The number of runs without a fault whose points are collected, because runs may differ."""


async def run(names: Sequence[str], sample: int, seed: str, at_once: int, only: str) -> Report:
    """The report of a whole suite."""
    report = Report()
    async with world() as made:
        chosen = [
            each
            for each in SCENARIOS
            if (not names or each.name in names) and made.optional.issuperset(each.needs)
        ]
        work: list[tuple[Scenario, Injection, Object]] = []
        for found in await asyncio.gather(*(_baseline(made, each, report) for each in chosen)):
            work += found
        work = [each for each in work if only in str(each[1])]
        if sample:
            work = random.Random(seed).sample(work, min(sample, len(work)))
        print(f"{len(work)} runs, {at_once} at once", flush=True)
        await play_all(made, work, at_once, report)
    return report


async def _baseline(
    made: World, scenario: Scenario, report: Report
) -> list[tuple[Scenario, Injection, Object]]:
    points, state = [], None
    for _ in range(BASELINES):
        outcome = await play(made, scenario, None, state)
        points += [each for each in outcome.points if each not in points]
        state = state or outcome.state
        report.add(outcome)
        if outcome.failures:
            return []
    return [(scenario, each, state or {}) for each in injections(points)]


def main() -> int:
    """The exit status: 0 where every run held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names; all where none is given")
    parser.add_argument("--sample", type=int, default=0, help="so many runs, 0 for all")
    parser.add_argument("--seed", default="0", help="which sample")
    parser.add_argument("--only", default="", help="runs whose description contains this")
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    began = time.monotonic()
    report = asyncio.run(
        run(options.scenarios, options.sample, options.seed, options.at_once, options.only)
    )
    print(report.summary())
    print(f"{len(report.failed)} failed, {time.monotonic() - began:.0f} s, seed {options.seed}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
