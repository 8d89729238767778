"""An httpx transport that uses a new connection for each request, for thousands of servers.

    httpx.Request -> connect, shake hands, write, read, close -> httpx.Response

Each pod is a separate server that is queried rarely, so a connection pool is never useful. The
pool of httpx costs as much as the rest of a poll.
"""

import asyncio
import ssl
from typing import cast

import httpx

from moorage_operator.probe.reading.cost import spending

from .http_response import NotHttp, ResponseReader, TooLarge
from .tls import Secured, is_tls_record, not_trusted, opened, report_expiry

LIMIT = "limit_bytes"
"""The request extension with the largest size of the response body."""

SECURED = "secured"
"""The request extension with a `Secured`; None for plaintext."""

HTTP_PORT, HTTPS_PORT = 80, 443
"""httpx omits the default port of the scheme."""

CONNECT_TIMEOUT_SECONDS = 1.0
"""Pods are one hop away; a connection that takes longer has no listener."""


class BodyTooLarge(httpx.TransportError):
    """The body of the response exceeds the limit."""


class Disconnected(httpx.RemoteProtocolError):
    """The server closed the connection without sending anything."""


class TlsSpoken(httpx.RemoteProtocolError):
    """The server answered a plaintext request with TLS."""


class HandshakeFailed(httpx.ConnectError):
    """The server accepted the connection, but there is no TLS on it.

    Attributes:
        is_foreign: Whether it sent something else than TLS.
    """

    def __init__(self, message: str, *, is_foreign: bool) -> None:
        super().__init__(message)
        self.is_foreign = is_foreign


class OneConnectionEach(httpx.AsyncBaseTransport):
    """Opens a connection for each request and closes it afterwards.

    The timeouts of the request are ignored: the caller sets the deadline.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return the response with its whole body.

        Raises:
            httpx.ConnectError: The connection was refused.
            httpx.ConnectTimeout: The connection attempt timed out.
            NotTrusted: The certificate of the server cannot be verified.
            HandshakeFailed: The server does not speak TLS.
            TlsSpoken: The server speaks TLS, but the request is plaintext.
            Disconnected: The server closed the connection without an answer.
            httpx.RemoteProtocolError: The response is not HTTP.
            BodyTooLarge: The body exceeds the limit of the request.
        """
        done: asyncio.Future[ResponseReader] = asyncio.get_running_loop().create_future()
        try:
            reader = await self._exchange(request, done)
        finally:
            # After a cancellation, retrieve the outcome so that asyncio does not report it.
            if not done.cancel() and not done.cancelled():
                done.exception()
        return httpx.Response(reader.status, headers=reader.headers, content=bytes(reader.body))

    async def _exchange(
        self, request: httpx.Request, done: "asyncio.Future[ResponseReader]"
    ) -> ResponseReader:
        limit = request.extensions[LIMIT]
        secured: Secured | None = request.extensions.get(SECURED)
        exchange = _Exchange(_encode(request), limit, done)
        port = request.url.port or (HTTP_PORT if secured is None else HTTPS_PORT)
        if secured is None:
            transport = await _connected(exchange, request.url.host, port)
        else:
            transport = await _shaken(exchange, request.url.host, port, secured)
        try:
            return await done
        finally:
            transport.abort()


async def _connected(exchange: "_Exchange", host: str, port: int) -> asyncio.WriteTransport:
    """Connect in plaintext."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            loop = asyncio.get_running_loop()
            transport, _ = await loop.create_connection(lambda: exchange, host, port)
    except TimeoutError as error:
        raise httpx.ConnectTimeout("the connection attempt timed out") from error
    except OSError as error:
        raise httpx.ConnectError(error.strerror or str(error)) from error
    return transport


async def _shaken(
    exchange: "_Exchange", host: str, port: int, secured: Secured
) -> asyncio.WriteTransport:
    """Connect with TLS; only the caller's deadline limits the handshake."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            made = await opened(host, port)
    except TimeoutError as error:
        raise httpx.ConnectTimeout("the connection attempt timed out") from error
    except OSError as error:
        raise httpx.ConnectError(error.strerror or str(error)) from error
    try:
        transport, _ = await asyncio.get_running_loop().create_connection(
            lambda: exchange,
            sock=made,
            ssl=secured.context,
            server_hostname=secured.server_name,
        )
    except ssl.SSLCertVerificationError as error:
        raise not_trusted(error, f"{host}:{port}", secured) from error
    except ssl.SSLError as error:
        message = error.reason or "no TLS"
        ends = isinstance(error, ssl.SSLEOFError) or "ALERT" in message
        raise HandshakeFailed(message, is_foreign=not ends) from error
    except OSError as error:
        message = error.strerror or "the server closed the connection"
        raise HandshakeFailed(message, is_foreign=False) from error
    report_expiry(transport, host, secured)
    return transport


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
        if self._reader.is_empty and is_tls_record(data):
            self._done.set_exception(TlsSpoken("the server speaks TLS"))
            return
        try:
            spending(self._reader.feed, data)
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
            message = "the server closed the connection without an answer"
            self._done.set_exception(Disconnected(message))
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
    # httpx has validated the URL and the headers; both are ASCII without line ends.
    head = [b"%s %s HTTP/1.1" % (request.method.encode(), request.url.raw_path)]
    head += [b"%s: %s" % field for field in request.headers.raw]
    return b"\r\n".join([*head, b"", request.content])
