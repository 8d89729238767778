"""The native gRPC listener: the listening socket, the open connections, their clock, their end.

    asyncio -> Connection -> Call -> GrpcService method

It needs the package ngh2; see docs/decisions/grpc-transport.md for what that means.
"""

import asyncio
import logging
import ssl
from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Final

from moorage_runtime.frontends.grpc.methods import Authorize, GrpcService
from moorage_runtime.frontends.grpc.native.call import StreamCall, UnaryCall
from moorage_runtime.frontends.grpc.native.connection import Connection
from moorage_runtime.frontends.grpc.native.duplex import DuplexCall
from moorage_runtime.frontends.grpc.native.limits import Limits
from moorage_runtime.frontends.grpc.native.owner import MakeCall

log = logging.getLogger(__name__)

# One read: it bounds how long one client has the event loop to itself. Three images of 600 KB at
# once took two thirds of the time that they took in parts of 256 KiB: after each part the system's
# and the interpreter's own data have to come back into the processor's cache.
_SCRATCH_BYTES: Final = 2 * 1024 * 1024
_BACKLOG: Final = 1024
# The clock of the time limits; a quarter of the shortest of them at most.
_LONGEST_TICK_SECONDS: Final = 1.0


class NativeServer:
    """A gRPC server in the running event loop.

    Args:
        services: What to serve; any other method is UNIMPLEMENTED.
        host: Address to listen on.
        port: Port, or 0 for any free one.
        limits: Bounds on clients. Answers have no limit of their own.
        tls: Serve TLS with this context, which must offer "h2" by ALPN.
        authorize: Decides for each call before its message is read; None admits all.
        reuse_port: Other processes of this server listen on the port too.
    """

    def __init__(  # noqa: PLR0913 - the options of a listener; all but three by keyword
        self,
        services: Sequence[GrpcService],
        host: str,
        port: int,
        *,
        limits: Limits,
        tls: ssl.SSLContext | None = None,
        authorize: Authorize | None = None,
        reuse_port: bool = False,
    ) -> None:
        self.methods: Mapping[bytes, MakeCall] = _methods(services)
        self.authorize = authorize
        self.limits = limits
        self.scratch = memoryview(bytearray(_SCRATCH_BYTES))
        self.now = 0.0
        self._host = host
        self._port = port
        self._tls = tls
        self._reuse_port = reuse_port
        self._connections: set[Connection] = set()
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
        """Listen; the bound port.

        Raises:
            OSError: The address cannot be bound.
        """
        loop = asyncio.get_running_loop()
        self._tick()
        try:
            self._listener = await loop.create_server(
                lambda: Connection(self),
                self._host,
                self._port,
                ssl=self._tls,
                backlog=_BACKLOG,
                reuse_port=self._reuse_port,
            )
        except OSError as error:
            address = f"{self._host}:{self._port}"
            raise OSError(error.errno, f"cannot listen on {address} for gRPC") from error
        port: int = self._listener.sockets[0].getsockname()[1]
        return port

    async def stop(self, grace_seconds: float) -> None:
        """Take no new calls, let those that run finish for at most the grace time, then end."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for connection in tuple(self._connections):
            connection.drain()
        try:
            async with asyncio.timeout(grace_seconds):
                while self._connections:
                    self._none_left.clear()
                    await self._none_left.wait()
        except TimeoutError:
            if any(connection.is_busy for connection in self._connections):
                log.warning("gRPC calls were still running at the end of the grace time")
        for connection in tuple(self._connections):
            connection.abort()
        if self._timer is not None:
            self._timer.cancel()

    # Calls of the connections.

    def opened(self, connection: Connection) -> bool:
        """Count the connection; False when there are too many."""
        self._connections.add(connection)
        return len(self._connections) <= self.limits.connections

    def closed(self, connection: Connection) -> None:
        """Forget the connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._none_left.set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, and keep it from being collected."""
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
