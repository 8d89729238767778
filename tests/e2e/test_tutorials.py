"""The tutorials, followed to the letter: files saved, commands run, and their output compared.

What `pip install` would install is there beforehand, from locked requirements.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.documented import Step, steps
from support.environments import ROOT, environment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PACKAGES = {"application-developer": "clients", "data-scientist": "tutorials"}
"""The environment of each page, below requirements/."""

COMMAND_SECONDS = 300
DECIMAL = re.compile(r"-?\d+\.\d+(e-?\d+)?")


class Reader:
    """Somebody who follows a tutorial in a folder with the repository's examples."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._folder = folder
        self._env = env
        self._background: list[subprocess.Popen[str]] = []
        self._output = ""

    def follow(self, step: Step) -> None:
        """Do what a block says."""
        if step.title:
            (self._folder / step.title).write_text(step.text)
        elif step.language == "sh":
            for command in step.text.replace("\\\n", "").splitlines():
                if not command.startswith("pip install "):
                    self._run(command, step)
        else:
            assert step.language == "text", f"line {step.line}: nothing is known to do with this"
            assert _rounded(self._output) == _rounded(step.text), f"line {step.line}"

    def _run(self, command: str, step: Step) -> None:
        if command.endswith("&"):
            self._start(command.rstrip("& "))
            return
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        where = f"line {step.line}: {command}"
        assert done.returncode == 0, f"{where}: {done.stdout}{done.stderr}"
        self._output = done.stdout

    def _start(self, command: str) -> None:
        """Run a command in the background and wait for its first line, as a reader would."""
        process = subprocess.Popen(
            command.split(), cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True
        )
        self._background.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{command}: ended with status {process.wait()}"

    def leave(self) -> None:
        """End what runs in the background."""
        for process in self._background:
            process.terminate()
            process.communicate()


def _rounded(text: str) -> str:
    """The text with decimal numbers as far as every CPU agrees."""
    return DECIMAL.sub(lambda found: f"{float(found[0]):.3g}", text.strip())


@contextmanager
def reader(folder: Path, env: dict[str, str], packages: str) -> Iterator[Reader]:
    """A reader, who ends their programs."""
    (folder / "examples").symlink_to(ROOT / "examples")
    programs = [environment(packages).parent, Path(sys.executable).parent]
    path = os.pathsep.join([*map(str, programs), env["PATH"]])
    made = Reader(folder, {**env, "PATH": path})
    try:
        yield made
    finally:
        made.leave()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(demo, tmp_path, page):
    found = steps(page)
    if any(step.title.endswith(".mjs") for step in found) and not shutil.which("node"):
        pytest.skip("no Node.js is installed")

    with reader(tmp_path, demo.env, PACKAGES[page.stem]) as somebody:
        for step in found:
            somebody.follow(step)
