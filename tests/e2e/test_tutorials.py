"""The tutorials, followed to the letter: files saved, commands run, and their output compared."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.documented import Step, steps
from support.environments import ROOT, environment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
COMMAND_SECONDS = 300


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
                self._run(command, step)
        else:
            assert step.language == "text", f"line {step.line}: nothing is known to do with this"
            assert self._output.strip() == step.text.strip(), f"line {step.line}"

    def _run(self, command: str, step: Step) -> None:
        if command.endswith("&"):
            self._forward(command.rstrip("& "))
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

    def _forward(self, command: str) -> None:
        """Run a port-forward and wait for it, as the reader does who sees its output."""
        process = subprocess.Popen(
            command.split(), cwd=self._folder, env=self._env, stdout=subprocess.PIPE, text=True
        )
        self._background.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "Forwarding from" in line, f"{command}: {line}"

    def leave(self) -> None:
        """End what runs in the background."""
        for process in self._background:
            process.terminate()
            process.communicate()


@contextmanager
def reader(folder: Path, env: dict[str, str]) -> Iterator[Reader]:
    """A reader, who ends their programs."""
    (folder / "examples").symlink_to(ROOT / "examples")
    clients = environment("clients").parent
    path = os.pathsep.join([str(clients), env["PATH"]])
    made = Reader(folder, {**env, "PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    try:
        yield made
    finally:
        made.leave()


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_as_written(demo, tmp_path, page):
    found = steps(page)
    if any(step.title.endswith(".mjs") for step in found) and not shutil.which("node"):
        pytest.skip("no Node.js is installed")

    with reader(tmp_path, demo.env) as somebody:
        for step in found:
            somebody.follow(step)
