"""Asks a server for its health at a steady pace and keeps how long each answer took."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType

import grpc

from moorage_benchmarks import http_load, procfs
from moorage_benchmarks.programs import Runtime

PERIOD_SECONDS = 0.005
PATIENCE_SECONDS = 60
_CHECK = "/grpc.health.v1.Health/Check"


@dataclass(frozen=True)
class Wait:
    """One answer.

    Attributes:
        seconds: By the clock, from when the question was due.
        cpu_seconds: What all threads of the server used from the question to the answer. On a
            machine with nothing else to do the question waits about as long.
    """

    seconds: float
    cpu_seconds: float


class Probe(threading.Thread):
    """One kind of question, asked every few milliseconds until it is stopped.

    A question that is late because the one before it was not answered is counted from the time
    when it was due: who waits behind a slow answer waits as well.

    Args:
        ask: Asks once and returns when the answer is there.
        pid: Of the server.
    """

    def __init__(self, ask: Callable[[], None], pid: int) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self._clock = procfs.cpu_clock(pid)
        self._is_stopped = threading.Event()
        self.waits: list[Wait] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        """Ask until stopped, or until an answer is wrong."""
        _hurry()
        due = time.monotonic()
        try:
            while not self._is_stopped.is_set():
                used = time.clock_gettime(self._clock)
                self._ask()
                used = time.clock_gettime(self._clock) - used
                now = time.monotonic()
                self.waits.append(Wait(now - due, used))
                due += PERIOD_SECONDS
                if due > now:
                    time.sleep(due - now)
        except Exception as error:  # noqa: BLE001 - told by the one who reads the waits
            self.failure = error

    def stop(self) -> None:
        """Ask no more."""
        self._is_stopped.set()
        self.join()


class Probes:
    """All kinds of questions to one server, while a block runs.

    Args:
        server: On loopback.
    """

    def __init__(self, server: Runtime) -> None:
        self._sockets = [http_load.connect(server.http_port) for _ in range(2)]
        for sock in self._sockets:
            sock.settimeout(PATIENCE_SECONDS)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}")
        call = self._channel.unary_unary(_CHECK, None, None)
        _check(call)  # the connection is not what is measured
        live, ready = self._sockets
        self._probes = {
            "live": Probe(lambda: _get(live, "/v2/health/live"), server.pid),
            "ready": Probe(lambda: _get(ready, "/v2/health/ready"), server.pid),
            "gRPC": Probe(lambda: _check(call), server.pid),
        }

    def __enter__(self) -> Mapping[str, Probe]:
        for probe in self._probes.values():
            probe.start()
        return self._probes

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for probe in self._probes.values():
            probe.stop()
        for sock in self._sockets:
            sock.close()
        self._channel.close()


def _hurry() -> None:
    """Run this thread before others where that is allowed: it shall see answers when they come."""
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


def _check(call: "grpc.UnaryUnaryMultiCallable[bytes, bytes]") -> None:
    call(b"", timeout=PATIENCE_SECONDS)


def _get(sock: socket.socket, path: str) -> None:
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    answer = b""
    while not http_load.is_whole(answer):
        answer += http_load.receive(sock)
