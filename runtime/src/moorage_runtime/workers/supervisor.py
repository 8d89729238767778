"""Starts the workers, carries their messages, replaces those that end, and ends with them.

    settings -> ports -> a process for each worker -> Hub -> their links; signal -> all of them

The supervisor serves nothing itself and loads no model. The kernel spreads new connections over
the workers that listen; while one is replaced they go to the others.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Generator, Sequence
from typing import Final

from moorage_runtime.errors import ListenError
from moorage_runtime.settings import Settings
from moorage_runtime.workers import messages
from moorage_runtime.workers.hub import Hub, Letters
from moorage_runtime.workers.messages import Answer, Ask, FromWorker, State

log = logging.getLogger(__name__)

# The inherited socket's number; not a setting, hence no name of one.
LINK_VARIABLE: Final = "_MOORAGE_WORKER_LINK"
# A worker that lived shorter is started again after a pause, twice as long each time.
_STABLE_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
# Metrics of a worker that does not answer are those that it had last.
_COLLECT_SECONDS: Final = 2.0


async def run(workers: int, settings: Settings, arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; the exit status.

    Args:
        workers: How many, at least two.
        settings: As the workers have them.
        arguments: Of the command line, for the workers.

    Raises:
        ListenError: A port is taken or not allowed.
    """
    with (
        _reserved(settings.host, "http_port", settings.http_port) as http,
        _reserved(settings.host, "grpc_port", settings.grpc_port) as grpc,
    ):
        ports = (int(http.getsockname()[1]), int(grpc.getsockname()[1]))
        supervisor = _Supervisor(workers, Hub(workers, *ports), arguments)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.end, number)
        return await supervisor.run()


@contextlib.contextmanager
def _reserved(host: str, setting: str, port: int) -> Generator[socket.socket]:
    """A socket that keeps the port for the workers without listening on it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # alone first: shared at once, it would join another server's port without a word
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            port = int(probe.getsockname()[1])
        reserved = socket.socket(family, socket.SOCK_STREAM)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((host, port))
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(
            f"{setting} {port} cannot be opened: {reason}; expected a free port"
        ) from error
    with reserved:
        yield reserved


class _Supervisor:
    """The processes and their wires; what is said on them is the hub's."""

    def __init__(self, workers: int, hub: Hub, arguments: Sequence[str]) -> None:
        self._workers = workers
        self._hub = hub
        self._arguments = tuple(arguments)
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._received: signal.Signals | None = None
        self._ending = asyncio.Event()
        self._has_listened = False
        self._status = 0

    async def run(self) -> int:
        """Keep every worker running until the end; the exit status."""
        async with asyncio.TaskGroup() as group:
            for worker in range(self._workers):
                group.create_task(self._keep(worker))
        log.info("ended")
        return self._status

    def end(self, received: signal.Signals) -> None:
        """Hand the signal to every worker, and start none any more."""
        if self._received is None:
            self._received = received
        self._ending.set()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(received)

    async def _keep(self, worker: int) -> None:
        pause = _FIRST_PAUSE_SECONDS
        while not self._ending.is_set():
            started = time.monotonic()
            status = await self._serve(worker)
            if self._ending.is_set():
                return
            if not self._has_listened:
                # what keeps the first from starting keeps all: a wrong setting, a missing file
                self._status = max(status, 1)
                self.end(signal.SIGTERM)
                return
            if time.monotonic() - started > _STABLE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            log.error("worker %d ended with status %d, again in %g s", worker, status, pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _serve(self, worker: int) -> int:
        """Run one process to its end; its exit status."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "moorage_runtime",
                *self._arguments,
                env={**os.environ, LINK_VARIABLE: str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
            )
        self._processes[worker] = process
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        self._writers[worker] = writer
        if self._received is not None:
            process.send_signal(self._received)
        self._post(self._hub.started(worker))
        await self._listen(worker, reader)
        status = await process.wait()
        del self._processes[worker], self._writers[worker]
        writer.close()
        self._post(self._hub.ended(worker))
        return status

    async def _listen(self, worker: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(messages.LENGTH_BYTES)
                body = await reader.readexactly(messages.decode_length(head))
                self._hear(worker, messages.decode_from_worker(body))

    def _hear(self, worker: int, message: FromWorker) -> None:
        match message:
            case State():
                self._has_listened = self._has_listened or message.is_listening
                self._post(self._hub.heard_state(worker, message))
            case Answer():
                self._post(self._hub.heard_answer(worker, message))
            case Ask():
                number, letters = self._hub.heard_ask(worker, message)
                if message.act == "collect":
                    loop = asyncio.get_running_loop()
                    loop.call_later(_COLLECT_SECONDS, self._expire, number)
                self._post(letters)

    def _expire(self, number: int) -> None:
        self._post(self._hub.expired(number))

    def _post(self, letters: Letters) -> None:
        for worker, message in letters:
            writer = self._writers.get(worker)
            if writer is not None and not writer.is_closing():
                writer.write(messages.encode(message))
