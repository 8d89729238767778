"""Measures the cost of hostile input: CPU time by size, and the latency of health checks."""

import contextlib
import gc
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

# A linear cost doubles with the size and a quadratic one quadruples.
WORST_GROWTH = 3.0
# Below this, what is measured is the fixed cost of a call.
FLOOR_SECONDS = 0.004
# A quadratic cost stays quadratic, however often it is measured. A busy neighbour on the same
# processor or memory makes single measurements several times as long, for seconds.
PATIENCE_SECONDS = 20.0
HEALTH_PERIOD_SECONDS = 0.005
# How long one hostile client may delay a health check: a quarter of the shortest timeout that a
# kubelet's probe can have. On a fast processor the longest delay is about 60 ms, the call that
# parses the largest JSON list of strings; on a slow or busy one it takes twice as long.
HEALTH_SECONDS = 0.25
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"


def cpu_seconds(call: Callable[[], Any]) -> float:
    """The CPU time of this thread for one call, independent of other load."""
    # a collection of all objects of the test run would be counted for whoever triggers it
    gc.disable()
    begun = time.thread_time()
    with contextlib.suppress(Exception):  # to refuse is as good as to accept
        call()
    seconds = time.thread_time() - begun
    gc.enable()
    return seconds


def check_linear(name: str, make: Callable[[int], Any], take: Callable[[Any], Any]) -> None:
    """Fail if twice the input costs more than some three times the processor time.

    What counts is the shortest time of each size, measured until the times look linear or the
    patience ends.

    Args:
        name: For the message.
        make: Makes an input of a size; called with 1, 2 and 4.
        take: The decoder; an exception counts as an answer.
    """
    inputs = [make(scale) for scale in (1, 2, 4)]
    costs = [float("inf")] * len(inputs)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        again = [cpu_seconds(lambda given=given: take(given)) for given in inputs]
        costs = list(map(min, costs, again))
        pairs = itertools.pairwise(costs)
        if all(after < WORST_GROWTH * max(before, FLOOR_SECONDS) for before, after in pairs):
            return
    shown = ", ".join(f"{cost * 1000:.1f}" for cost in costs)
    raise AssertionError(f"{name}: {shown} ms for inputs of sizes 1, 2 and 4")


def cpu_clock(pid: int) -> int:
    """The clock of a process's processor time (clock_getcpuclockid(3))."""
    return ~pid << 3 | 2


@dataclass
class Waits:
    """The latencies of health checks.

    Attributes:
        seconds: For each check the smaller of its wall-clock time and the CPU time of the
            server meanwhile. Other load of the machine counts in neither.
        wall_seconds: The wall-clock times.
    """

    seconds: list[float] = field(default_factory=list)
    wall_seconds: list[float] = field(default_factory=list)


@contextlib.contextmanager
def health_checks(port: int, pid: int, host: str = "127.0.0.1") -> Iterator[Waits]:
    """Ask for health every few milliseconds; each answer must be 200."""
    waits, begun, stopped, failures = Waits(), threading.Event(), threading.Event(), []
    clock = cpu_clock(pid)

    def check(connection: socket.socket) -> None:
        cpu, start = time.clock_gettime(clock), time.monotonic()
        connection.sendall(LIVE)
        answer = connection.recv(65536)
        wall = time.monotonic() - start
        waits.wall_seconds.append(wall)
        waits.seconds.append(min(wall, time.clock_gettime(clock) - cpu))
        assert answer.startswith(b"HTTP/1.1 200"), answer

    def ask() -> None:
        try:
            with socket.create_connection((host, port), 60) as connection:
                check(connection)
                begun.set()
                while not stopped.wait(HEALTH_PERIOD_SECONDS):
                    check(connection)
                check(connection)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            failures.append(error)
            begun.set()

    thread = threading.Thread(target=ask)
    thread.start()
    begun.wait()
    try:
        yield waits
    finally:
        stopped.set()
        thread.join()
    if failures:
        raise failures[0]


def longest(waits: Waits) -> float:
    """The longest wait, in seconds."""
    return max(waits.seconds)


def exchange(port: int, data: bytes | Sequence[bytes], seconds: float = 30) -> bytes:
    """Send bytes on a new connection and return the answer until it closes."""
    parts = [data] if isinstance(data, bytes) else data
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while piece := connection.recv(65536):
                received += piece
    return bytes(received)


def leave(port: int, data: bytes) -> None:
    """Send a request, and close the connection without reading the answer."""
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall(data)


def post(path: str, body: bytes, *headers: str) -> bytes:
    """A POST request that ends its connection."""
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body


def resident_bytes(pid: int) -> int:
    """The resident memory of a process."""
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 - a kernel file, not a path of ours
        line = next(line for line in status if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024
