#!/usr/bin/env python3
"""`make bench-gate`: measure quickly, compare ratios with gate.json, fail by name what got worse.

    the runtime's measures, short  -> runtime_ratios  -> gate -> table, exit status
    the operator's cases, with few -> operator_ratios -> gate -> table, exit status

With --calibrate N it measures N times and writes gate.json instead: the limits are those of a
machine, so a gate that is to be relied on is calibrated where it runs. With --add N it adds so
many runs to those that are there, on another day or at another hour.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from moorage_benchmarks import (
    batching,
    gate,
    grpc_transports,
    health,
    heavy_requests,
    machine,
    operator_brief,
    operator_ratios,
    runtime_ratios,
    start,
    throughput,
    workers,
)
from moorage_benchmarks.programs import BenchmarkError

LIMITS = Path(__file__).resolve().parent / "gate.json"
ROUNDS, SECONDS = 3, 1
STARTS = 5
HEALTH_ROUNDS = 5
# Some hundred milliseconds each: a server that reads one in one go makes every check wait so long.
HEAVY_BYTES = 16 * 2**20
HEAVY = {"JSON: numbers", "JSON: strings", "TensorFlow: strings", "GRPS: strings"}
WORSE, CANNOT_MEASURE = 1, 2


def main() -> int:
    """0 when nothing got worse, 1 when something did, 2 when that could not be found out."""
    options = make_parser().parse_args()
    parts = [options.only] if options.only else list(PARTS)
    try:
        recorded = gate.parse(LIMITS.read_text())
    except (OSError, ValueError) as error:
        print(f"gate.py: {error}", file=sys.stderr)
        return CANNOT_MEASURE
    if options.calibrate:
        kept = {name: each for name, each in recorded.items() if name not in parts}
        return _record(parts, kept, options.calibrate)
    if options.add:
        return _record(parts, dict(recorded), options.add)
    return _check(parts, recorded)


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="gate.py", description="Has Moorage become slower?")
    parser.add_argument("--only", choices=PARTS, help="measure this part (default: all)")
    recording = parser.add_mutually_exclusive_group()
    for name, what in (("--calibrate", "write gate.json anew"), ("--add", "add to gate.json")):
        recording.add_argument(
            name,
            type=int,
            choices=range(1, 21),
            metavar="RUNS",
            help=f"measure so many times (1 to 20) and {what}",
        )
    return parser


def _check(parts: Sequence[str], recorded: Mapping[str, gate.Recording]) -> int:
    failed = unknown = False
    for part in parts:
        limits = recorded[part].limits if part in recorded else {}
        try:
            measured = PARTS[part]()
        except (BenchmarkError, OSError) as error:
            print(f"gate.py: {part} could not be measured: {error}", file=sys.stderr)
            unknown = True
            continue
        failed |= _tell(gate.compare(measured, limits))
    if failed:
        return WORSE
    return CANNOT_MEASURE if unknown else 0


def _record(parts: Sequence[str], recorded: dict[str, gate.Recording], runs: int) -> int:
    """Measure, and add what was measured to what is recorded of the same machine."""
    facts = machine.facts()
    for part in parts:
        taken = list(recorded[part].runs) if part in recorded else []
        if taken and recorded[part].machine != facts:
            print(
                f"gate.py: gate.json: {part}.machine is {recorded[part].machine}, this one is "
                f"{facts}; record this one with --calibrate",
                file=sys.stderr,
            )
            return CANNOT_MEASURE
        try:
            for number in range(runs):
                print(f"{part}: run {number + 1} of {runs}", file=sys.stderr, flush=True)
                taken.append(gate.Run(datetime.now(UTC).date().isoformat(), PARTS[part]()))
        except (BenchmarkError, OSError) as error:
            print(f"gate.py: {part} could not be measured: {error}", file=sys.stderr)
            return CANNOT_MEASURE
        recorded[part] = gate.Recording(facts, taken)
        LIMITS.write_text(gate.encode(recorded))
        # 0 has no tolerance, so that a run may be outside the limits that it gave.
        limits = recorded[part].limits
        outside = [_tell(gate.compare(run.ratios, limits)) for run in taken[-runs:]]
        if any(outside):
            return WORSE
    return 0


def _tell(verdicts: Sequence[gate.Verdict]) -> bool:
    """Print them; whether one has failed."""
    print(gate.as_table(verdicts).as_markdown(), flush=True)
    failed = [each for each in verdicts if each.outcome in gate.FAILED]
    for each in failed:
        print(f"{each.outcome}: {each.name}", file=sys.stderr)
    return bool(failed)


def _measure_runtime() -> Mapping[str, float]:
    heavy = [each for each in heavy_requests.all_of_them(HEAVY_BYTES) if each.name in HEAVY]
    waits = [
        health.measure(rounds=1, seconds=SECONDS, requests=heavy).data
        for _ in range(HEALTH_ROUNDS)
    ]
    return {
        **runtime_ratios.of_requests(throughput.measure(rounds=ROUNDS, seconds=SECONDS).data),
        **runtime_ratios.of_grpc(grpc_transports.measure(rounds=ROUNDS, seconds=SECONDS).data),
        **runtime_ratios.of_batching(batching.measure(rounds=ROUNDS, seconds=SECONDS).data),
        **runtime_ratios.of_workers(workers.measure(rounds=ROUNDS, seconds=SECONDS).data),
        **runtime_ratios.of_starts(start.measure(rounds=STARTS).data),
        **runtime_ratios.of_health(waits),
    }


def _measure_operator() -> Mapping[str, float]:
    return operator_ratios.of(operator_brief.measure())


PARTS: Mapping[str, Callable[[], Mapping[str, float]]] = {
    "runtime": _measure_runtime,
    "operator": _measure_operator,
}


if __name__ == "__main__":
    sys.exit(main())
