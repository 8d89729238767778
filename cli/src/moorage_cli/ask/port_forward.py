"""A temporary local port that is forwarded to a pod through the API server.

Each connection to the local port has a port-forward of its own, so any client library can use it.
It needs only the permission for `pods/portforward`, and no network path to the pod.

The connection stays open until the client closes it, as with HTTP keep-alive: if the other side
closes first, the `kubernetes` package may drop data that it has not forwarded yet.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from moorage_cli.printing.failures import reason_of

__all__ = ["PortForward"]

_CHUNK = 65536


class PortForward:
    """Listens on 127.0.0.1 between enter and exit.

    Args:
        connect: Opens one connection to the pod: an object with the methods of a socket, and a
            function that returns the error message, empty without an error.
    """

    def __init__(self, connect: Callable[[], tuple[Any, Callable[[], str]]]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._is_closed = False
        self._open: list[Any] = []
        self._problems: list[Callable[[], str]] = []
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        """Listen; sets `address`."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the port and every connection, also one that is being opened."""
        with self._lock:
            self._is_closed = True
        for each in (self._listener, *self._open):
            _end(each)

    @property
    def problem(self) -> str:
        """The first error of the API server or the pod, empty without one."""
        found = [*self._failures, *(problem() for problem in self._problems)]
        return next((each for each in found if each), "")

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return  # the port is closed
            if not self._keep(local):
                return
            try:
                remote, problem = self._connect()
            except Exception as error:  # noqa: BLE001 - the client must learn of any failure
                self._failures.append(reason_of(error))
                local.close()
                continue
            if not self._keep(remote):
                return
            self._problems.append(problem)
            for source, target in ((local, remote), (remote, local)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()

    def _keep(self, connection: Any) -> bool:
        """Whether the port is still open; otherwise, close the connection."""
        with self._lock:
            if not self._is_closed:
                self._open.append(connection)
                return True
        _end(connection)
        return False


def _end(connection: Any) -> None:
    """Close a socket on which another thread waits: only a shutdown ends its call."""
    with contextlib.suppress(OSError):  # closed by the other side
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _copy(source: Any, target: Any) -> None:
    """Forward bytes until one side ends, then end the other."""
    with contextlib.suppress(OSError):  # a reset ends a side too
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):  # closed by the other side
        target.shutdown(socket.SHUT_WR)
