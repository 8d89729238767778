"""The progress of the demo as shown to the user.

A step runs commands whose output goes to its own log file. The terminal shows one line when a
step starts, a heartbeat while it runs, and one line when it ends. If a command fails, the terminal
shows the end of its log and the name of the file, never a stack trace.
"""

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from choice import DemoError

# Often enough that the demo does not seem to hang, rarely enough to be readable.
HEARTBEAT_SECONDS = 20.0
LOG_TAIL_LINES = 15
# Time that an interrupted program has to clean up.
STOP_SECONDS = 10.0
POLL_SECONDS = 0.1
# A mirror that fails once often answers a little later.
AGAIN_SECONDS = 10.0


class Progress:
    """Prints steps; thread-safe."""

    def __init__(self, log_dir: Path) -> None:
        self._log_dir = log_dir
        self._started = time.monotonic()
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._stopped = threading.Event()
        log_dir.mkdir(parents=True, exist_ok=True)

    def say(self, text: str) -> None:
        """Print one line with the elapsed time."""
        elapsed = int(time.monotonic() - self._started)
        with self._lock:
            print(f"[{elapsed // 60:2d}:{elapsed % 60:02d}] {text}", flush=True)

    @contextmanager
    def step(self, title: str, usual: str = "") -> Generator[None]:
        """Print the start, the heartbeat and the duration of a step."""
        self.say(f"{title} ..." + (f" (usually {usual})" if usual else ""))
        began = time.monotonic()
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                self.say(
                    f"  still {title[0].lower()}{title[1:]}, {time.monotonic() - began:.0f} s"
                )

        pulse = threading.Thread(target=beat, daemon=True)
        pulse.start()
        try:
            yield
        finally:
            over.set()
            pulse.join()
        self.say(f"{title}: done in {time.monotonic() - began:.0f} s")

    def run(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        downloads: str = "",
    ) -> str:
        """Run a command, write its output to `<log dir>/<name>.log` and return it.

        Args:
            name: Of the log.
            command: Program and arguments.
            env: Its complete environment; None inherits that of this process.
            downloads: Where the command downloads from. Such a command is tried twice; if it
                fails again, this is shown.

        Raises:
            DemoError: The command failed; the text contains the last lines of the log.
        """
        log = self._log_dir / f"{name}.log"
        words = [str(word) for word in command]
        code, output = self._try(log, words, env)
        if code and downloads and not self._stopped.is_set():
            again = f"trying again in {AGAIN_SECONDS:.0f} s"
            self.say(f"  {name} failed, perhaps because of a download: {again}")
            self._stopped.wait(AGAIN_SECONDS)
            code, output = self._try(log, words, env)
        if code:
            tail = "\n".join(output.splitlines()[-LOG_TAIL_LINES:])
            hint = f"\nCheck that {downloads} can be reached." if downloads else ""
            raise DemoError(
                f"`{' '.join(words)}` failed with exit code {code}. "
                f"The log {log} ends with:\n{tail}{hint}"
            )
        return output

    def _try(self, log: Path, words: list[str], env: Mapping[str, str] | None) -> tuple[int, str]:
        """The exit code of a command and what it wrote to its log."""
        with log.open("ab") as sink:
            start = sink.tell()
            sink.write(f"$ {' '.join(words)}\n".encode())
            sink.flush()
            code = self._wait(words, sink, env)
        return code, log.read_bytes()[start:].decode(errors="replace")

    def _wait(self, words: list[str], sink: BinaryIO, env: Mapping[str, str] | None) -> int:
        with self._lock:
            if self._stopped.is_set():
                raise DemoError(f"{words[0]} was not started, because the demo is stopping")
            try:
                child = subprocess.Popen(
                    words, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=env
                )
            except OSError as error:
                raise DemoError(f"{words[0]} could not be started: {error}") from error
            self._children.add(child)
        try:
            return child.wait()
        finally:
            with self._lock:
                self._children.discard(child)

    def stop(self) -> None:
        """Start no further commands; interrupt the running ones, then kill them."""
        with self._lock:
            self._stopped.set()
            children = list(self._children)
        for child in children:
            child.send_signal(signal.SIGINT)
        deadline = time.monotonic() + STOP_SECONDS
        while any(child.poll() is None for child in children) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        for child in children:
            if child.poll() is None:
                child.kill()


class Tasks:
    """Tasks that start as soon as their dependencies are done."""

    def __init__(self) -> None:
        # A waiting task occupies a thread, so there is one for each task of the demo.
        self._pool = ThreadPoolExecutor(max_workers=16)
        self._futures: dict[str, Future[None]] = {}

    def add(self, name: str, work: Callable[[], None], after: Sequence[str] = ()) -> None:
        """Add a task; every name in `after` must be added first."""
        needed = [self._futures[other] for other in after]

        def when_ready() -> None:
            for future in needed:
                future.result()
            work()

        self._futures[name] = self._pool.submit(when_ready)

    def join(self) -> None:
        """Wait for all tasks; raise the first failure at once."""
        done, waiting = wait(self._futures.values(), return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for future in done:
            future.result()


def fail(text: str, target: str = "demo") -> None:
    """Print a failure to stderr."""
    print(f"\nmake {target}: {text}", file=sys.stderr, flush=True)
