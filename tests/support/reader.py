"""Somebody who follows a page to the letter: files saved, commands run, their output compared.

What `pip install` would install is there beforehand, from locked requirements.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from support.documented import Step

__all__ = ["Reader", "reader"]

COMMAND_SECONDS = 900  # of a build of images
DECIMAL = re.compile(r"-?\d+\.\d+(e-?\d+)?")
CONTINUED = "\\\n"


class Reader:
    """Follows steps in a folder, with an environment."""

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
            for command in step.text.replace(CONTINUED, "").splitlines():
                if command.startswith("kill %"):
                    self._end(command.split()[1:])
                elif not command.startswith("pip install "):
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

    def _end(self, jobs: Sequence[str]) -> None:
        """End jobs such as `%1`; like a shell, count from 1 again when none is left."""
        for job in jobs:
            process = self._background[int(job.removeprefix("%")) - 1]
            assert process.poll() is None, f"{job} has ended with status {process.returncode}"
            process.terminate()
            process.communicate()
        if all(process.poll() is not None for process in self._background):
            self._background.clear()

    def leave(self) -> None:
        """End what runs in the background, which a page ends that was followed to its end."""
        for process in self._background:
            process.terminate()
            process.communicate()


def _rounded(text: str) -> str:
    """The text with decimal numbers as far as every CPU agrees."""
    return DECIMAL.sub(lambda found: f"{float(found[0]):.3g}", text.strip())


@contextmanager
def reader(folder: Path, env: dict[str, str], programs: Sequence[Path]) -> Iterator[Reader]:
    """A reader whose background programs end with the context.

    Args:
        folder: Where commands run; it has what the page names, such as examples/.
        env: The environment of the commands.
        programs: Folders that come first in the PATH.
    """
    path = os.pathsep.join([*map(str, programs), env["PATH"]])
    made = Reader(folder, {**env, "PATH": path})
    try:
        yield made
    finally:
        made.leave()
