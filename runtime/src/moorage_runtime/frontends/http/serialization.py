"""Answers to bytes: status line, headers and framing of HTTP/1.1 responses. Pure."""

import http
from collections.abc import Sequence
from typing import Final

from moorage_runtime.frontends.http.message import HttpResponse, StreamingResponse

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_STATUS_LINES: Final[dict[int, bytes]] = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}


def encode_head(
    answer: HttpResponse | StreamingResponse, *, framing: bytes, connection: bytes, date: bytes
) -> bytes:
    """Status line and headers, with the empty line that ends them.

    Args:
        answer: Status, content type and further headers.
        framing: The header line that says where the body ends, with CR LF; empty when the end
            of the connection does.
        connection: The Connection header line with CR LF, empty for the version's default.
        date: The Date header line with CR LF.
    """
    further = b""
    if answer.headers:
        further = b"".join([b"%b: %b\r\n" % header for header in answer.headers])
    return b"%bContent-Type: %b\r\n%b%b%b%b\r\n" % (
        _STATUS_LINES.get(answer.status) or b"HTTP/1.1 %d \r\n" % answer.status,
        answer.content_type,
        framing,
        further,
        connection,
        date,
    )


def encode_small(answer: HttpResponse, body: bytes, date: bytes) -> bytes:
    """A whole response for a connection that goes on, joined, as nearly every one is.

    Args:
        answer: Status, content type and further headers.
        body: All of the body.
        date: The Date header line with CR LF.
    """
    if answer.headers:
        head = encode_head(answer, framing=content_length(len(body)), connection=b"", date=date)
        return head + body
    return b"%bContent-Type: %b\r\nContent-Length: %d\r\n%b\r\n%b" % (
        _STATUS_LINES.get(answer.status) or b"HTTP/1.1 %d \r\n" % answer.status,
        answer.content_type,
        len(body),
        date,
        body,
    )


def content_length(size: int) -> bytes:
    """The framing of a body of known size."""
    return b"Content-Length: %d\r\n" % size


def encode_chunk(data: bytes) -> bytes:
    """One chunk; ``data`` must not be empty, because an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def body_parts(body: bytes | Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """The body as a list of buffers."""
    return (body,) if isinstance(body, bytes) else body
