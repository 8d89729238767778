"""The measurement itself, inside the namespaces of `isolation`: grow, and look at each size."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.scale import cases
from moorage_benchmarks.scale.world import World, world

SMALL = 100
CHANGE_SECONDS = 20.0


def _tell(what: str, found: Any) -> Any:
    print(f"{what}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


async def _sizes(made: World, sizes: list[int], idle_seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    there = 0
    for size in sizes:
        grown = await cases.grow(made, f"to-{size}", size - there)
        there = size
        rest = await cases.idle(made, idle_seconds)
        found[str(size)] = _tell(f"{size} models", {"grow": grown, "idle": rest})
    found["restart"] = _tell("restart", await cases.restart(made, there))
    return found


async def _stress(made: World, options: argparse.Namespace) -> dict[str, Any]:
    names = [f"single-{number}" for number in range(options.changing)]
    quarter = len(names) // 4
    crashing, hung = names[:quarter], names[quarter : 3 * quarter]
    steady = partial(cases.changes, a_second=options.changes_a_second)
    acts: dict[str, Callable[[], Awaitable[dict[str, Any]]]] = {
        "by_hand": lambda: cases.by_hand(made, options.burst),
        "burst": lambda: cases.grow(made, "burst", options.burst),
        "single": lambda: cases.grow(made, "single", len(names), replicas=1),
        "changes": lambda: steady(made, names, CHANGE_SECONDS),
        "crashes": lambda: cases.crashes(made, crashing),
        "large": lambda: cases.beside_a_large_one(made, SMALL),
        "hung": lambda: cases.beside_hung_ones(made, hung, SMALL),
    }
    if options.bystanders:
        acts["bystanders"] = lambda: cases.bystanders(
            made, options.bystanders, options.idle_seconds
        )
    found: dict[str, Any] = {}
    for case, act in acts.items():
        load = os.getloadavg()[0]
        found[case] = _tell(case, {"load_average": load, **await act()})
    return found


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    async with world(options.folder, options.operator) as made:
        if options.stress:
            return await _stress(made, options)
        return await _sizes(made, options.sizes, options.idle_seconds)


def main() -> int:
    """Measure and write the outcome; 0 when it worked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--outcome", type=Path, required=True)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--idle-seconds", type=float, required=True)
    parser.add_argument("--stress", action="store_true")
    parser.add_argument("--burst", type=int)
    parser.add_argument("--changing", type=int)
    parser.add_argument("--changes-a-second", type=int)
    parser.add_argument("--bystanders", type=int, default=0)
    parser.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")])
    options = parser.parse_args()
    try:
        found = asyncio.run(_measure(options))
    except BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    options.outcome.write_text(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
