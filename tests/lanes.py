"""Runs all tests in two lanes beside each other: `python tests/lanes.py [--session-timeout N]`.

The first lane tests on real pods, which mostly means waiting for them. The second lane runs what
bears that company, at a lower priority. Tests that measure latencies come last in the first lane.
One lane after the other would take half as long again. Each lane is one pytest session; the second
one's output follows the first one's, and the last line sums them up.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BESIDE = (
    "unit",
    "contract",
    "localcluster",
    "simulation",
    "fuzz",
    "storage",
    "conformance",
    "integration",
)
"""Folders of the second lane."""

MEASURING = ("conformance/test_hostile.py", "integration/test_hostile_servers.py")
"""Files of these folders that are in the first lane: they compare latencies with limits."""

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


def first() -> list[str]:
    """Arguments of pytest for the first lane: all folders that the second does not have.

    A new folder is thus tested without an edit. Tests on real pods come first: they bear other
    work best, and take about as long as the second lane.
    """
    tests = (each.relative_to(ROOT / "tests") for each in (ROOT / "tests").rglob("test_*.py"))
    folders = {each.parts[0] for each in tests} - {*BESIDE}
    ordered = sorted(folders, key=lambda name: (name != "e2e", name))
    return [f"tests/{each}" for each in (*ordered, *MEASURING)]


def second() -> list[str]:
    """Arguments of pytest for the second lane."""
    return [
        *(f"tests/{each}" for each in BESIDE),
        *(f"--ignore=tests/{each}" for each in MEASURING),
    ]


def main() -> int:
    """The exit status: 0 if both lanes ran tests and all of them passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--session-timeout", type=int, default=4900, help="seconds for each lane")
    options = parser.parse_args()
    timeout = f"--session-timeout={options.session_timeout}"
    pytest = [sys.executable, "-m", "pytest", timeout, "--durations=25", "--durations-min=10"]

    with tempfile.TemporaryFile("w+", encoding="utf-8") as written:
        beside = subprocess.Popen(
            [*pytest, "-p", "no:cacheprovider", *second()],
            cwd=ROOT,
            stdout=written,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.nice(NICENESS),  # noqa: PLW1509 -- no thread was started before
        )
        shown, status = followed([*pytest, *first()])
        status = beside.wait() or status
        written.seek(0)
        output = written.read()
    print(output)
    lanes = [counts(shown), counts(output)]
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
