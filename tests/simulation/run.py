"""Plays seeds and prints the failing ones: `python tests/simulation/run.py [--help]`."""

import argparse
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

from simulation.history import Outcome, play
from simulation.world import Errors

COLLECT_EACH = 25
"""Seeds between collections of garbage."""


def prepare() -> Errors:
    """Prepare this process for many seeds, and keep the operators' error logs."""
    errors = Errors()
    root = logging.getLogger()
    root.handlers[:] = [errors]
    root.setLevel(logging.ERROR)
    logging.disable(logging.WARNING)
    gc.collect()
    gc.freeze()
    gc.disable()
    return errors


def play_seed(seed: int, errors: Errors) -> Outcome:
    """Return the outcome of a seed; an exception in the simulation is a failure."""
    errors.lines.clear()
    began = time.process_time()
    try:
        outcome = play(seed)
    except Exception:  # noqa: BLE001 -- shown with its seed
        outcome = Outcome(seed, [traceback.format_exc()])
    outcome.failures += [f"the operator logs an error: {each}" for each in errors.lines]
    if seed % COLLECT_EACH == 0:
        gc.collect()
    outcome.cpu_seconds = time.process_time() - began
    return outcome


def play_part(seeds: range) -> list[Outcome]:
    """Return the outcomes of several seeds, without histories."""
    global _errors  # noqa: PLW0603 -- one for each process of the pool
    if _errors is None:
        _errors = prepare()
    outcomes = [play_seed(seed, _errors) for seed in seeds]
    for outcome in outcomes:
        outcome.history = []
    return outcomes


_errors: Errors | None = None


def parts_of(first: int, seeds: int) -> list[range]:
    """Split the seeds into groups of ten, one per task of a process pool."""
    return [range(at, min(at + 10, first + seeds)) for at in range(first, first + seeds, 10)]


def play_all(first: int, seeds: int, processes: int) -> Iterator[Outcome]:
    """Return the outcomes of many seeds, in order."""
    parts = parts_of(first, seeds)
    if processes == 1:
        yield from itertools.chain.from_iterable(map(play_part, parts))
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from itertools.chain.from_iterable(pool.imap(play_part, parts))


def command(seed: int) -> str:
    """Return the command that replays a seed."""
    return f"python tests/simulation/run.py --seed {seed}"


def main() -> int:
    """Return 0 if all properties hold for every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, help="play one seed and print its history")
    parser.add_argument("--first", type=int, default=0, help="the first of many seeds")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args()
    if options.seed is not None:
        outcome = play_seed(options.seed, prepare())
        print("\n".join([*outcome.history, *(f"FAILED {each}" for each in outcome.failures)]))
        return 1 if outcome.failures else 0
    began, failed, writes, simulated, cpu = time.monotonic(), 0, 0, 0.0, 0.0
    for outcome in play_all(options.first, options.seeds, options.processes):
        writes, simulated = writes + outcome.writes, simulated + outcome.seconds
        cpu += outcome.cpu_seconds
        if outcome.failures:
            failed += 1
            failures = "\n    ".join(each[-2000:] for each in outcome.failures[:5])
            print(f"FAILED {command(outcome.seed)}\n    {failures}", flush=True)
    spent = time.monotonic() - began
    print(
        f"{options.seeds} seeds, {failed} failed, {writes} writes, "
        f"{simulated / 3600:.0f} simulated hours in {spent:.0f} s, "
        f"{1000 * cpu / options.seeds:.1f} ms of CPU per seed"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    if "PYTHONHASHSEED" not in os.environ:  # the order of sets is part of a history
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)
    sys.exit(main())
