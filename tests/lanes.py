"""Runs all tests in two lanes beside each other: `python tests/lanes.py [--session-timeout N]`.

Tests of the first lane mostly wait: for pods, probes and deadlines. Those of the second only
compute, at a lower priority. One after the other, they would take a third longer. Each lane is one
pytest session; the second one's output follows the first one's, and the last line sums them up.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPUTING = ("unit", "contract", "localcluster", "simulation", "fuzz")
"""Folders of the second lane."""

NICENESS = 5
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed|xpassed)\b")
CLOSING = re.compile(r"^=+ (.*\bin [\d.]+s\b.*) =+$", re.MULTILINE)


def counts(output: str) -> Counter[str]:
    """Results by kind, from the closing line of a pytest session; empty without one."""
    closing = CLOSING.findall(output)
    found = COUNT.findall(closing[-1]) if closing else []
    return Counter({kind.removesuffix("s"): int(number) for number, kind in found})


def closing_line(lanes: list[Counter[str]]) -> str:
    """The sum of all lanes."""
    total = sum(lanes, Counter[str]())
    failed = total["failed"] + total["error"] + total["xpassed"]
    return f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped"


def waiting() -> list[str]:
    """Folders of the first lane: all others, so that a new folder is tested without an edit.

    Tests on real pods come first. They bear other work best, and outlast the second lane; those
    behind them measure latencies.
    """
    tests = (each.relative_to(ROOT / "tests") for each in (ROOT / "tests").rglob("test_*.py"))
    found = {each.parts[0] for each in tests} - {*COMPUTING}
    return sorted(found, key=lambda name: (name != "e2e", name))


def paths(folders: Iterable[str]) -> list[str]:
    """Arguments of pytest."""
    return [f"tests/{each}" for each in folders]


def main() -> int:
    """The exit status: 0 if both lanes ran tests and all of them passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--session-timeout", type=int, default=4900, help="seconds for each lane")
    options = parser.parse_args()
    pytest = [sys.executable, "-m", "pytest", f"--session-timeout={options.session_timeout}"]

    with tempfile.TemporaryFile("w+", encoding="utf-8") as second:
        computing = subprocess.Popen(
            [*pytest, "-p", "no:cacheprovider", *paths(COMPUTING)],
            cwd=ROOT,
            stdout=second,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.nice(NICENESS),  # noqa: PLW1509 -- no thread was started before
        )
        first, status = followed([*pytest, *paths(waiting())])
        status = computing.wait() or status
        second.seek(0)
        output = second.read()
    print(output)
    lanes = [counts(first), counts(output)]
    print(closing_line(lanes))
    return status or int(not all(lanes))


def followed(command: list[str]) -> tuple[str, int]:
    """Output and exit status of a command whose output appears as it is written."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        lines: list[str] = []
        # Character by character, since pytest completes a line of dots only after many tests.
        while piece := process.stdout.read(1):
            sys.stdout.write(piece)
            sys.stdout.flush()
            lines.append(piece)
    return "".join(lines), process.returncode


if __name__ == "__main__":
    sys.exit(main())
