"""Runs all tests in two lanes beside each other: `python tests/lanes.py [--session-timeout N]`.

The first lane fetches from storage servers, then tests on real pods, which mostly means waiting
for them. The second lane runs what bears that company, at a lower priority. One after the other,
they would take half as long again. Tests that measure latencies follow when both have ended. Each
part is one pytest session. The last line sums them up; above it is each cause of failures with
the first test that had it.
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
FIRST = ("storage", "e2e")
"""Folders of the first lane; storage is there so that both lanes end at about the same time."""

BESIDE = (
    "unit",
    "contract",
    "localcluster",
    "simulation",
    "fuzz",
    "conformance",
    "integration",
)
"""Folders of the second lane."""

MEASURING = ("conformance/test_hostile.py", "integration/test_hostile_servers.py")
"""Files of these folders that run alone because they compare latencies with limits."""

NICENESS = 5
COUNT = re.compile(r"(\d+) (passed|failed|skipped|error|errors|xfailed|xpassed)\b")
FAILURE = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+(?:\[.*?\])?)(?: - |$)", re.MULTILINE)
SUMMARY = re.compile(r"^=+ short test summary info =+$", re.MULTILINE)
CAUSES = 20
CAUSE_CHARACTERS = 2000
CLOSING = re.compile(r"^=+ (.*\bin [\d.]+s\b.*) =+$", re.MULTILINE)


def counts(output: str) -> Counter[str]:
    """Results by kind, from the closing line of a pytest session; empty without one."""
    closing = CLOSING.findall(output)
    found = COUNT.findall(closing[-1]) if closing else []
    return Counter({kind.removesuffix("s"): int(number) for number, kind in found})


def causes(output: str) -> dict[str, list[str]]:
    """The tests that failed by what they said, from the summary of a pytest session."""
    summary = SUMMARY.split(output)[-1] if SUMMARY.search(output) else ""
    _, *found = FAILURE.split(CLOSING.split(summary)[0])
    tests: dict[str, list[str]] = {}
    for test, said in zip(found[::2], found[1::2], strict=True):
        tests.setdefault(said.strip(), []).append(test)
    return tests


def closing_causes(outputs: list[str]) -> str:
    """The causes of all failures, so that nobody has to search the output above for them."""
    lines: list[str] = []
    for said, tests in [each for output in outputs for each in causes(output).items()][:CAUSES]:
        others = f" and {len(tests) - 1} other tests" if len(tests) > 1 else ""
        lines.append(f"failed: {tests[0]}{others}\n{said[:CAUSE_CHARACTERS]}\n")
    return "".join(lines)


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
    folders = {each.parts[0] for each in tests} - {*FIRST, *BESIDE}
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
        pods, pods_status = followed([*pytest, *(f"tests/{each}" for each in FIRST)])
        other_status = other.wait()
        written.seek(0)
        others = written.read()
    print(others)
    alone, alone_status = followed([*pytest, *measured()])
    outputs = [pods, others, alone]
    results = [counts(each) for each in outputs]
    print(closing_causes(outputs), end="")
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
