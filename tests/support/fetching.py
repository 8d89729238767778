"""`moorage-fetch` like in the init container: a process, a volume, a Secret as variables."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.waiting import eventually

COMMAND = Path(sys.executable).parent / "moorage-fetch"
SECONDS = 60


@dataclass(frozen=True)
class Fetched:
    """The result of one run."""

    status: int
    log: str
    message: str
    volume: Path

    @property
    def files(self) -> dict[str, bytes]:
        """The model, path to content."""
        model = self.volume / "model"
        found = [path for path in model.rglob("*") if path.is_file()]
        return {str(path.relative_to(model)): path.read_bytes() for path in found}


@dataclass(frozen=True)
class Running:
    """A run that has not ended."""

    process: subprocess.Popen[bytes]
    log_file: Path

    def wait_log(self, text: str) -> None:
        """Until the log has the text."""
        eventually(f"the log has {text!r}", self.log_file.read_text, lambda log: text in log, 30)


class Fetcher:
    """Runs the command on one volume.

    Args:
        volume: The volume.

    Attributes:
        variables: What the cluster sets for the pod's service account.
    """

    def __init__(self, volume: Path) -> None:
        self.volume = volume
        self.variables: dict[str, str] = {}
        self._started: list[subprocess.Popen[bytes]] = []

    def command(self, uri: str, *options: str) -> list[str | Path]:
        message = self.volume.parent / "message"
        return [COMMAND, uri, "--volume", self.volume, "--message-file", message, *options]

    def environment(self, secret: Mapping[str, str]) -> dict[str, str]:
        plain = {"PATH": os.environ["PATH"], "NO_GCE_CHECK": "true"}
        plain |= self.variables
        return plain | {f"MOORAGE_CREDENTIAL_{key}": value for key, value in secret.items()}

    def start(self, uri: str, secret: Mapping[str, str]) -> Running:
        log_file = self.volume.parent / "log"
        with log_file.open("wb") as log:
            environment = self.environment(secret)
            process = subprocess.Popen(self.command(uri), env=environment, stderr=log)
        self._started.append(process)
        return Running(process, log_file)

    def close(self) -> None:
        """End what still runs."""
        for process in self._started:
            process.kill()
            process.wait(10)

    def __call__(self, uri: str, secret: Mapping[str, str] = {}, *options: str) -> Fetched:
        message = self.volume.parent / "message"
        message.unlink(missing_ok=True)
        done = subprocess.run(
            self.command(uri, *options),
            env=self.environment(secret),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        text = message.read_text() if message.exists() else ""
        return Fetched(done.returncode, done.stderr, text, self.volume)
