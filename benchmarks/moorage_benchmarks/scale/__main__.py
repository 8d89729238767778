"""The measurement itself, inside the namespaces of `isolation`: growth, or named cases."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from moorage_benchmarks.programs import BenchmarkError
from moorage_benchmarks.scale import by_hand, cases
from moorage_benchmarks.scale.world import World, world

Act = Callable[[], Awaitable[dict[str, Any]]]


def _tell(what: str, found: Any) -> Any:
    print(f"{what}: {json.dumps(found)}", file=sys.stderr, flush=True)
    return found


async def _sizes(made: World, sizes: Sequence[int], idle_seconds: float) -> dict[str, Any]:
    found: dict[str, Any] = {}
    there = 0
    for size in sizes:
        grown = await cases.grow(made, f"to-{size}", size - there)
        there = size
        rest = await cases.idle(made, idle_seconds)
        found[str(size)] = _tell(f"{size} models", {"grow": grown, "idle": rest})
    found["restart"] = _tell("restart", await cases.restart(made, there))
    return found


def _acts(made: World, options: argparse.Namespace) -> Mapping[str, Act]:
    """Every case by its name."""
    names = [f"single-{number}" for number in range(options.changing)]
    quarter = len(names) // 4
    crashing, hung = names[:quarter], names[quarter : 3 * quarter]
    seconds, rate = options.change_seconds, options.changes_a_second
    return {
        # The API server compiles the schema of the CRD at its first use, for 2 s.
        "first": lambda: cases.grow(made, "first", 1),
        "burst_by_hand": lambda: by_hand.burst_by_hand(made, options.burst),
        "burst": lambda: cases.grow(made, "burst", options.burst),
        "single": lambda: cases.grow(made, "single", len(names), replicas=1),
        "changes_by_hand": lambda: by_hand.changes_by_hand(made, names, seconds, a_second=rate),
        "changes": lambda: cases.changes(made, names, seconds, a_second=rate),
        "crashes": lambda: cases.crashes(made, crashing),
        "large": lambda: cases.beside_a_large_one(made, options.small),
        "hung": lambda: cases.beside_hung_ones(made, hung, options.small),
        "bystanders": lambda: cases.bystanders(made, options.bystanders, options.idle_seconds),
    }


async def _cases(made: World, options: argparse.Namespace) -> dict[str, Any]:
    acts = _acts(made, options)
    found: dict[str, Any] = {}
    for case in options.cases:
        load = os.getloadavg()[0]
        found[case] = _tell(case, {"load_average": load, **await acts[case]()})
    return found


async def _measure(options: argparse.Namespace) -> dict[str, Any]:
    async with world(options.folder, options.operator) as made:
        if options.cases:
            return await _cases(made, options)
        return await _sizes(made, options.sizes, options.idle_seconds)


def main() -> int:
    """Measure and write the outcome; 0 when it worked."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--outcome", type=Path, required=True)
    parser.add_argument("--operator", type=Path, required=True)
    parser.add_argument("--idle-seconds", type=float, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--sizes", type=lambda text: [int(part) for part in text.split(",")])
    what.add_argument("--cases", type=lambda text: text.split(","))
    parser.add_argument("--burst", type=int)
    parser.add_argument("--changing", type=int)
    parser.add_argument("--changes-a-second", type=int)
    parser.add_argument("--change-seconds", type=float)
    parser.add_argument("--small", type=int)
    parser.add_argument("--bystanders", type=int)
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
