#!/usr/bin/env python3
"""`make bench-gate`: measure quickly, compare ratios with gate.json, fail by name what got worse.

    runtime and grpc, short -> moorage_benchmarks.gate -> table, exit status

With --calibrate N it measures N times and writes gate.json instead: the limits are those of a
machine, so a gate that is to be relied on is calibrated where it runs.
"""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from moorage_benchmarks import gate, grpc_transports, machine, throughput
from moorage_benchmarks.programs import BenchmarkError

LIMITS = Path(__file__).resolve().parent / "gate.json"
ROUNDS, SECONDS = 3, 1
CANNOT_MEASURE = 2


def main() -> int:
    """0 when nothing got worse, 1 when something did, 2 when that could not be found out."""
    parser = argparse.ArgumentParser(prog="gate.py", description="Has the runtime become slower?")
    parser.add_argument(
        "--calibrate",
        type=int,
        choices=range(1, 21),
        metavar="RUNS",
        help="measure so many times (1 to 20) and write gate.json",
    )
    options = parser.parse_args()
    try:
        if options.calibrate:
            runs = [_measure() for _ in range(options.calibrate)]
            limits = gate.calibrate(runs)
            LIMITS.write_text(gate.encode(limits, machine.facts(), options.calibrate))
            print(gate.as_table(gate.compare(runs[-1], limits)).as_markdown())
            return 0
        limits = gate.parse(LIMITS.read_text())
        verdicts = gate.compare(_measure(), limits)
    except (BenchmarkError, OSError, ValueError) as error:
        print(f"gate.py: {error}", file=sys.stderr)
        return CANNOT_MEASURE
    print(gate.as_table(verdicts).as_markdown())
    failed = [each for each in verdicts if each.outcome in gate.FAILED]
    for each in failed:
        print(f"{each.outcome}: {each.name}", file=sys.stderr)
    return 1 if failed else 0


def _measure() -> Mapping[str, float]:
    runtime = throughput.measure(rounds=ROUNDS, seconds=SECONDS)
    grpc = grpc_transports.measure(rounds=ROUNDS, seconds=SECONDS)
    return gate.ratios(runtime.data, grpc.data)


if __name__ == "__main__":
    sys.exit(main())
