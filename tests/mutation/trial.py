"""Runs the tests of some modules against each of their mutants, in a process of its own.

    python tests/mutation/trial.py [--again] FOLDER MODULE,MODULE TEST ...

The process imports the tests and never runs one. A fork of it runs them all and notes which lines
of the modules each executes. Then a fork for every mutant puts the mutant's code into the
function, wherever that is referred to, and runs the tests that execute the changed statement until
one fails. The first are those that noticed other mutants of the function, then the fastest.

The outcome of each module goes to a file in the folder, and the module's name to standard output.
With --again, mutants that were killed according to that file are not tried.
"""

import ast
import contextlib
import functools
import gc
import importlib
import json
import math
import os
import pickle
import resource
import select
import signal
import sys
import threading
import time
import types
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

import hypothesis
import pytest
from mutants import Mutant, make_mutants

# What a test may take with a mutant, as a multiple of what it took before, plus a constant.
TIMES, CPU_SECONDS, WALL_SECONDS = 5, 2, 20
# How many examples a property tries. A mutant that only more would notice needs a row of its own.
EXAMPLES = 20
# How a fork ends: no test failed, one did, or there is an error in this program.
SURVIVED, KILLED, BROKEN = 0, 1, 70


@dataclass(slots=True)
class Run:
    """What a test did with the unchanged program.

    Attributes:
        failed: Whether it did not pass.
        cpu: How many seconds of a core it took.
        wall: How many seconds it took.
        lines: The lines of the modules that it executed, by file.
    """

    failed: bool = False
    cpu: float = 0.0
    wall: float = 0.0
    lines: dict[str, set[int]] = field(default_factory=dict)


class Trial:
    """A plugin of pytest, which takes the place of its loop over the tests."""

    def __init__(self, folder: Path, modules: list[str], output: TextIO, *, again: bool) -> None:
        self.folder = folder
        self.modules = modules
        self.output = output
        self.again = again
        self.noticed: Counter[tuple[str, str]] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Let properties try the same examples each time, and report failures without delay."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutation",
            hypothesis.settings.get_profile(hypothesis.settings.get_current_profile_name()),
            derandomize=True,
            database=None,
            phases=phases,
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try every mutant and write what became of it."""
        paths = {each: importlib.import_module(each).__file__ for each in self.modules}
        functions = _functions(set(paths.values()))
        _limit_examples(session.items)
        caches = _caches({each.partition(".")[0] for each in self.modules})
        _empty(caches)
        gc.collect()
        gc.freeze()
        runs = _measure(session, set(paths.values()), caches)
        failed = [name for name, run in runs.items() if run.failed]
        for module, path in paths.items():
            mutants = [] if failed else make_mutants(Path(path).read_text())
            file = self.folder / f"{module}.json"
            known = _killed(file) if self.again else {}
            ends = [
                known.get((each.function, each.was, each.becomes))
                or self._try(session, path, each, functions, runs)
                for each in mutants
            ]
            file.write_text(json.dumps({"failed": failed, "mutants": ends}, indent=1))
            print(module, file=self.output, flush=True)
        return True

    def _try(self, session, path: str, mutant: Mutant, functions, runs: dict[str, Run]) -> dict:
        lines = set(mutant.lines)
        items = [
            each for each in session.items if lines & runs[each.nodeid].lines.get(path, set())
        ]
        order = {each.nodeid: self.noticed[mutant.function, each.nodeid] for each in items}
        items.sort(key=lambda each: (-order[each.nodeid], runs[each.nodeid].cpu))
        wall = WALL_SECONDS + TIMES * sum(runs[each.nodeid].wall for each in items)

        def test() -> int:
            changed = functions[path, mutant.function.rpartition(".")[2], mutant.first_line]
            _put(mutant, changed)
            end = _run(session, items, runs)
            if end == KILLED:
                os.write(writing, session.failed_test.encode())
            return end

        reading, writing = os.pipe()
        end = "survived" if not items else _fork(test, wall)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            killer = pipe.read()
        if killer:
            self.noticed[mutant.function, killer] += 1
        described = asdict(mutant)
        return {name: described[name] for name in ("function", "was", "becomes")} | {
            "end": end,
            "line": mutant.lines.start,
            "tests": len(items),
            "killer": killer,
        }


def _killed(file: Path) -> dict[tuple[str, str, str], dict]:
    """The mutants that the last run killed."""
    mutants = json.loads(file.read_text())["mutants"] if file.exists() else []
    return {
        (each["function"], each["was"], each["becomes"]): each
        for each in mutants
        if each["end"] in {"killed", "timed out"}
    }


def _limit_examples(items: list[pytest.Item]) -> None:
    for item in items:
        test = getattr(item.obj, "__func__", item.obj)
        usual = getattr(test, "_hypothesis_internal_use_settings", None)
        if usual:
            few = min(usual.max_examples, EXAMPLES)
            test._hypothesis_internal_use_settings = hypothesis.settings(usual, max_examples=few)


def _functions(paths: set[str]) -> dict[tuple[str, str, int], list[types.FunctionType]]:
    """The modules' functions by file, name and first line, wherever decorators have put them."""
    found: dict[tuple[str, str, int], list[types.FunctionType]] = {}
    for each in gc.get_objects():
        if isinstance(each, types.FunctionType) and each.__code__.co_filename in paths:
            code = each.__code__
            key = code.co_filename, code.co_name, code.co_firstlineno
            found.setdefault(key, []).append(each)
    return found


