"""Measures how many changed programs the tests notice, module by module.

    python tests/mutation/run.py [--record | --again] [MODULE ...]

Each module of modules.toml is changed in one place at a time ("mutants"), and its tests run
against every mutant. A mutant that passes all of them has survived: either a test is missing, or
the mutant is equivalent to the original, and survivors.toml lists it with the reason. The exit
status is 1 if a mutant survives that is not listed, or if a listed one does not survive.

Only functions are changed; constants and class bodies are not. Each mutant runs in a fork of a
process that has only imported the tests. A test must not rest on values that were made at import:
the original program made those.
"""

import argparse
import datetime as dt
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "mutation"
WORK = ROOT / "build" / "mutation" / "work"
RECORD = HERE / "README.md"
# How pytest ends if its own loop ran no test.
NOTHING_RUN = 5
# A row of the record: date, module, mutants, killed, equivalent, open.
ROW = re.compile(r"\| \d{4}-\d\d-\d\d \| `([\w.]+)` \|.*\|")


@dataclass(frozen=True, slots=True)
class Survivor:
    """A mutant that no test notices.

    Attributes:
        module: Of the mutated function, as it is imported.
        function: The function's name, after that of its class where it has one.
        was: The lines that the mutant removes.
        becomes: The lines that it puts there.
    """

    module: str
    function: str
    was: str
    becomes: str


@dataclass(frozen=True, slots=True)
class Score:
    """What became of a module's mutants.

    Attributes:
        module: As it is imported.
        total: How many mutants there were.
        survivors: Those that no test notices.
        unreached: How many of them change a statement that no test executes.
        timed_out: How many of the others were stopped because their tests took too long.
        equivalent: How many survivors are listed.
        seconds: How long the run took.
    """

    module: str
    total: int
    survivors: tuple[Survivor, ...]
    unreached: int
    timed_out: int
    equivalent: int
    seconds: float

    @property
    def killed(self) -> int:
        """How many mutants a test noticed."""
        return self.total - len(self.survivors)

    @property
    def open(self) -> int:
        """How many mutants survive without a reason."""
        return len(self.survivors) - self.equivalent


def main() -> int:
    """Run the modules one after the other."""
    groups = tomllib.loads((HERE / "modules.toml").read_text())["group"]
    known = [module for group in groups for module in group["modules"]]
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*", help="as in modules.toml; all of them by default")
    parser.add_argument("--record", action="store_true", help="write the scores to README.md")
    parser.add_argument("--again", action="store_true", help="only what survived the last run")
    arguments = parser.parse_args()
    if arguments.record and arguments.again:
        parser.error("--record needs a full run, without --again")
    modules = arguments.modules or known
    unknown = [module for module in modules if module not in known]
    if unknown:
        parser.error(f"modules: {', '.join(unknown)} not found in tests/mutation/modules.toml")
    listed = read_listed()
    scores: list[Score] = []
    for group in groups:
        wanted = [module for module in group["modules"] if module in modules]
        for score in (
            measure(wanted, group["tests"], listed, again=arguments.again) if wanted else ()
        ):
            scores.append(score)
            report(score, listed)
            if arguments.record:
                record(score, known)
    print()
    for score in scores:
        wanted = score.total - score.equivalent
        percent = 100 * score.killed / wanted if wanted else 100.0
        print(
            f"{score.module:52} {score.killed:5} of {wanted:5} killed {percent:6.1f} %"
            f" ({score.timed_out} by time), {score.equivalent} equivalent,"
            f" {score.open} open ({score.unreached} never executed), {score.seconds:.0f} s"
        )
    survivors = {each for score in scores for each in score.survivors}
    gone = [each for each in listed if each.module in modules and each not in survivors]
    for each in gone:
        print(f"listed in survivors.toml, but it does not survive: {each}")
    return int(bool(gone) or not survivors <= set(listed))


def read_listed() -> dict[Survivor, str]:
    """The mutants known to do the same as the original, with the reason."""
    entries = tomllib.loads((HERE / "survivors.toml").read_text()).get("survivor", [])
    return {
        Survivor(each["module"], each["function"], each["was"], becomes): each["reason"]
        for each in entries
        for becomes in each["becomes"]
    }


def measure(
    modules: list[str], tests: list[str], listed: dict[Survivor, str], *, again: bool
) -> Iterator[Score]:
    """Try all mutants of modules that have the same tests."""
    began = time.monotonic()
    WORK.mkdir(parents=True, exist_ok=True)
    options = ["--again"] if again else []
    command = [sys.executable, HERE / "trial.py", *options, WORK, ",".join(modules), *tests]
    log = WORK / f"{modules[0]}.log"
    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=output) as trial,
    ):
        for line in trial.stdout:
            ended = time.monotonic()
            yield read_score(line.decode().strip(), ended - began, listed)
            began = ended
    if trial.returncode not in (0, NOTHING_RUN):
        sys.exit(f"{modules[0]}: the trial of the mutants failed, see {log}")


def read_score(module: str, seconds: float, listed: dict[Survivor, str]) -> Score:
    """The outcome of a module's trial."""
    outcome = json.loads((WORK / f"{module}.json").read_text())
    if outcome["failed"]:
        sys.exit(f"{module}: tests fail without a mutant: {', '.join(outcome['failed'])}")
    mutants = outcome["mutants"]
    broken = [each for each in mutants if each["end"] == "broken"]
    if broken:
        sys.exit(f"{module}: {len(broken)} mutants cannot be tried, such as {broken[0]}")
    alive = [each for each in mutants if each["end"] == "survived"]
    survivors = tuple(
        Survivor(module, each["function"], each["was"], each["becomes"]) for each in alive
    )
    return Score(
        module,
        len(mutants),
        survivors,
        sum(not each["tests"] for each in alive),
        sum(each["end"] == "timed out" for each in mutants),
        sum(each in listed for each in survivors),
        seconds,
    )


def report(score: Score, listed: dict[Survivor, str]) -> None:
    """Print every survivor that is not listed, as an entry for survivors.toml."""
    changes: dict[tuple[str, str], list[str]] = {}
    for each in score.survivors:
        if each not in listed:
            changes.setdefault((each.function, each.was), []).append(each.becomes)
    for (function, was), becomes in changes.items():
        print(
            "\n[[survivor]]",
            f"module = {toml(score.module)}",
            f"function = {toml(function)}",
            f"was = {toml(was)}",
            "becomes = [",
            *(f"    {toml(each)}," for each in becomes),
            "]",
            'reason = ""',
            sep="\n",
        )
    sys.stdout.flush()


def toml(text: str) -> str:
    """A string for survivors.toml, literal where possible."""
    if "'" in text and "\n" not in text and "'''" not in text:
        return f"'''{text}'''" if not text.endswith("'") else json.dumps(text, ensure_ascii=False)
    return f"'''\n{text}'''" if "\n" in text else f"'{text}'"


def record(score: Score, known: list[str]) -> None:
    """Write a module's row into the record, and drop those of modules that are gone."""
    today = dt.datetime.now(tz=dt.UTC).date()
    before, rows = [], {}
    for line in RECORD.read_text().splitlines():
        row = ROW.fullmatch(line)
        if row is None:
            before.append(line)
        elif row[1] in known:
            rows[row[1]] = line
    rows[score.module] = (
        f"| {today} | `{score.module}` | {score.total} | {score.killed}"
        f" | {score.equivalent} | {score.open} |"
    )
    lines = [*before, *(rows[module] for module in sorted(rows))]
    RECORD.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    sys.exit(main())
