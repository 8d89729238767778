"""Fuzzes every target for a time or a number of inputs, and counts the inputs.

    python tests/fuzz/all.py [--seconds N | --inputs N] [--keep] [TARGET ...]

With `--inputs`, the number is divided among the targets. With `--keep`, inputs that reach code
that the corpus in tests/fuzz/corpus does not reach are added to it, the smallest first. The exit
status is that of the first target with a finding.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOUND = ROOT / "build" / "fuzz"
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
# So that the corpus stays small enough to be read and kept.
KEPT_INPUTS = 40
KEPT_BYTES = 512
EXECUTED = re.compile(r"stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    """Run the targets one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--inputs", type=int, default=0, help="for all targets together")
    parser.add_argument("--keep", action="store_true", help="add to tests/fuzz/corpus")
    options = parser.parse_args()
    total = 0
    for name in options.targets:
        share = -(-options.inputs // len(options.targets))
        bound = f"-runs={share}" if options.inputs else f"-max_total_time={options.seconds}"
        count, status = fuzz(name, bound)
        total += count
        print(f"{name}: {count} inputs", flush=True)
        if status:
            return status
        if options.keep:
            keep(name)
    print(f"{total} inputs, no finding", flush=True)
    return 0


def fuzz(name: str, bound: str) -> tuple[int, int]:
    """One target; its inputs, and the exit status of its process."""
    command = [sys.executable, ROOT / "tests" / "fuzz" / "run.py", name, bound]
    done = subprocess.run(
        [*command, "-verbosity=0", "-print_final_stats=1"],
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    counted = EXECUTED.search(done.stderr)
    if done.returncode or counted is None:
        sys.stderr.write(done.stderr)
    return int(counted[1]) if counted else 0, done.returncode or int(counted is None)


def keep(name: str) -> None:
    """Add the smallest of the inputs that were found, up to the corpus's size."""
    folder = CORPUS / name
    folder.mkdir(parents=True, exist_ok=True)
    found = sorted((FOUND / name).iterdir(), key=lambda path: (path.stat().st_size, path.name))
    known = {path.name for path in folder.iterdir()}
    for path in found:
        is_new = path.name not in known and not path.name.startswith("seed-")
        if len(known) < KEPT_INPUTS and is_new and 0 < path.stat().st_size <= KEPT_BYTES:
            (folder / path.name).write_bytes(path.read_bytes())
            known.add(path.name)


if __name__ == "__main__":
    sys.exit(main())
