"""Starts the workers, transfers their messages, replaces those that end, and ends with them.

    settings -> ports -> workers' processes -> ServerState -> their links; signal -> all of them

The supervisor serves no requests and loads no models. The kernel distributes new connections among
the workers that listen, including while one is being replaced.
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

import msgspec

from moorage_runtime.frontends import listening
from moorage_runtime.settings import Settings
from moorage_runtime.workers.shared import messages
from moorage_runtime.workers.shared.messages import Answer, Ask, Beat, FromWorker, State
from moorage_runtime.workers.shared.server_state import Letters, ServerState

log = logging.getLogger(__name__)

# Number of the inherited socket; not a setting, so it is not named like one.
LINK_VARIABLE: Final = "_MOORAGE_WORKER_LINK"
# A worker that lived for a shorter time restarts after a delay, which doubles each time.
_STABLE_SECONDS: Final = 60.0
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 30.0
# A worker that does not answer in this time contributes its last known metrics.
_COLLECT_SECONDS: Final = 2.0
# Checks of a silent worker before it is killed. Several, because after a suspension of the whole
# machine all timers are late at once, and workers must survive that.
_LOOKS: Final = 4


async def run(workers: int, settings: Settings, arguments: Sequence[str]) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status.

    Args:
        workers: Number of workers, at least two.
        settings: Settings of the workers.
        arguments: Command line of the workers.

    Raises:
        ListenError: A port is in use or not allowed.
    """
    with (
        _reserved(settings.host, "http_port", settings.http_port) as http,
        _reserved(settings.host, "grpc_port", settings.grpc_port) as grpc,
    ):
        ports = (int(http.getsockname()[1]), int(grpc.getsockname()[1]))
        server = ServerState(workers, *ports)
        silence = settings.worker_timeout_seconds
        supervisor = _Supervisor(workers, server, arguments, silence)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, supervisor.end, number)
        return await supervisor.run()


@contextlib.contextmanager
def _reserved(host: str, setting: str, port: int) -> Generator[socket.socket]:
    """A socket that reserves the port for the workers without listening on it."""
    try:
        # without sharing first: a shared bind would silently join another server's port
        with listening.bind(host, port) as probe:
            port = int(probe.getsockname()[1])
        reserved = listening.bind(host, port, reuse_port=True)
    except OSError as error:
        raise listening.refused(setting, host, port, error) from error
    with reserved:
        yield reserved


class _Supervisor:
    """The processes and their connections; `ServerState` decides which messages are sent."""

    def __init__(
        self, workers: int, server: ServerState, arguments: Sequence[str], silence_seconds: float
    ) -> None:
        self._silence_seconds = silence_seconds
        self._silent_looks: dict[int, int] = {}
        self._workers = workers
        self._server = server
        self._arguments = tuple(arguments)
        self._processes: dict[int, asyncio.subprocess.Process] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._received: signal.Signals | None = None
        self._ending = asyncio.Event()
        self._has_listened = False
        self._status = 0

    async def run(self) -> int:
        """Keep every worker running until the end; returns the exit status."""
        async with asyncio.TaskGroup() as group:
            for worker in range(self._workers):
                group.create_task(self._keep(worker))
        log.info("ended")
        return self._status

    def end(self, received: signal.Signals) -> None:
        """Forward the signal to every worker, and start no new ones."""
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
                # what prevents the first worker from starting prevents all: an invalid setting, a
                # missing file
                self._status = max(status, 1)
                self.end(signal.SIGTERM)
                return
            if time.monotonic() - started > _STABLE_SECONDS:
                pause = _FIRST_PAUSE_SECONDS
            log.error("worker %d ended with status %d and restarts in %g s", worker, status, pause)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def _serve(self, worker: int) -> int:
        """Run one process to its end; returns its exit status."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                # like the command, without the modules of the current folder
                "-P",
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
        self._post(self._server.started(worker))
        watching = asyncio.create_task(self._watch(worker, process))
        try:
            await self._listen(worker, reader)
        except msgspec.MsgspecError:
            # an invalid message must not end other workers; pending requests end without this
            # worker
            log.exception("worker %d sent an invalid message and is being replaced", worker)
            process.kill()
        finally:
            watching.cancel()
        status = await process.wait()
        del self._processes[worker], self._writers[worker]
        writer.close()
        self._post(self._server.ended(worker))
        return status

    async def _watch(self, worker: int, process: asyncio.subprocess.Process) -> None:
        """Kill a worker that has sent a message before and is now silent for too long."""
        self._silent_looks.pop(worker, None)
        while self._silence_seconds:
            await asyncio.sleep(self._silence_seconds / _LOOKS)
            looks = self._silent_looks.get(worker)
            if looks is None:
                continue
            if looks >= _LOOKS:
                log.error(
                    "worker %d has not responded for %g s and is being replaced",
                    worker,
                    self._silence_seconds,
                )
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                return
            self._silent_looks[worker] = looks + 1

    async def _listen(self, worker: int, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readexactly(messages.LENGTH_BYTES)
                body = await reader.readexactly(messages.decode_length(head))
                self._hear(worker, messages.decode_from_worker(body))

    def _hear(self, worker: int, message: FromWorker) -> None:
        self._silent_looks[worker] = 0
        match message:
            case Beat():
                pass
            case State():
                self._has_listened = self._has_listened or message.is_listening
                self._post(self._server.heard_state(worker, message))
            case Answer():
                self._post(self._server.heard_answer(worker, message))
            case Ask():
                number, letters = self._server.heard_ask(worker, message)
                if message.act == "collect":
                    loop = asyncio.get_running_loop()
                    loop.call_later(_COLLECT_SECONDS, self._expire, number)
                self._post(letters)

    def _expire(self, number: int) -> None:
        self._post(self._server.expired(number))

    def _post(self, letters: Letters) -> None:
        for worker, message in letters:
            writer = self._writers.get(worker)
            if writer is not None and not writer.is_closing():
                writer.write(messages.encode(message))
