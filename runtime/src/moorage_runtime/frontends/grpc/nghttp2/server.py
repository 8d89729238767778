"""The libnghttp2 listener: the listening socket, the open connections and their clock.

    asyncio -> Connection -> Call -> GrpcService method

It needs the package ngh2; see docs/decisions/grpc-transport.md for the consequences.
"""

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from moorage_runtime.frontends import listening
from moorage_runtime.frontends.grpc.methods import Authorize, GrpcService
from moorage_runtime.frontends.grpc.nghttp2.call import MakeCall, StreamCall, UnaryCall
from moorage_runtime.frontends.grpc.nghttp2.connection import Connection
from moorage_runtime.frontends.grpc.nghttp2.duplex import DuplexCall
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.values.budget import ByteBudget

log = logging.getLogger(__name__)

# Size of one read, which limits how long one client occupies the event loop. Three concurrent
# images of 600 KB took two thirds of the time that they took in reads of 256 KiB: after each read,
# the data of the system and the interpreter has to return to the CPU cache.
_SCRATCH_BYTES: Final = 2 * 1024 * 1024
_BACKLOG: Final = 1024
# Interval of the clock for time limits; at most a quarter of the shortest limit.
_LONGEST_TICK_SECONDS: Final = 1.0


class Nghttp2Server:
    """A gRPC server in the running event loop.

    Args:
        services: The services; any other method is UNIMPLEMENTED.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        limits: Limits for clients. Responses are not limited.
        tls: Serve TLS with this context, which must offer "h2" by ALPN.
        authorize: Called before the message of each call is read; None allows all calls.
        reuse_port: Other processes of this server listen on the same port.
        budget: Limits the bytes of all messages that are arriving.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener, mostly keywords
        self,
        services: Sequence[GrpcService],
        host: str,
        port: int,
        *,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        authorize: Authorize | None = None,
        reuse_port: bool = False,
        budget: ByteBudget | None = None,
    ) -> None:
        self.methods: Mapping[bytes, MakeCall] = _methods(services)
        self.authorize = authorize
        self.limits = limits
        self.budget = budget or ByteBudget()
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.now = 0.0
        self.blocked_bytes = 0
        self.arrivals = 0
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse_port = reuse_port
        self._connections: dict[Connection, None] = {}  # in the order in which they were opened
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._none_left = asyncio.Event()
        shortest = min(
            limits.open_seconds,
            limits.message_grace_seconds,
            limits.write_seconds,
            limits.linger_seconds,
        )
        self._tick_seconds = min(shortest / 4, _LONGEST_TICK_SECONDS)

    async def start(self) -> int:
        """Listen and return the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        self._tick()
        try:
            self._listener = await listening.create(
                lambda: Connection(self),
                self._host,
                self._port,
                tls=self._tls,
                backlog=_BACKLOG,
                reuse_port=self._reuse_port,
            )
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise OSError(error.errno, f"cannot listen on {address} for gRPC") from error
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self, grace_seconds: float) -> None:
        """Accept no new calls, let current ones finish within the grace period, then stop."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listening.close(listener, lambda: Connection(self), self._tls)
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(grace_seconds):
                while self._connections:
                    self._none_left.clear()
                    await self._none_left.wait()
        except TimeoutError:
            if any(connection.is_busy for connection in self._connections):
                log.warning("gRPC calls were still running at the end of the grace period")
        for connection in tuple(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    # Called by the connections.

    def opened(self, connection: Connection) -> bool:
        """Count the connection; False if there are too many.

        The oldest connection without a call is closed first, so that idle clients block nobody.
        """
        self.arrivals += 1
        self._connections[connection] = None
        if len(self._connections) <= self.limits.connections:
            return True
        for other in self._connections:
            if other.is_idle(self.limits.evict_seconds):
                other.abort()
                del self._connections[other]
                return True
        return False

    def closed(self, connection: Connection) -> None:
        """Remove the connection."""
        self._connections.pop(connection, None)
        if not self._connections:
            self._none_left.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine, and keep a reference to its task."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time()
        for connection in tuple(self._connections):
            connection.tick(self.now)
        self._timer = loop.call_later(self._tick_seconds, self._tick)


def _methods(services: Sequence[GrpcService]) -> dict[bytes, MakeCall]:
    methods: dict[bytes, MakeCall] = {}
    for service in services:
        for name, unary in service.unary.items():
            path = f"/{service.name}/{name}"
            methods[path.encode()] = partial(UnaryCall, unary, path)
        for name, stream in service.streams.items():
            path = f"/{service.name}/{name}"
            methods[path.encode()] = partial(StreamCall, stream, path)
        for name, duplex in service.duplexes.items():
            path = f"/{service.name}/{name}"
            methods[path.encode()] = partial(DuplexCall, duplex, path)
    return methods
