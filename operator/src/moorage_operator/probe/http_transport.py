"""One HTTP request over a connection of its own, for thousands of servers.

    bytes of a request -> connect, write, read, close -> Response

Each pod is a server of its own that is asked seldom, so a pool of connections would be looked
through and never used. Stands between the HTTP client, which knows deadlines and verdicts, and
the network.
"""

import asyncio
from typing import cast

from .http_response import NotHttp, Response, ResponseReader, TooLarge

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a SYN that waits longer than this meets no listener."""


class NotConnected(Exception):
    """Nobody listens, or the connection broke within the response; the message is the system's."""


class Disconnected(Exception):
    """The server closed the connection before it said anything."""


async def exchange(address: str, port: int, request: bytes, limit_bytes: int) -> Response:
    """The response to one request, with its whole body.

    There is no deadline but that of the connection: who asks sets one.

    Args:
        address: Of the server.
        port: That it listens on.
        request: Head and body, as they are sent.
        limit_bytes: The largest body that is taken.

    Raises:
        TimeoutError: Nobody answers the connection.
        NotConnected: Nobody listens, or not for long enough.
        Disconnected: The server closed the connection unanswered.
        NotHttp: What came is not HTTP.
        TooLarge: The body is above the limit.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Response] = loop.create_future()
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            transport, _ = await loop.create_connection(
                lambda: _Exchange(request, limit_bytes, done), address, port
            )
        try:
            return await done
        finally:
            transport.abort()
    except TimeoutError:
        raise
    except OSError as error:
        raise NotConnected(error.strerror or str(error)) from error
    finally:
        # Who gave up waiting leaves an outcome behind that nobody fetches.
        if not done.cancel() and not done.cancelled():
            done.exception()


class _Exchange(asyncio.Protocol):
    """Writes a request and reads its response into a future."""

    def __init__(self, request: bytes, limit_bytes: int, done: "asyncio.Future[Response]") -> None:
        self._request = request
        self._done = done
        self._reader = ResponseReader(limit_bytes)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._done.done():
            return
        try:
            self._reader.feed(data)
        except (NotHttp, TooLarge) as error:
            self._done.set_exception(error)
        else:
            if self._reader.complete:
                self._done.set_result(self._reader.response)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done.done():
            return
        if self._reader.is_empty:
            self._done.set_exception(Disconnected())
        elif exc is not None:
            self._done.set_exception(NotConnected(str(exc)))
        else:
            self._close()

    def _close(self) -> None:
        try:
            self._reader.close()
        except NotHttp as error:
            self._done.set_exception(error)
        else:
            self._done.set_result(self._reader.response)
