"""The operator under measurement: a process of its own, seen through /proc and its metrics."""

import asyncio
import os
import re
import signal
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from moorage_benchmarks import procfs
from moorage_benchmarks.programs import BenchmarkError

START_SECONDS = 60.0
WRITE_VERBS = ("create", "patch", "update")

Samples = dict[str, float]
"""Prometheus samples by name and labels, as they are written."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the operator had used and done at a moment.

    Attributes:
        at: The monotonic clock's seconds.
        cpu: CPU seconds since its start.
        rss: Bytes.
        samples: Its metrics.
    """

    at: float
    cpu: float
    rss: int
    samples: Samples

    def total(self, name: str, *labels: str) -> float:
        """Sum of a metric's samples that carry these `key="value"` labels."""
        return sum(
            value
            for key, value in self.samples.items()
            if key.partition("{")[0] == name and all(label in key for label in labels)
        )

    @property
    def requests(self) -> float:
        """Requests to the API server, watches included."""
        return self.total("moorage_api_requests_total")

    @property
    def writes(self) -> float:
        """Requests that change something."""
        return sum(
            self.total("moorage_api_requests_total", f'verb="{verb}"') for verb in WRITE_VERBS
        )

    def requests_by_kind(self, before: "Usage | None" = None, count: int = 1) -> dict[str, float]:
        """Requests by verb and resource, those since an earlier moment for each of so many."""
        found: dict[str, float] = {}
        for key, value in self.samples.items():
            if key.startswith("moorage_api_requests_total{"):
                more = value - (before.samples.get(key, 0.0) if before else 0.0)
                labels = dict(part.split("=", 1) for part in key.partition("{")[2][:-1].split(","))
                said = f"{labels['verb']} {labels['resource']}".replace('"', "")
                if more:
                    found[said] = found.get(said, 0.0) + more / count
        return dict(sorted(found.items()))

    @property
    def passes(self) -> float:
        """Passes over a model that went well."""
        return self.total("moorage_reconciles_total", 'outcome="ok"')

    @property
    def polls(self) -> float:
        """Polls of replicas."""
        return self.total("moorage_polls_total")


class OperatorProcess:
    """May be started and ended at any moment."""

    def __init__(self, program: Path, kubeconfig: Path, log: Path) -> None:
        self._program = program
        self._kubeconfig = kubeconfig
        self._log = log
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        if self._process is None:
            raise BenchmarkError("the operator was not started")
        return self._process.pid

    async def start(self) -> float:
        """Start it and wait until it is ready; when it was started.

        Raises:
            BenchmarkError: It ended, or is not ready in time.
        """
        words = [str(self._program), "--runtime-image=moorage-runtime:scale"]
        words += [
            "--health-host=127.0.0.1",
            "--health-port=0",
        ]
        env = {**os.environ, "KUBECONFIG": str(self._kubeconfig)}
        self._log.unlink(missing_ok=True)
        self._port = 0
        began = time.monotonic()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *words, stdout=log, stderr=log, env=env
            )
        while time.monotonic() - began < START_SECONDS:
            if self._process.returncode is not None:
                raise BenchmarkError(f"the operator ended: {self._log.read_text()[-2000:]}")
            if self._is_ready():
                return began
            await asyncio.sleep(0.05)
        raise BenchmarkError(f"the operator is not ready after {START_SECONDS} s")

    async def stop(self) -> None:
        """End it in order."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            await self._process.wait()

    async def usage(self) -> Usage:
        """What it has used and done until now."""
        text = await asyncio.to_thread(self._get, "/metrics")
        return Usage(
            time.monotonic(),
            procfs.cpu_seconds(self.pid),
            procfs.rss_bytes(self.pid),
            parse_samples(text),
        )

    def _is_ready(self) -> bool:
        if not self._port:
            found = re.search(r'"port": (\d+)', self._log.read_text())
            self._port = int(found[1]) if found else 0
        try:
            return bool(self._port) and bool(self._get("/readyz"))
        except OSError:
            return False

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=30) as answer:
            return answer.read().decode()


def parse_samples(text: str) -> Samples:
    """The samples of an exposition. Pure."""
    samples: Samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.rpartition(" ")
            samples[key] = float(value)
    return samples