def _caches(packages: set[str]) -> list[functools._lru_cache_wrapper]:
    return [
        each
        for each in gc.get_objects()
        if isinstance(each, functools._lru_cache_wrapper)
        and each.__module__.partition(".")[0] in packages
    ]


def _empty(caches: list[functools._lru_cache_wrapper]) -> None:
    """Forget what the import of the tests, or another test, has computed."""
    for each in caches:
        each.cache_clear()


def _put(mutant: Mutant, changed: list[types.FunctionType]) -> None:
    tree = ast.parse(mutant.source)
    definition = tree.body[0]
    definition.decorator_list = []
    owner, _, name = mutant.function.rpartition(".")
    free = changed[0].__code__.co_freevars
    if free:
        # The mutant may have lost the super() that the original needs its class for.
        definition.body.insert(0, ast.Expr(ast.Name("__class__", ast.Load())))
    if owner:
        # In a class of this name, private names mean the same.
        holder = ast.ClassDef(owner, bases=[], keywords=[], body=[definition], decorator_list=[])
        tree.body = [holder]
    flag = __import__("__future__").annotations.compiler_flag
    code = compile(ast.fix_missing_locations(tree), "<mutant>", "exec", flag, dont_inherit=True)
    inner = _code(code, owner) if owner else code
    for each in changed:
        each.__code__ = _code(inner, name)
        with contextlib.suppress(
            NameError, KeyError
        ):  # a default may name what only the class knows
            scope: dict = {}
            exec(code, dict(each.__globals__), scope)
            made = vars(scope[owner])[name] if owner else scope[name]
            each.__defaults__, each.__kwdefaults__ = made.__defaults__, made.__kwdefaults__


def _code(code: types.CodeType, name: str) -> types.CodeType:
    return next(
        each
        for each in code.co_consts
        if isinstance(each, types.CodeType) and each.co_name == name
    )


def _measure(
    session: pytest.Session, paths: set[str], caches: list[functools._lru_cache_wrapper]
) -> dict[str, Run]:
    """Run every test by itself, in a fork."""
    reading, writing = os.pipe()

    def measure() -> int:
        os.close(reading)
        runs = {each.nodeid: Run() for each in session.items}
        for item in session.items:
            run = runs[item.nodeid]
            _empty(caches)
            run.cpu, run.wall = time.process_time(), time.monotonic()
            with _traced(paths, run.lines):
                run.failed = _run(session, [item], {}) != SURVIVED
            session.testsfailed = 0
            run.cpu, run.wall = time.process_time() - run.cpu, time.monotonic() - run.wall
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(runs, pipe)
        return SURVIVED

    child = _start(measure)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        runs = pickle.load(pipe)
    os.waitpid(child, 0)
    return runs


@contextlib.contextmanager
def _traced(paths: set[str], lines: dict[str, set[int]]):
    def within(frame, event, arg):
        lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return within

    def trace(frame, event, arg):
        return within(frame, event, arg) if frame.f_code.co_filename in paths else None

    threading.settrace(trace)
    sys.settrace(trace)
    yield
    sys.settrace(None)
    threading.settrace(None)


def _run(session: pytest.Session, items: list[pytest.Item], known: dict[str, Run]) -> int:
    """Run tests until one fails; one that takes far longer than it is known to ends the process.

    The limit is that of each test, so an endless loop that a fast test runs into ends soon.
    """
    for place, item in enumerate(items):
        if run := known.get(item.nodeid):
            limit = math.ceil(time.process_time() + CPU_SECONDS + TIMES * run.cpu)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
        following = items[place + 1] if place + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            session.failed_test = item.nodeid
            return KILLED
    return SURVIVED


def _start(work) -> int:
    child = os.fork()
    if child:
        return child
    end = BROKEN
    try:
        os.setsid()
        end = work()
    finally:
        os._exit(end)


def _fork(work, wall: float) -> str:
    """How the work ends in a fork."""
    child = _start(work)
    ready = select.poll()
    ended = os.pidfd_open(child)
    ready.register(ended, select.POLLIN)
    on_time = ready.poll(wall * 1000)
    os.close(ended)
    with contextlib.suppress(ProcessLookupError):
        # What the tests started and did not end goes too.
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == BROKEN:
        return "broken"
    if not on_time or -status in (signal.SIGXCPU, signal.SIGKILL):
        return "timed out"
    return "survived" if status == SURVIVED else "killed"


def main() -> int:
    """Collect the tests and try the mutants."""
    again = "--again" in sys.argv
    folder, modules, *tests = [each for each in sys.argv[1:] if each != "--again"]
    # What the tests and pytest print is not the output of this program.
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    options = ["-qq", "--tb=no", "--assert=plain", "-p", "no:cacheprovider", "-o", "timeout=0"]
    trial = Trial(Path(folder), modules.split(","), output, again=again)
    return int(pytest.main([*options, *tests], plugins=[trial]))


if __name__ == "__main__":
    sys.exit(main())
