"""Measures how many changed programs the tests notice, module by module.

    python tests/mutation/run.py [MODULE ...]

Each module of modules.toml is copied and changed in one place at a time ("mutants"), and its tests
run against every mutant. A mutant that passes all of them has survived: either a test is missing,
or the mutant does the same as the original and stands in survivors.toml with the reason. The exit
status is 1 if a mutant survives that is not listed, or if a listed one does not survive.

Only the bodies of functions are changed; constants, class bodies and decorated functions are not.
Each mutant runs in a fork of a process that has imported the tests and run them once. A test must
not rest on values that were made at import, nor on what a cache has kept from the first run: the
original program made those.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests" / "mutation"
WORK = ROOT / "build" / "mutation" / "work"
# The folders of the packages are left out, so that no test can import the unchanged program.
LEFT_OUT = {"operator", "runtime", "cli", "pyproject.toml"}
PACKAGES = {"moorage_operator": "operator", "moorage_runtime": "runtime"}
# How mutmut's meta file names the end of a mutant: the exit status of its tests.
SURVIVED, NO_TESTS, TIMED_OUT = 0, {5, 33}, {-24, 24, 36, 152, 255}
# What a mutant's tests may take, as a multiple of what they took before, plus a constant.
TIMEOUT_FACTOR, TIMEOUT_SECONDS = 5.0, 4.0
# The type that a value is cast to has no effect at run time, so its mutants are not counted.
CAST = re.compile(r'\bcast\(("[^"]*"|[^",]+), ')

# As `mutmut show` prints them, which takes a process for each.
DIFFERENCES = """
import json, sys
from mutmut.mutation.diff_apply import get_diff_for_mutant
print(json.dumps({name: get_diff_for_mutant(name) for name in sys.argv[1:]}))
"""


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

    @property
    def is_a_cast(self) -> bool:
        """Whether nothing but the type of a cast is another."""
        return CAST.sub("cast(", self.was) == CAST.sub("cast(", self.becomes)


@dataclass(frozen=True, slots=True)
class Score:
    """What became of a module's mutants.

    Attributes:
        module: As it is imported.
        total: How many mutants there were; those of a cast's type are left out.
        survivors: Those that no test notices.
        timed_out: How many of the others were stopped because their tests took too long.
        seconds: How long the run took.
    """

    module: str
    total: int
    survivors: tuple[Survivor, ...]
    timed_out: int
    seconds: float


def main() -> int:
    """Run the modules one after the other."""
    known = tomllib.loads((HERE / "modules.toml").read_text())
    parser = argparse.ArgumentParser()
    parser.add_argument("modules", nargs="*", help="as in modules.toml; all of them by default")
    modules = parser.parse_args().modules or list(known)
    unknown = [module for module in modules if module not in known]
    if unknown:
        parser.error(f"modules: {', '.join(unknown)} not found in tests/mutation/modules.toml")
    listed = read_listed()
    scores: list[Score] = []
    for module in modules:
        scores.append(measure(module, known[module]))
        report(scores[-1], listed)
    print()
    for score in scores:
        equivalent = sum(each in listed for each in score.survivors)
        killed = score.total - len(score.survivors)
        wanted = score.total - equivalent
        percent = 100 * killed / wanted if wanted else 100.0
        print(
            f"{score.module:44} {killed:5} of {wanted:5} killed {percent:6.1f} %"
            f" ({score.timed_out} by time), {equivalent} equivalent, {score.seconds:.0f} s"
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


def measure(module: str, tests: list[str]) -> Score:
    """Make the mutants of one module and run its tests against each."""
    began = time.monotonic()
    folder = make_folder(module, tests)
    with (folder / "log.txt").open("w") as log:
        command = [sys.executable, "-m", "mutmut", "run", "--max-children", "1"]
        done = subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=False)
    meta = folder / "mutants" / "src" / f"{module.replace('.', '/')}.py.meta"
    if done.returncode or not meta.exists():
        sys.exit(f"{module}: mutmut failed, see {folder / 'log.txt'}")
    ends: dict[str, int | None] = json.loads(meta.read_text())["exit_code_by_key"]
    if None in ends.values():
        sys.exit(f"{module}: some mutants were not run, see {folder / 'log.txt'}")
    alive = [name for name, end in ends.items() if end == SURVIVED or end in NO_TESTS]
    command = [sys.executable, "-c", DIFFERENCES, *alive]
    shown = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True)
    differences: dict[str, str] = json.loads(shown.stdout)
    survivors = [read_survivor(module, name, each) for name, each in differences.items()]
    noticeable = tuple(each for each in survivors if not each.is_a_cast)
    casts = len(survivors) - len(noticeable)
    timed_out = sum(end in TIMED_OUT for end in ends.values())
    return Score(module, len(ends) - casts, noticeable, timed_out, time.monotonic() - began)


def make_folder(module: str, tests: list[str]) -> Path:
    """A copy of the module's package, and links to everything that its tests read."""
    folder = WORK / module
    shutil.rmtree(folder, ignore_errors=True)
    package = module.partition(".")[0]
    source = ROOT / PACKAGES[package] / "src" / package
    skipped = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, folder / "src" / package, ignore=skipped)
    mutants = folder / "mutants"
    mutants.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in LEFT_OUT and not entry.name.startswith("."):
            (mutants / entry.name).symlink_to(entry)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/{module.replace('.', '/')}.py"],
        "pytest_add_cli_args_test_selection": tests,
        "pytest_add_cli_args": ["-p", "no:cacheprovider"],
        "timeout_multiplier": TIMEOUT_FACTOR,
        "timeout_constant": TIMEOUT_SECONDS,
        "use_git_change_detection": False,
        "track_dependencies": False,
    }
    # JSON's lists, strings, numbers and truth values are TOML's.
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    original = (ROOT / "pyproject.toml").read_text()
    (folder / "pyproject.toml").write_text(f"{original}\n[tool.mutmut]\n{lines}")
    return folder


def read_survivor(module: str, name: str, difference: str) -> Survivor:
    """What a mutant changes."""
    lines = [line for line in difference.splitlines() if not line.startswith(("---", "+++"))]
    was, becomes = (
        "\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    # Like moorage_operator.decide.pods.readiness_gates.x_make_gates__mutmut_1, or
    # xǁReaderǁread__mutmut_1 of a class.
    mangled = name.removeprefix(f"{module}.").rpartition("__mutmut_")[0]
    function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
    return Survivor(module, function, was, becomes)


def report(score: Score, listed: dict[Survivor, str]) -> None:
    """Print every survivor that is not listed, as an entry for survivors.toml."""
    for each in score.survivors:
        if each not in listed:
            print(
                "\n[[survivor]]",
                f"module = {toml(each.module)}",
                f"function = {toml(each.function)}",
                f"was = {toml(each.was)}",
                f"becomes = [{toml(each.becomes)}]",
                'reason = ""',
                sep="\n",
            )
    sys.stdout.flush()


def toml(text: str) -> str:
    """A string for survivors.toml, literal where possible."""
    if "'" in text and "\n" not in text and "'''" not in text:
        return f"'''{text}'''" if not text.endswith("'") else json.dumps(text, ensure_ascii=False)
    return f"'''\n{text}'''" if "\n" in text else f"'{text}'"


if __name__ == "__main__":
    sys.exit(main())
