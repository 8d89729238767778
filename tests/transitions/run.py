"""Random transitions of models: `python tests/transitions/run.py [--help]`."""

import argparse
import asyncio
import json
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "localcluster")]

from support.testbed.operators import Operator
from support.testbed.world import world
from transitions.play import Player, Story, Verdict
from transitions.steps import Generator

LENGTH = 12
"""The average number of steps of a sequence."""

SHRINKS = 40
"""The largest number of runs for shortening a failing sequence."""


class Report:
    """The results of all sequences."""

    def __init__(self) -> None:
        self.sequences = 0
        self.total = Verdict()
        self.failed: list[tuple[str, Story, list[str]]] = []
        self.operator_errors: list[str] = []

    def add(self, name: str, sequence: Story, verdict: Verdict) -> None:
        """Take one sequence's verdict."""
        self.sequences += 1
        self.total.transitions += verdict.transitions
        self.total.refused += verdict.refused
        self.total.ready_seen += verdict.ready_seen
        if verdict.failures:
            self.failed.append((name, sequence, verdict.failures))
            failures = "\n    ".join(each[:400] for each in verdict.failures[:8])
            print(f"FAILED {name}\n    {failures}\n    --replay '{sequence}'", flush=True)
        if self.sequences % 100 == 0:
            print(f"{self.total.transitions} transitions, {len(self.failed)} failed", flush=True)

    def summary(self, seed: str) -> str:
        """One line."""
        total = self.total
        return (
            f"seed {seed}: {total.transitions} transitions in {self.sequences} sequences, "
            f"{total.refused} refused by the API server, Ready=True checked {total.ready_seen} "
            f"times, {len(self.failed)} sequences failed"
        )


async def run(seed: str, transitions: int, at_once: int, *, shrink: bool = True) -> Report:
    """Play sequences until this many transitions were made."""
    report = Report()
    async with world() as made:
        operator = Operator(made.kubeconfig, made.folder / "operator.log")
        await operator.start()
        await operator.ready()
        player = Player(made)
        await player.write_runtimes()
        numbers = iter(range(1_000_000))

        async def worker() -> None:
            while report.total.transitions < transitions:
                number = next(numbers)
                sequence = sequence_of(seed, number)
                report.add(f"{seed}/{number}", sequence, await player.play(sequence))

        await asyncio.gather(*(worker() for _ in range(at_once)))
        if shrink:
            for name, sequence, failures in report.failed[:3]:
                await _shrink(player, name, sequence, failures)
        ended = [] if operator.is_running else ["the operator ended"]
        report.operator_errors = ended + operator.errors()
        for line in report.operator_errors[:10]:
            print(f"FAILED the operator's log: {line[:600]}", flush=True)
        await operator.stop()
    return report


def sequence_of(seed: str, number: int) -> Story:
    """The sequence of a seed and number."""
    generator = Generator(f"{seed}/{number}")
    length = random.Random(f"{seed}/{number}/length").randrange(4, 2 * LENGTH - 4)
    return Story(generator.sequence(length), generator.last_spec())


async def _shrink(player: Player, name: str, sequence: Story, failures: list[str]) -> None:
    """Leave out what the failure does not need, in halves and then one by one."""
    oracle = failures[0].split(":")[0]
    runs, size = 0, max(1, len(sequence.steps) // 2)
    while size >= 1 and runs < SHRINKS:
        start = 0
        while start < len(sequence.steps) and runs < SHRINKS:
            steps = sequence.steps[:start] + sequence.steps[start + size :]
            shorter = Story(steps, sequence.last)
            runs += 1
            verdict = await player.play(shorter)
            if any(each.startswith(oracle) for each in verdict.failures):
                sequence, failures = shorter, verdict.failures
            else:
                start += size
        size //= 2
    print(f"SHORTEST {name}, {runs} runs:\n    {sequence}\n    {failures[0][:600]}", flush=True)


async def replay(text: str) -> int:
    """Play one sequence that was printed; the exit status."""
    read = json.loads(text)
    async with world() as made:
        operator = Operator(made.kubeconfig, made.folder / "operator.log")
        await operator.start()
        await operator.ready()
        player = Player(made)
        await player.write_runtimes()
        verdict = await player.play(Story(read["steps"], read["last"]))
        await operator.stop()
    print("\n".join(verdict.failures) or "held")
    return 1 if verdict.failures else 0


def main() -> int:
    """The exit status: 0 where every sequence held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default=str(int(time.time())))
    parser.add_argument("--transitions", type=int, default=10_000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--replay", default="", help="a sequence as it was printed")
    options = parser.parse_args()
    if options.replay:
        return asyncio.run(replay(options.replay))
    began = time.monotonic()
    shrink = not options.no_shrink
    report = asyncio.run(run(options.seed, options.transitions, options.at_once, shrink=shrink))
    print(report.summary(options.seed) + f", {time.monotonic() - began:.0f} s")
    return 1 if report.failed or report.operator_errors else 0


if __name__ == "__main__":
    sys.exit(main())
