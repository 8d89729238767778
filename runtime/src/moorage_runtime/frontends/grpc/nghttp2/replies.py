"""Responses as calls of an ngh2 session, and the creation of the session.

A stream that the client has reset and a session that ends are not errors here: the call learns of
either from its own event.

Source: "gRPC over HTTP2", Responses.
"""

import contextlib
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

import ngh2

from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2.framing import Frame
from moorage_runtime.frontends.grpc.nghttp2.head import ACCEPTED, CODINGS, IDENTITY, HttpRefusal
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits

Header = tuple[bytes, bytes]

NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: number
        for number, name in enumerate(
            (
                "OK",
                "CANCELLED",
                "UNKNOWN",
                "INVALID_ARGUMENT",
                "DEADLINE_EXCEEDED",
                "NOT_FOUND",
                "ALREADY_EXISTS",
                "PERMISSION_DENIED",
                "RESOURCE_EXHAUSTED",
                "FAILED_PRECONDITION",
                "ABORTED",
                "OUT_OF_RANGE",
                "UNIMPLEMENTED",
                "INTERNAL",
                "UNAVAILABLE",
                "DATA_LOSS",
                "UNAUTHENTICATED",
            )
        )
    }
)
_HEAD: Final[tuple[Header, ...]] = (
    (b":status", b"200"),
    (b"content-type", b"application/grpc"),
    (b"grpc-accept-encoding", ACCEPTED),
)
# Response headers, by the coding of compressed messages.
_HEADS: Final[Mapping[str, tuple[Header, ...]]] = MappingProxyType(
    {
        coding: _HEAD if coding == IDENTITY else (*_HEAD, (b"grpc-encoding", coding.encode()))
        for coding in CODINGS
    }
)
_OK: Final[tuple[Header, ...]] = ((b"grpc-status", b"0"),)
# Below this size, a copy is cheaper than another call.
_JOIN_BYTES: Final = 16 * 1024
# Characters that grpc-message contains unescaped: printable ASCII without the percent sign.
_UNQUOTED: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
# The client has reset the stream, or the session accepts nothing more.
_UNLESS_GONE: Final = contextlib.suppress(
    ngh2.StreamProtocolError, ngh2.ConnectionStateError, ngh2.ConnectionClosingError
)
_GOAWAY: Final = struct.Struct(">BHBBIII")
_GOAWAY_TYPE: Final = 7


def make_session(limits: Limits) -> ngh2.Connection:
    """A server's session with its limits, and its SETTINGS to be sent."""
    session = ngh2.Connection(
        ngh2.Role.SERVER,
        ngh2.Configuration(
            auto_window_update=False,
            stream_reset_rate_limit=limits.resets,
            max_inbound_header_list_size=limits.header_list_end_bytes,
            max_inbound_header_count=limits.header_end_count,
        ),
    )
    session.initiate_connection(
        {
            ngh2.Setting.MAX_CONCURRENT_STREAMS: limits.streams,
            ngh2.Setting.INITIAL_WINDOW_SIZE: limits.stream_window_bytes,
            ngh2.Setting.MAX_FRAME_SIZE: limits.frame_bytes,
            ngh2.Setting.MAX_HEADER_LIST_SIZE: limits.header_list_bytes,
        }
    )
    session.set_local_window_size(limits.connection_window_bytes)
    return session


def reply(session: ngh2.Connection, stream_id: int, frame: Frame, coding: str) -> None:
    """Send one message and the status OK."""
    with _UNLESS_GONE:
        session.send_response(stream_id, _HEADS[coding])
        _send_data(session, stream_id, frame)
        session.send_trailers(stream_id, _OK)


def begin(session: ngh2.Connection, stream_id: int, coding: str) -> None:
    """Send the headers of a response with several messages."""
    with _UNLESS_GONE:
        session.send_response(stream_id, _HEADS[coding])


def send(session: ngh2.Connection, stream_id: int, frame: Frame) -> None:
    """Send one of several messages."""
    with _UNLESS_GONE:
        _send_data(session, stream_id, frame)


def finish(
    session: ngh2.Connection, stream_id: int, fault: GrpcFault | None, *, has_head: bool
) -> None:
    """Send the status, together with the headers if nothing else was sent (Trailers-Only)."""
    trailers = _OK if fault is None else _trailers(fault)
    with _UNLESS_GONE:
        if has_head:
            session.send_trailers(stream_id, trailers)
        else:
            session.send_response(stream_id, (*_HEAD, *trailers), end_stream=True)


def refuse(session: ngh2.Connection, stream_id: int, refusal: HttpRefusal) -> None:
    """Send an HTTP response to a request that is not gRPC."""
    headers = (
        (b":status", b"%d" % refusal.status),
        (b"content-type", b"text/plain"),
        *(((b"allow", b"POST"),) if refusal.status == 405 else ()),
    )
    with _UNLESS_GONE:
        session.send_response(stream_id, headers)
        session.send_data(stream_id, refusal.message.encode(), end_stream=True)


def stop_reading(session: ngh2.Connection, stream_id: int) -> None:
    """Tell the client to stop sending an unread body (RFC 9113, 8.1)."""
    with _UNLESS_GONE:
        session.reset_stream(stream_id, ngh2.ErrorCode.NO_ERROR)


def acknowledge(session: ngh2.Connection, stream_id: int, size: int) -> None:
    """Let the client send this many more bytes."""
    with _UNLESS_GONE:
        session.acknowledge_received_data(size, stream_id)


def announce_end(session: ngh2.Connection, ping: bytes) -> None:
    """Tell the client to start no more calls, and ping it to learn when it has read that."""
    with _UNLESS_GONE:
        session.send_shutdown_notice()
        session.ping(ping)


def end(session: ngh2.Connection) -> None:
    """Tell the client which call was the last."""
    with _UNLESS_GONE:
        session.send_goaway()


def terminate(session: ngh2.Connection, code: ngh2.ErrorCode) -> None:
    """Tell the client why the connection ends."""
    with _UNLESS_GONE:
        session.terminate_connection(code)


def error_code(error: ngh2.NGH2Error) -> ngh2.ErrorCode:
    """The GOAWAY code for the error that ended a session."""
    if isinstance(error, ngh2.DenialOfServiceError):
        return ngh2.ErrorCode.ENHANCE_YOUR_CALM
    if isinstance(error, ngh2.ProtocolError):
        return ngh2.ErrorCode.PROTOCOL_ERROR
    return ngh2.ErrorCode.INTERNAL_ERROR


def goaway_frame(last_stream_id: int, code: ngh2.ErrorCode) -> bytes:
    """A GOAWAY frame, for a session that can no longer create one (RFC 9113, 6.8)."""
    size = 2 * 4
    return _GOAWAY.pack(0, size, _GOAWAY_TYPE, 0, 0, last_stream_id, code)


def percent_encode(message: str) -> bytes:
    """A status message in the encoding of grpc-message: "50 %" is "50 %25"."""
    return quote(message, safe=_UNQUOTED).encode()


def _send_data(session: ngh2.Connection, stream_id: int, frame: Frame) -> None:
    prefix, payload = frame
    if len(payload) <= _JOIN_BYTES:
        session.send_data(stream_id, prefix + payload)
    else:
        session.send_data(stream_id, prefix)
        session.send_data(stream_id, payload)


def _trailers(fault: GrpcFault) -> tuple[Header, ...]:
    return (
        (b"grpc-status", b"%d" % NUMBERS[fault.code]),
        (b"grpc-message", percent_encode(status.shortened(fault.message))),
    )
