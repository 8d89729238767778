"""Sends prepared HTTP requests in turn, over a few connections at once.

One request is under way on each connection, none are pipelined. Bytes are prepared and answers
only counted, so that the client costs less than any server and leaves the server's core alone.
"""

import itertools
import select
import socket
import time
from collections.abc import Sequence

from moorage_benchmarks.http_answer import answer_bytes
from moorage_benchmarks.programs import BenchmarkError

PATIENCE_SECONDS = 10
_CHUNK = 64 * 1024


class Connections:
    """Open connections and the requests that are sent over them.

    Args:
        port: Of a server on loopback.
        requests: Whole requests, which are sent in turn.
        connections: How many requests may be under way at a time.
    """

    def __init__(self, port: int, requests: Sequence[bytes], connections: int) -> None:
        self._requests = itertools.cycle(requests)
        self._sockets = {
            sock.fileno(): sock for sock in (connect(port) for _ in range(connections))
        }
        self._poll = select.epoll()
        for number in self._sockets:
            self._poll.register(number, select.EPOLLIN)

    def close(self) -> None:
        """Hang up."""
        self._poll.close()
        for sock in self._sockets.values():
            sock.close()


class HttpLoad(Connections):
    """Connections that send the next request as soon as the last one is answered."""

    def ask(self) -> bytes:
        """One whole answer."""
        sock = next(iter(self._sockets.values()))
        sock.sendall(next(self._requests))
        answer = b""
        while not is_whole(answer):
            answer += receive(sock)
        return answer

    def run(self, seconds: float) -> int:
        """Keep every connection busy for so long; the answers that came.

        Raises:
            BenchmarkError: The server hung up, does not answer, or not with 200.
        """
        answered = 0
        parts = dict.fromkeys(self._sockets, b"")
        under_way = len(self._sockets)
        for sock in self._sockets.values():
            sock.sendall(next(self._requests))
        until = time.monotonic() + seconds
        while under_way:
            is_over = time.monotonic() >= until
            for number in self._ready():
                sock = self._sockets[number]
                data = parts[number] + receive(sock)
                if not is_whole(data):
                    parts[number] = data
                    continue
                answered += 1
                parts[number] = b""
                if is_over:
                    under_way -= 1
                else:
                    sock.sendall(next(self._requests))
        return answered

    def _ready(self) -> Sequence[int]:
        ready = self._poll.poll(PATIENCE_SECONDS)
        if not ready:
            raise BenchmarkError(f"the server did not answer for {PATIENCE_SECONDS} s")
        return [number for number, _ in ready]


def is_whole(data: bytes) -> bool:
    """Whether a whole answer has come.

    Raises:
        BenchmarkError: It is not one of 200 with a length.
    """
    try:
        return 0 < answer_bytes(data) <= len(data)
    except ValueError as error:
        raise BenchmarkError(str(error)) from error


def receive(sock: socket.socket) -> bytes:
    """What has come; raises BenchmarkError when the server hung up."""
    data = sock.recv(_CHUNK)
    if not data:
        raise BenchmarkError("the server closed the connection")
    return data


def connect(port: int) -> socket.socket:
    """A connection to a server on loopback."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
