"""HTTP requests and responses as values, between the listener and the protocol frontends.

    listener -> HttpRequest -> router -> frontend.handle -> Answer -> listener

The listener has checked the framing and the limits, and decoded chunked bodies and
Content-Encoding. A frontend has no access to the socket.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec

JSON: Final = b"application/json"
OCTET_STREAM: Final = b"application/octet-stream"


class HttpRequest(msgspec.Struct, gc=False):
    """One request.

    Attributes:
        method: Upper case, as sent ("GET", "POST"); the listener turns HEAD into GET and drops the
            body of the response.
        path: The path as sent, still percent-encoded, without the query.
        query: The query string as sent, without "?".
        headers: Lower-case name to value; the last value of a repeated header.
        body: The whole decoded body; it may become a tensor's memory.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes | bytearray | memoryview


class HttpResponse(msgspec.Struct, gc=False):
    """A complete response; the listener adds Content-Length, Date and Connection.

    Attributes:
        status: HTTP status code.
        body: One buffer, or several that are sent in order without joining.
        content_type: Value of Content-Type.
        headers: Further headers as (name, value).
    """

    status: int
    body: bytes | Sequence[bytes | memoryview] = b""
    content_type: bytes = JSON
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamingResponse(msgspec.Struct):
    """A response whose chunks are sent as they arrive (chunked transfer encoding).

    The iterator is closed when the client leaves.
    """

    status: int
    chunks: AsyncIterator[bytes]
    content_type: bytes = OCTET_STREAM
    headers: tuple[tuple[bytes, bytes], ...] = ()


@contextlib.asynccontextmanager
async def closing(chunks: AsyncIterator[bytes]) -> AsyncGenerator[AsyncIterator[bytes]]:
    """The iterator, closed at the end if it supports that, as generators do."""
    try:
        yield chunks
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            await close()


Answer = HttpResponse | StreamingResponse
# A frontend may answer at once (health, metadata) or later. Both are common, and awaiting a
# finished result costs a microsecond on the hot path.
Handler = Callable[[HttpRequest], Answer | Awaitable[Answer]]
