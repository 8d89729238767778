"""Encodes HTTP/1.1 responses: status line, headers and framing. Pure."""

import http
from collections.abc import Sequence
from typing import Final

import msgspec

from moorage_runtime.frontends.http.message import JSON, HttpResponse, StreamingResponse

CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
# For a refusal by the state of the server, which may soon have changed.
RETRY_SOON: Final = ((b"Retry-After", b"1"),)
CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_STATUS_LINES: Final[dict[int, bytes]] = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()
    for status in http.HTTPStatus
}


class Dated(msgspec.Struct, frozen=True):
    """The common part of all responses within a second.

    Attributes:
        line: The Date header line with CR LF.
        usual: The head of a typical response, 200 with JSON, up to the size of its body.
    """

    line: bytes
    usual: bytes


def dated(date: str) -> Dated:
    """The common part for an HTTP date (RFC 9110, 5.6.7)."""
    line = f"Date: {date}\r\n".encode()
    usual = b"%bContent-Type: %b\r\n%bContent-Length: " % (_STATUS_LINES[200], JSON, line)
    return Dated(line, usual)


def connection_line(*, keep_alive: bool, is_http10: bool) -> bytes:
    """The Connection header line with CR LF, empty for the version's default."""
    if not keep_alive:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if is_http10 else b""


def encode_head(
    answer: HttpResponse | StreamingResponse, *, framing: bytes, connection: bytes, date: bytes
) -> bytes:
    """Status line and headers, with the empty line that ends them.

    Args:
        answer: Status, content type and further headers.
        framing: The header line that defines the end of the body, with CR LF; empty if the
            connection's end does.
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


def encode_small(answer: HttpResponse, body: bytes, date: Dated) -> bytes:
    """A small response on a connection that stays open, in one buffer.

    Args:
        answer: Status, content type and further headers.
        body: The whole body.
        date: The common part for this second.
    """
    size = len(body)
    if answer.status == 200 and answer.content_type is JSON and not answer.headers:
        return date.usual + (_SIZES[size] if size < _USUAL_BYTES else _size(size)) + body
    framing = content_length(size)
    return encode_head(answer, framing=framing, connection=b"", date=date.line) + body


def content_length(size: int) -> bytes:
    """The framing of a body of known size."""
    return b"Content-Length: %d\r\n" % size


def encode_chunk(data: bytes) -> bytes:
    """One chunk; ``data`` must not be empty, because an empty chunk ends the body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def body_parts(body: bytes | Sequence[bytes | memoryview]) -> Sequence[bytes | memoryview]:
    """The body as a list of buffers."""
    return (body,) if isinstance(body, bytes) else body


def _size(size: int) -> bytes:
    """The end of a head that ends with Content-Length."""
    return b"%d\r\n\r\n" % size


# Formatting a number takes as long as the rest of a small response's head.
_USUAL_BYTES: Final = 1024
_SIZES: Final = tuple(map(_size, range(_USUAL_BYTES)))
