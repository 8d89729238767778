"""A local relay between a gRPC channel and a model server that limits what the server sends.

    gRPC channel --- abstract Unix socket --- Relay --- TCP, or TLS --- model server

The relay makes the TLS connection itself, so it counts the bytes that gRPC would read.

gRPC reads everything that a server sends: a flood of PING, SETTINGS or CONTINUATION frames uses
CPU and memory after the deadline of the call, and even after the channel was closed. The relay
counts the bytes before gRPC reads them and closes the connection at the limit.

Abstract Unix sockets need no writable directory and no port, and they close with the process. They
exist only on Linux.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from moorage_operator.values.answers import AnswerReason

from .tls import NotTrusted, Secured, is_tls_record, opened, secured_streams

READ_BYTES = 64 << 10

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a connection that takes longer has no listener."""

FRAMING_BYTES = 64 << 10
"""Allowance for settings, metadata and acknowledgements of a call, and for keepalives of an idle
connection."""

FRAME_SHARE = 4
"""Allowance for frame headers: one byte per this many bytes of the message."""


Connections = Callable[[], Awaitable[Sequence[Secured]]]
"""How to connect next, in the order to try; it differs after a CA was renewed."""


async def plaintext() -> Sequence[Secured]:
    """Connect without TLS."""
    return ()


class Relay:
    """Relays the connections of one channel to one server.

    Args:
        host: The IP address of the server.
        port: Its port.
        secured: Returns how to connect, for each connection.

    Attributes:
        failure: Why the last connection failed or was closed by the relay; "" if neither.
        reason: What this failure means if it is about TLS; None if it is not.
        exceeded: Whether the server sent more than the limit.
    """

    def __init__(self, host: str, port: int, secured: Connections = plaintext) -> None:
        self.failure = ""
        self.reason: AnswerReason | None = None
        self._secured = secured
        self.exceeded = False
        self._host, self._port = host, port
        self._limit = self._left = FRAMING_BYTES
        self._questions = 0
        self._connections: set[asyncio.Task[None]] = set()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)  # noqa: FBT003 -- positional only
        self._listener.bind(b"")  # the kernel picks an unused abstract name
        self._listener.listen()
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    @property
    def address(self) -> str:
        """The address for the gRPC channel."""
        return f"unix-abstract:{self._listener.getsockname()[1:].decode()}"

    def begin(self, answer_limit_bytes: int) -> None:
        """Allow an answer of at most this size."""
        self._limit = answer_limit_bytes + answer_limit_bytes // FRAME_SHARE + FRAMING_BYTES
        self._left += self._limit
        self._questions += 1

    def end(self) -> None:
        """Reset the limit after a call."""
        self._questions -= 1
        if not self._questions:
            self._limit = self._left = FRAMING_BYTES

    async def close(self) -> None:
        """Close the listener and every connection."""
        tasks = [self._accepting, *self._connections]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted connections release their sockets
        self._listener.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            accepted, _ = await loop.sock_accept(self._listener)
            task = loop.create_task(self._serve(accepted))
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        here_in, here_out = await asyncio.open_connection(sock=accepted)
        try:
            there_in, there_out = await self._connect()
            self.failure, self.reason = "", None
            try:
                await self._carry_both(here_in, here_out, there_in, there_out)
            finally:
                there_out.transport.abort()
        except TimeoutError:
            self.failure = "the connection attempt timed out"
        except NotTrusted as error:
            self.failure, self.reason = str(error), AnswerReason.NOT_TRUSTED
        except ssl.SSLError as error:
            self.failure = error.reason or "no TLS"
            self.reason = AnswerReason.TLS_MISMATCH
        except OSError as error:
            self.failure = os.strerror(error.errno) if error.errno else str(error)
        except asyncio.CancelledError:
            here_out.transport.abort()
            raise
        finally:
            if self.exceeded:
                here_out.transport.abort()
            await _flushed(here_out)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the server.

        Raises:
            NotTrusted: Its certificate was not accepted.
            OSError: It does not listen, or does not speak TLS.
        """
        ways = await self._secured()
        if not ways:
            return await asyncio.open_connection(sock=await self._open())
        for way in ways[:-1]:
            with suppress(NotTrusted):
                return await secured_streams(await self._open(), way)
        return await secured_streams(await self._open(), ways[-1])

    async def _open(self) -> socket.socket:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            return await opened(self._host, self._port)

    async def _carry_both(
        self,
        here_in: asyncio.StreamReader,
        here_out: asyncio.StreamWriter,
        there_in: asyncio.StreamReader,
        there_out: asyncio.StreamWriter,
    ) -> None:
        """Relay bytes in both directions until either side ends."""
        ways = [
            asyncio.ensure_future(self._carry(here_in, there_out, counted=False)),
            asyncio.ensure_future(self._carry(there_in, here_out, counted=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()

    async def _carry(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        first = counted
        with suppress(OSError):  # a side closed the connection; gRPC reports this
            while data := await source.read(READ_BYTES):
                if first and is_tls_record(data):
                    self.failure, self.reason = "it speaks TLS", AnswerReason.TLS_MISMATCH
                    return
                first = False
                if counted and not self._allows(len(data)):
                    return
                sink.write(data)
                await sink.drain()

    def _allows(self, count: int) -> bool:
        self._left -= count
        if self._left >= 0:
            return True
        self.exceeded = True
        self.failure = f"the server sent more than the limit of {self._limit} bytes for an answer"
        return False


async def _flushed(writer: asyncio.StreamWriter) -> None:
    """Close a connection after sending buffered data; close it at once if cancelled."""
    writer.close()
    try:
        with suppress(OSError):
            await writer.wait_closed()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
