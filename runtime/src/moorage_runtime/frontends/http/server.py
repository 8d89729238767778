"""The HTTP listener: the listening socket, the open connections, their clock and their end.

Source of what is kept: RFC 9112; requirements C-007 to C-021 of the protocols.
"""

import asyncio
import logging
import ssl
from email.utils import formatdate
from typing import Final

from moorage_runtime.frontends.http import serialization
from moorage_runtime.frontends.http.connection import Connection
from moorage_runtime.frontends.http.faults import FaultRenderer, render_json
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import Handler
from moorage_runtime.frontends.http.received import Admission

log = logging.getLogger(__name__)

# One read: what the kernel usually has at hand, and the largest head and small body together.
_SCRATCH_BYTES: Final = 64 * 1024
_BACKLOG: Final = 1024
# The clock of deadlines and of the Date header; a quarter of the shortest deadline at most.
_LONGEST_TICK_SECONDS: Final = 1.0
_SHORTEST_TICK_SECONDS: Final = 0.01


class HttpServer:
    """An HTTP/1.1 server in the running event loop.

    Args:
        handler: Gets every request; returns the answer or an awaitable of it. What it raises is
            logged and answered with 500.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        limits: Bounds on clients.
        fault: Renders the errors of the listener itself.
        admission: Looks at each head before the body is read, as BearerToken does.
        tls: Serve HTTPS with this context.
        reuse_port: Other processes of this server listen on the port too.
        compress_from_bytes: Compress answers of at least this size for clients that accept it.
            None never does: within a cluster the bandwidth is cheaper than the processor, and
            common clients accept gzip without wanting it.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener; all but three by keyword
        self,
        handler: Handler,
        host: str,
        port: int,
        limits: Limits | None = None,
        *,
        fault: FaultRenderer = render_json,
        admission: Admission | None = None,
        tls: ssl.SSLContext | None = None,
        reuse_port: bool = False,
        compress_from_bytes: int | None = None,
    ) -> None:
        self.handler = handler
        self.fault = fault
        self.admission = admission
        self.limits = limits or Limits()
        self.compress_from_bytes = compress_from_bytes
        self.scratch = bytearray(_SCRATCH_BYTES)
        self.now = 0.0
        self.dated = serialization.dated("")
        self.is_leaving = False
        self.is_stopping = False
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse_port = reuse_port
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._all_rest = asyncio.Event()
        self._none_left = asyncio.Event()
        self._tick_seconds = _tick_seconds(self.limits)

    async def start(self) -> int:
        """Listen; the bound port."""
        loop = asyncio.get_running_loop()
        self._tick()
        self._listener = await loop.create_server(
            lambda: Connection(self),
            self._host,
            self._port,
            ssl=self._tls,
            backlog=_BACKLOG,
            reuse_port=self._reuse_port,
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def leave(self) -> None:
        """The server will stop: every answer from now on ends its connection.

        A client that keeps one connection for all its requests then goes elsewhere in time, and
        not by finding it closed under the next request.
        """
        self.is_leaving = True

    async def stop(self, grace_seconds: float) -> None:
        """Finish what runs, for at most the grace time, then close everything.

        Idle connections close at once. Until the last running request is answered, new ones are
        still taken, so that probes learn that the server is not ready.
        """
        self.leave()
        self.is_stopping = True
        self._close_rested()
        self.rested()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._all_rest.wait()
                self._stop_listening()
                self._close_rested()
                await self._none_left.wait()
        except TimeoutError:
            log.warning("requests were still running at the end of the grace time")
        self._stop_listening()
        for connection in tuple(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    # Calls of the connections.

    def opened(self, connection: Connection) -> bool:
        """Count the connection; False when there are too many."""
        self._connections.add(connection)
        self._none_left.clear()
        return len(self._connections) <= self.limits.connections

    def rested(self) -> None:
        """A connection may have finished its last request."""
        if self.is_stopping and not any(c.is_busy for c in self._connections):
            self._all_rest.set()
            if not self._connections:
                self._none_left.set()

    def closed(self, connection: Connection) -> None:
        """Forget the connection."""
        self._connections.discard(connection)
        self.rested()

    def _close_rested(self) -> None:
        for connection in tuple(self._connections):
            connection.close_when_rested()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        self.dated = serialization.dated(formatdate(usegmt=True))
        for connection in tuple(self._connections):
            connection.tick(self.now)
        self._timer = loop.call_later(self._tick_seconds, self._tick)


def _tick_seconds(limits: Limits) -> float:
    shortest = min(
        limits.head_seconds,
        limits.body_grace_seconds,
        limits.idle_seconds,
        limits.write_seconds,
        limits.linger_seconds,
    )
    return min(max(shortest / 4, _SHORTEST_TICK_SECONDS), _LONGEST_TICK_SECONDS)
