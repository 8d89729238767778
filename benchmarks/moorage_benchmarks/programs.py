"""Starts what is measured, each program in a process of its own, and ends it."""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "01-digits"
COMMANDS = Path(sys.executable).parent
START_SECONDS = 60
POLL_SECONDS = 0.01


class BenchmarkError(Exception):
    """Something that a measurement needs is missing or failed; the text says what."""


@dataclass(frozen=True)
class Runtime:
    """A running server whose models are ready."""

    pid: int
    http_port: int
    grpc_port: int


@contextlib.contextmanager
def pinned(core: int) -> Generator[None]:
    """This thread, and the processes and threads that it starts, on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def runtime(*options: str) -> Generator[Runtime]:
    """The runtime with these options, on free ports of loopback.

    Raises:
        BenchmarkError: It ended, or a model is not ready in time.
    """
    words = [str(COMMANDS / "moorage-runtime"), "--host=127.0.0.1"]
    words += ["--http-port=0", "--grpc-port=0"]
    words += options
    listening = r"listening on HTTP port (\d+) and gRPC port (\d+)"
    with process(words, listening) as (pid, found):
        started = Runtime(pid, int(found[1]), int(found[2]))
        wait_for("every model is ready", lambda: answers(started.http_port, "/v2/health/ready"))
        yield started


@contextlib.contextmanager
def minimal(module: ModuleType, *words: str) -> Generator[tuple[int, int]]:
    """A baseline server of these benchmarks; its process id and port.

    Raises:
        BenchmarkError: It ended, or does not listen in time.
    """
    command = [sys.executable, str(module.__file__), *words]
    environment = {"PYTHONPATH": str(ROOT / "benchmarks")}
    with process(command, r"listening on (\d+)", environment) as (pid, found):
        yield pid, int(found[1])


@contextlib.contextmanager
def process(
    words: Sequence[str], pattern: str, env: Mapping[str, str] | None = None
) -> Generator[tuple[int, "re.Match[str]"]]:
    """A process whose log has matched the pattern; its id and the match.

    Raises:
        BenchmarkError: It ended, or nothing matched in time; the text has the log's end.
    """
    with tempfile.NamedTemporaryFile() as log:
        started = subprocess.Popen(
            words, stdout=log, stderr=log, env={"PATH": os.environ["PATH"], **(env or {})}
        )

        def look() -> "re.Match[str] | None":
            if started.poll() is not None:
                raise BenchmarkError(f"{words[0]} ended: {Path(log.name).read_text()[-2000:]}")
            return re.search(pattern, Path(log.name).read_text())

        try:
            yield started.pid, wait_for(f"{pattern!r} in the log of {words[0]}", look)
        finally:
            started.terminate()
            started.wait(START_SECONDS)


def run(words: Sequence[str], stdin: str | None = None) -> str:
    """What a command prints.

    Raises:
        BenchmarkError: It cannot be run, or fails.
    """
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BenchmarkError(f"cannot run {words[0]}: {error.strerror}") from error
    if done.returncode:
        raise BenchmarkError(f"{' '.join(words)} failed: {done.stderr.strip() or done.stdout}")
    return done.stdout


def kubectl(kubeconfig: Path, *words: str, stdin: str | None = None) -> str:
    """What kubectl prints; raises as ``run``."""
    return run([*kubectl_command(kubeconfig), *words], stdin)


def kubectl_command(kubeconfig: Path) -> list[str]:
    """The command for one cluster: the local cluster's own program, else the one on the PATH."""
    built = ROOT / "build" / "localcluster" / "bin" / "kubectl"
    return [str(built) if built.exists() else "kubectl", f"--kubeconfig={kubeconfig}"]


def wait_for(what: str, look: Callable[[], T | None], seconds: float = START_SECONDS) -> T:
    """The first true answer.

    Raises:
        BenchmarkError: There was none in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise BenchmarkError(f"timeout after {seconds} s, waiting for: {what}")
        time.sleep(POLL_SECONDS)


def answers(port: int, path: str) -> bool:
    """Whether a server on loopback answers a GET with 200."""
    try:
        fetch(port, path)
    except OSError:
        return False
    return True


def fetch(port: int, path: str) -> bytes:
    """What a server on loopback answers to a GET.

    Raises:
        OSError: It does not answer, or not with success.
    """
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
        return answer.read()
