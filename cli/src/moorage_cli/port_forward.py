"""A local port that leads to a pod through the API server, for as long as it is needed.

Each connection to the local port is one port-forward of its own, so any client library can use
it. Only the right to `pods/portforward` is needed, and no network between here and the pod.

The connection stays open until the client closes it, as HTTP's keep-alive has it: the `kubernetes`
package may drop what it has not passed on when the other side closes first.
"""

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

__all__ = ["PortForward"]

_CHUNK = 65536


class PortForward:
    """Listens on 127.0.0.1 between enter and exit.

    Args:
        connect: Opens one connection to the pod: a thing with the methods of a socket, and a
            function that tells what went wrong (empty: nothing did).
    """

    def __init__(self, connect: Callable[[], tuple[Any, Callable[[], str]]]) -> None:
        self._connect = connect
        self._open: list[Any] = []
        self._problems: list[Callable[[], str]] = []
        self._failures: list[str] = []

    def __enter__(self) -> Self:
        """Listen; the address is `address` from here on."""
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
        """Close the port and every connection."""
        for each in (self._listener, *self._open):
            _end(each)

    @property
    def problem(self) -> str:
        """What the API server or the pod said against a connection, empty when nothing."""
        told = [*self._failures, *(problem() for problem in self._problems)]
        return next((each for each in told if each), "")

    def _accept(self) -> None:
        while True:
            try:
                local, _ = self._listener.accept()
            except OSError:
                return  # the port is closed
            self._open.append(local)
            try:
                remote, problem = self._connect()
            except Exception as error:  # noqa: BLE001 - whatever it is, the client must hear of it
                self._failures.append(str(error))
                local.close()
                continue
            self._open.append(remote)
            self._problems.append(problem)
            for source, target in ((local, remote), (remote, local)):
                threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _end(connection: Any) -> None:
    """Close a socket on which another thread waits: only a shutdown makes its call return."""
    with contextlib.suppress(OSError):  # the other side was first
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _copy(source: Any, target: Any) -> None:
    """Pass bytes on until one side ends, and tell the other, however it ended."""
    with contextlib.suppress(OSError):  # a side that is reset has ended too
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):  # the other side was first
        target.shutdown(socket.SHUT_WR)
