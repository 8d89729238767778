"""One HTTP request over a connection of its own: an httpx transport for thousands of servers.

    httpx.Request -> connect, write, read, close -> httpx.Response

Each pod is a server of its own that is asked seldom, so a pool of connections is looked through
and never used; httpx's own costs a poll as much as all the rest together. Stands between the HTTP
client, which knows deadlines and verdicts, and the network.
"""

import asyncio
from typing import cast

import httpx

from .http_response import NotHttp, ResponseReader, TooLarge

LIMIT = "limit_bytes"
"""The request's extension that says how large the response's body may be."""

HTTP_PORT = 80
"""httpx leaves the scheme's own port out."""

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a SYN that waits longer than this meets no listener."""


class BodyTooLarge(httpx.TransportError):
    """The answer's body is above the limit."""


class Disconnected(httpx.RemoteProtocolError):
    """The server closed the connection before it said anything."""


class OneConnectionEach(httpx.AsyncBaseTransport):
    """A connection for each request, which ends with it.

    The request's own timeouts are not looked at: who asks sets the deadline.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The response with its whole body.

        Raises:
            httpx.ConnectError: Nobody listens.
            httpx.ConnectTimeout: Nobody answers the connection.
            Disconnected: The server closed it unanswered.
            httpx.RemoteProtocolError: What came is not HTTP.
            BodyTooLarge: The body is above the request's limit.
        """
        done: asyncio.Future[ResponseReader] = asyncio.get_running_loop().create_future()
        try:
            reader = await self._exchange(request, done)
        finally:
            # Who gave up waiting leaves an outcome behind that nobody fetches.
            if not done.cancel() and not done.cancelled():
                done.exception()
        return httpx.Response(reader.status, headers=reader.headers, content=bytes(reader.body))

    async def _exchange(
        self, request: httpx.Request, done: "asyncio.Future[ResponseReader]"
    ) -> ResponseReader:
        loop = asyncio.get_running_loop()
        url, limit = request.url, request.extensions[LIMIT]
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                transport, _ = await loop.create_connection(
                    lambda: _Exchange(_encode(request), limit, done),
                    url.host,
                    url.port or HTTP_PORT,
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout("the connection was not answered") from error
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error)) from error
        try:
            return await done
        finally:
            transport.abort()


class _Exchange(asyncio.Protocol):
    """Writes a request and reads its response into a future."""

    def __init__(
        self, request: bytes, limit_bytes: int, done: "asyncio.Future[ResponseReader]"
    ) -> None:
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
        except NotHttp as error:
            self._done.set_exception(httpx.RemoteProtocolError(str(error)))
        except TooLarge:
            self._done.set_exception(BodyTooLarge("the body is too large"))
        else:
            if self._reader.complete:
                self._done.set_result(self._reader)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done.done():
            return
        if self._reader.is_empty:
            self._done.set_exception(Disconnected("the server closed the connection unanswered"))
        elif exc is not None:
            self._done.set_exception(httpx.ReadError(str(exc)))
        else:
            self._close()

    def _close(self) -> None:
        try:
            self._reader.close()
        except NotHttp as error:
            self._done.set_exception(httpx.RemoteProtocolError(str(error)))
        else:
            self._done.set_result(self._reader)


def _encode(request: httpx.Request) -> bytes:
    # httpx has checked URL and headers; both are ASCII without line ends.
    head = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    head += [b"%s: %s" % field for field in request.headers.raw]
    return b"\r\n".join([*head, b"", request.content])
