"""`moorage ui` as a process of the user."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

MOORAGE = Path(sys.executable).parent / "moorage"
SECONDS = 60


class Ui:
    """The program; it can be ended, suspended and started again on the same port.

    Args:
        kubeconfig: The cluster.
        namespace: The models that it shows.
        port: Where it listens; 0 is any free port.
    """

    def __init__(self, kubeconfig: Path, namespace: str, port: int = 0) -> None:
        self._command = [str(MOORAGE), "ui", "--no-browser", "--kubeconfig", str(kubeconfig)]
        self._command += ["-n", namespace]
        self.port = port
        self.url = ""

    def start(self) -> None:
        command = [*self._command, "--port", str(self.port)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        self.port = int(self.base.rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> None:
        self._process.send_signal(number)
        self._process.communicate(timeout=SECONDS)

    @property
    def base(self) -> str:
        """The address without the token."""
        return self.url.partition("/#")[0]

    def url_of(self, namespace: str, name: str) -> str:
        """The address of one model."""
        return f"{self.url}!{namespace}/{name}"

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """The process does nothing until the block ends, as on a laptop that sleeps."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.stop()
