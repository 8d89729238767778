"""The bundled runtime as a process of this machine, for `moorage run`; makes no decisions.

Its log is passed on line by line. It runs in a session of its own, so an interrupt of the terminal
reaches only this process, which then ends it once and waits.
"""

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import IO

from moorage_cli.ask.interrupts import interrupted_by_signals
from moorage_cli.printing.failures import Failure

__all__ = ["LocalServer", "program", "serving"]

PROGRAM = "moorage-runtime"
LISTENING = re.compile(r"listening on HTTP port (\d+) and gRPC port (\d+)")
# The time and the level before the sentence of a log line.
LINE_HEAD = re.compile(r"^[\d-]+ [\d:,.]+ [A-Z]+ +")
# The server itself ends running requests after 20 seconds.
END_SECONDS = 30.0
POLL_SECONDS = 0.05


class LocalServer:
    """A server that was started.

    Args:
        process: The server, whose log is its standard output.
        show: Receives each line of the log.
    """

    def __init__(self, process: subprocess.Popen[str], show: Callable[[str], None]) -> None:
        self._process = process
        self._show = show
        self._last = ""
        self._ports: tuple[int, int] | None = None
        log = process.stdout
        if log is None:
            raise AssertionError("the server was started without a pipe")
        self._reader = threading.Thread(target=self._read, args=(log,), daemon=True)
        self._reader.start()

    @property
    def ports(self) -> tuple[int, int] | None:
        """The HTTP and the gRPC port, or None until both are open."""
        return self._ports

    def check(self) -> None:
        """Do nothing while the server runs.

        Raises:
            Failure: It has ended by itself.
        """
        status = self._process.poll()
        if status is not None:
            self._reader.join(1)
            raise Failure(f"the server ended with status {status}: {self._last or 'no message'}")

    def wait(self) -> None:
        """Wait until the server ends by itself.

        Raises:
            Failure: It has.
        """
        # poll instead of wait(): a signal handler that raises ends a sleep at once
        while self._process.poll() is None:
            time.sleep(POLL_SECONDS)
        self.check()

    def end(self) -> None:
        """End the server as Ctrl-C does, and kill it if it does not end."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT if self._ports else signal.SIGTERM)
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(1)

    def _read(self, log: IO[str]) -> None:
        for line in log:
            if found := LISTENING.search(line):
                self._ports = int(found[1]), int(found[2])
            if line.strip():
                self._last = LINE_HEAD.sub("", line.strip()).removeprefix(f"{PROGRAM}: ")
            self._show(line)


def program() -> str:
    """The path of the server's program, beside this one or in PATH; empty without one."""
    beside = Path(sys.executable).parent / PROGRAM
    return str(beside) if beside.is_file() else shutil.which(PROGRAM) or ""


@contextlib.contextmanager
def serving(arguments: Sequence[str], show: Callable[[str], None]) -> Generator[LocalServer]:
    """The server with these arguments, ended with the block, also by SIGTERM and SIGHUP.

    Raises:
        Failure: It is not installed or cannot be started.
    """
    with interrupted_by_signals():
        try:
            process = subprocess.Popen(  # noqa: S603 - the program of this project, no shell
                [program(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise Failure(f"{PROGRAM} cannot be started: {error.strerror}") from error
        server = LocalServer(process, show)
        try:
            yield server
        finally:
            server.end()
