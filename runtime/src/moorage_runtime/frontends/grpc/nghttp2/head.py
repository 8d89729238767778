"""Parses the request headers of a call. Pure.

Source: "gRPC over HTTP2", Requests. As specified there, a request that is not gRPC gets an HTTP
status, and a call that cannot be served gets a gRPC status.
"""

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from moorage_runtime.frontends.grpc.methods import GrpcFault

IDENTITY: Final = "identity"
CODINGS: Final = (IDENTITY, "deflate", "gzip")
ACCEPTED: Final = ",".join(CODINGS).encode()

_CONTENT_TYPE: Final = b"application/grpc"
# "application/grpc+proto" and parameters are gRPC, "application/grpc-web" is not.
_CONTENT_TYPES: Final = (b"application/grpc+", b"application/grpc;")
_UNIT_SECONDS: Final[Mapping[str, float]] = MappingProxyType(
    {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
)
_TIMEOUT_DIGITS: Final = 8
# A client uses only a few different timeouts.
_REMEMBERED_HEADS: Final = 256
# Overhead per header, in addition to its name and value (RFC 9113, 6.5.2).
FIELD_BYTES: Final = 32
_SHOWN_CHARACTERS: Final = 60
# Of names and values: each byte is a character.
_ENCODING: Final = "latin-1"


class CallHead(msgspec.Struct, frozen=True, gc=False):
    """The parsed headers of a call.

    Attributes:
        coding: Compression of messages with the compressed flag: one of CODINGS.
        timeout_seconds: Deadline of the client, in seconds from now; None without one.
    """

    coding: str
    timeout_seconds: float | None


class HttpRefusal(Exception):
    """The request is not a gRPC call.

    Attributes:
        status: HTTP status code.
        message: Text for the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def parse_head(fields: Mapping[bytes, bytes]) -> CallHead:
    """Parse the headers of a call.

    Args:
        fields: Lower-case header names, including pseudo-headers, to values.

    Raises:
        HttpRefusal: The request is not a gRPC call.
        GrpcFault: The call cannot be served.
    """
    if fields.get(b":method") != b"POST":
        raise HttpRefusal(405, "not a gRPC call: the method must be POST")
    kind = fields.get(b"content-type", b"")
    if kind != _CONTENT_TYPE and not kind.startswith(_CONTENT_TYPES):
        raise HttpRefusal(415, f"content-type is {_shown(kind)}: must be application/grpc")
    return _head(fields.get(b"grpc-encoding"), fields.get(b"grpc-timeout"))


@functools.lru_cache(_REMEMBERED_HEADS)
def _head(coding: bytes | None, timeout: bytes | None) -> CallHead:
    return CallHead(
        IDENTITY if coding is None else _coding(coding),
        None if timeout is None else parse_timeout(timeout.decode(_ENCODING)),
    )


def check_size(
    fields: Mapping[bytes, bytes], count: int, limit_bytes: int, limit_count: int
) -> None:
    """Refuse a call whose headers are too large or too many.

    Args:
        fields: The headers.
        count: Number of header lines; lines with the same name are one field.
        limit_bytes: Maximum size; each header counts 32 bytes more, as in RFC 9113.
        limit_count: Maximum number of lines.

    Raises:
        GrpcFault: RESOURCE_EXHAUSTED.
    """
    if count > limit_count:
        raise GrpcFault(
            "RESOURCE_EXHAUSTED",
            f"the call has {count} headers: must have {limit_count} or fewer",
        )
    # joining is the fastest way to add up lengths
    size = len(b"".join(fields)) + len(b"".join(fields.values())) + FIELD_BYTES * len(fields)
    if size > limit_bytes:
        raise GrpcFault(
            "RESOURCE_EXHAUSTED",
            f"the call's headers have {size} bytes: must have {limit_bytes} or fewer",
        )


def parse_timeout(text: str) -> float:
    """Parse a grpc-timeout into seconds: "100m" is 0.1.

    Raises:
        GrpcFault: INVALID_ARGUMENT for an invalid value.
    """
    digits, unit = text[:-1], text[-1:]
    scale = _UNIT_SECONDS.get(unit)
    if (
        scale is None
        or len(digits) > _TIMEOUT_DIGITS
        or not (digits.isascii() and digits.isdigit())
    ):
        raise GrpcFault(
            "INVALID_ARGUMENT",
            f"grpc-timeout is {text[:_SHOWN_CHARACTERS]!r}: must be at most 8 digits and one of "
            f"{', '.join(_UNIT_SECONDS)}",
        )
    return int(digits) * scale


def metadata(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """The call's text metadata, without pseudo-headers and binary values."""
    return {
        name.decode(_ENCODING): value.decode(_ENCODING)
        for name, value in fields.items()
        if not name.startswith(b":") and not name.endswith(b"-bin")
    }


def _coding(value: bytes) -> str:
    coding = value.decode(_ENCODING)
    if coding not in CODINGS:
        raise GrpcFault(
            "UNIMPLEMENTED",
            f"grpc-encoding is {_shown(value)}: must be one of {', '.join(CODINGS)}",
        )
    return coding


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN_CHARACTERS].decode(_ENCODING))
