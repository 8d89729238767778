"""The runtime as a process, started like by a user."""

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from support.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(sys.executable).parent / "moorage-runtime"
LISTENING = re.compile(r"listening on HTTP port (\d+) and gRPC port (\d+)")
START_SECONDS = 30
HOST = "127.0.0.1"


@dataclass
class Runtime:
    """A running server."""

    process: subprocess.Popen[bytes]
    log_file: Path
    http_port: int
    grpc_port: int
    host: str = HOST

    @property
    def http(self) -> str:
        return f"{self.host}:{self.http_port}"

    @property
    def grpc(self) -> str:
        return f"{self.host}:{self.grpc_port}"

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://{self.http}{path}", timeout=10)

    def post(self, path: str, **body) -> httpx.Response:
        return httpx.post(f"http://{self.http}{path}", timeout=30, **body)

    def terminate(self) -> int:
        """SIGTERM, and the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextlib.contextmanager
def running(
    *options: str,
    host: str = HOST,
    env: dict[str, str] | None = None,
    wrapper: Sequence[str] = (),
) -> Iterator[Runtime]:
    """The runtime on two free ports, listening; models may still load.

    Args:
        options: Of its command line.
        host: Address that it listens on.
        env: Its environment, this process's when None.
        wrapper: A command that starts it, such as setpriv.
    """
    with tempfile.TemporaryDirectory() as folder:
        log_file = Path(folder) / "log"
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*wrapper, COMMAND, "--http-port=0", "--grpc-port=0", f"--host={host}", *options],
                stdout=log,
                stderr=log,
                env=env,
            )
        try:
            found = eventually(
                "the runtime listens",
                lambda: (LISTENING.search(log_file.read_text()), process.poll()),
                lambda seen: seen[0] is not None or seen[1] is not None,
                START_SECONDS,
            )[0]
            assert found, f"the runtime ended: {log_file.read_text()}"
            yield Runtime(process, log_file, int(found[1]), int(found[2]), host)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait(10)


@contextlib.contextmanager
def serving(repository: Path, *options: str, host: str = HOST) -> Iterator[Runtime]:
    """The runtime with every model of a repository ready."""
    with running(f"--model-repository={repository}", *options, host=host) as runtime:
        eventually(
            "every model is ready",
            lambda: runtime.get("/v2/health/ready").status_code,
            lambda status: status == 200,
            START_SECONDS,
        )
        yield runtime
