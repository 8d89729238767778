"""Operators as processes that can be killed at any time."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp

from .api import until

START_SECONDS = 120.0
"""The longest start of a process on a machine on which several start at once."""


class Operator:
    """One operator process.

    Args:
        kubeconfig: What it reaches the API server by.
        log: Its log; each start appends.
        options: More of its flags.
    """

    def __init__(self, kubeconfig: Path, log: Path, *options: str) -> None:
        self.log = log
        self._kubeconfig = kubeconfig
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._begins = 0
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Start it unless it runs; returns before it is ready."""
        async with self._starting:
            if not self.is_running:
                await self._start()

    async def _start(self) -> None:
        command = ["-m", "moorage_operator", "--runtime-image", "runtime:test"]
        command += ["--health-host", "127.0.0.1", "--health-port", "0", *self._options]
        environment = {"PATH": os.environ["PATH"], "KUBECONFIG": str(self._kubeconfig)}
        with self.log.open("ab") as log:
            self._begins = log.tell()
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *command, env=environment, stdout=log, stderr=log
            )

    async def ready(self) -> None:
        """Wait until it reports that it is ready."""
        port = await until(self._port, START_SECONDS, "the operator's health port")
        async with aiohttp.ClientSession() as session:

            async def is_ready() -> bool:
                try:
                    async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                        return answer.status == 200
                except aiohttp.ClientError:
                    return False

            await until(is_ready, START_SECONDS, "the operator is ready")

    def kill(self) -> None:
        """End it as a crash or a lost node would."""
        if self._process and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)

    async def ended(self) -> None:
        """Wait until the process is gone."""
        if self._process:
            await self._process.wait()

    async def stop(self) -> int:
        """End it in order; its exit status."""
        if self._process is None:
            return 0
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self._process.wait(), 20)
        except TimeoutError:
            self._process.kill()
            return await self._process.wait()

    def errors(self) -> list[str]:
        """Lines of its log that show a bug: of level error, or not JSON."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [each for each in lines if '"level": "error"' in each or not each.startswith("{")]

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """The process id; 0 before the start."""
        return self._process.pid if self._process else 0

    async def _port(self) -> int:
        for line in self.log.read_bytes()[self._begins :].splitlines():
            if b'"port": ' in line:
                return int(line.split(b'"port": ')[1].split(b",")[0].strip(b"} "))
        return 0
