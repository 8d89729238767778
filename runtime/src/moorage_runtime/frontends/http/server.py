"""The HTTP listener: the listening socket, the open connections, their clock and the shutdown.

Source: RFC 9112; requirements C-007 to C-021 of the protocols.
"""

import asyncio
import logging
import ssl
from email.utils import formatdate
from typing import Final

from moorage_runtime.frontends import listening
from moorage_runtime.frontends.http import serialization
from moorage_runtime.frontends.http.connection import Connection
from moorage_runtime.frontends.http.faults import FaultRenderer, render_json
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import Handler
from moorage_runtime.frontends.http.received import Admission
from moorage_runtime.values.budget import ByteBudget

log = logging.getLogger(__name__)

# Size of one read: as much as the kernel usually has, and more than the largest head with a small
# body.
_SCRATCH_BYTES: Final = 64 * 1024
_BACKLOG: Final = 1024
# Interval of the clock for deadlines and the Date header; at most a quarter of the shortest
# deadline.
_LONGEST_TICK_SECONDS: Final = 1.0
_SHORTEST_TICK_SECONDS: Final = 0.01


class HttpServer:
    """An HTTP/1.1 server in the running event loop.

    Args:
        handler: Returns the response to each request, or an awaitable. Its exceptions are logged
            and answered with 500.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        limits: Limits for clients.
        fault: Renders the errors of the listener.
        admission: Checks each head before the body is read, like BearerToken.
        tls: Serve HTTPS with this context.
        reuse_port: Other processes of this server listen on the same port.
        budget: Limits the bytes of all bodies that are arriving.
        compress_from_bytes: Compress responses of at least this size for clients that accept it.
            None disables compression: within a cluster, bandwidth is cheaper than CPU time, and
            common clients accept gzip without needing it.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener, mostly keywords
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
        budget: ByteBudget | None = None,
        compress_from_bytes: int | None = None,
    ) -> None:
        self.handler = handler
        self.fault = fault
        self.admission = admission
        self.limits = limits or Limits()
        self.budget = budget or ByteBudget()
        self.compress_from_bytes = compress_from_bytes
        self.scratch = bytearray(_SCRATCH_BYTES)
        self.now = 0.0
        self.dated = serialization.dated("")
        self.is_leaving = False
        self.is_stopping = False
        self.arrivals = 0  # connections opened so far
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse_port = reuse_port
        self._connections: dict[Connection, None] = {}  # in the order in which they were opened
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._none_left = asyncio.Event()
        self._tick_seconds = _tick_seconds(self.limits)

    async def start(self) -> int:
        """Listen and return the bound port."""
        self._tick()
        self._listener = await listening.create(
            lambda: Connection(self),
            self._host,
            self._port,
            tls=self._tls,
            backlog=_BACKLOG,
            reuse_port=self._reuse_port,
        )
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    def leave(self) -> None:
        """Prepare to stop: every response from now on closes its connection.

        A client that keeps one connection for all its requests then reconnects elsewhere in time,
        instead of finding its connection closed.
        """
        self.is_leaving = True

    async def stop(self, grace_seconds: float) -> None:
        """Close the port, finish current requests within the grace period, then close all
        connections.

        A recently used or opened connection may have a request in transit, so it stays open for
        that time.
        Other idle connections are closed at once.
        """
        self.leave()
        self.is_stopping = True
        try:
            async with asyncio.timeout(grace_seconds):
                await self._stop_listening()
                for connection in tuple(self._connections):
                    connection.tick(asyncio.get_running_loop().time())
                if self._connections:
                    self._none_left.clear()
                    await self._none_left.wait()
        except TimeoutError:
            log.warning("requests were still running at the end of the grace period")
        for connection in tuple(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    # Called by the connections.

    def opened(self, connection: Connection) -> bool:
        """Count the connection; False if there are too many.

        The oldest connection without a request is closed first.
        """
        self.arrivals += 1
        self._connections[connection] = None
        if len(self._connections) <= self.limits.connections:
            return True
        for other in self._connections:
            if other.is_evictable(self.limits.evict_seconds):
                del self._connections[other]
                other.abort()
                return True
        return False

    def closed(self, connection: Connection) -> None:
        """Remove the connection."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._none_left.set()

    async def _stop_listening(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await listening.close(listener, lambda: Connection(self), self._tls)

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
