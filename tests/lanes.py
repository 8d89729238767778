"""Runs all tests in two lanes beside each other: `python tests/lanes.py [--session-timeout N]`.

The first lane tests on real pods, which mostly means waiting for them. The second lane runs what
bears that company, at a lower priority. One after the other, they would take half as long again.
Tests that measure latencies follow when both have ended. Each part is one pytest session; the last
line sums them up.
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
PODS = "e2e"
"""The folder of the first lane."""

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
"""Files of these folders that run alone because they compare latencies with limits."""

NICENESS = 5
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed|xpassed)\b")
CLOSING = re.compile(r"^=+ (.*\bin [\d.]+s\b.*) =+$", re.MULTILINE)


def counts(output: str) -> Counter[str]:
    """Results by kind, from the closing line of a pytest session; empty without one."""
    closing = CLOSING.findall(output)
    found = COUNT.findall(closing[-1]) if closing else []
    return Counter({kind.removesuffix("s"): int(number) for number, kind in found})


def closing_line(results: list[Counter[str]]) -> str:
    """The sum of all sessions."""
    total = sum(results, Counter[str]())
    failed = total["failed"] + total["error"] + total["xpassed"]
    return f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped"


def measured() -> list[str]:
    """Arguments of pytest for what runs alone: all folders that no lane has.

    A new folder is thus tested without an edit.
    """
    tests = (each.relative_to(ROOT / "tests") for each in (ROOT / "tests").rglob("test_*.py"))
    folders = {each.parts[0] for each in tests} - {PODS, *BESIDE}
    return [f"tests/{each}" for each in (*sorted(folders), *MEASURING)]


def beside() -> list[str]:
    """Arguments of pytest for the second lane."""
    return [
        *(f"tests/{each}" for each in BESIDE),
        *(f"--ignore=tests/{each}" for each in MEASURING),
    ]


def main() -> int:
    """The exit status: 0 if all sessions ran tests and all of them passed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--session-timeout", type=int, default=4900, help="seconds for each pytest session"
    )
    options = parser.parse_args()
    timeout = f"--session-timeout={options.session_timeout}"
    pytest = [sys.executable, "-m", "pytest", timeout, "--durations=25", "--durations-min=10"]

    with tempfile.TemporaryFile("w+", encoding="utf-8") as written:
        other = subprocess.Popen(
            [*pytest, "-p", "no:cacheprovider", *beside()],
            cwd=ROOT,
            stdout=written,
            stderr=subprocess.STDOUT,
            preexec_fn=lambda: os.nice(NICENESS),  # noqa: PLW1509 -- no thread was started before
        )
        pods, pods_status = followed([*pytest, f"tests/{PODS}"])
        other_status = other.wait()
        written.seek(0)
        others = written.read()
    print(others)
    alone, alone_status = followed([*pytest, *measured()])
    results = [counts(each) for each in (pods, others, alone)]
    print(closing_line(results))
    return int(any((pods_status, other_status, alone_status)) or not all(results))


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
