"""A call's request headers as a value, or why they cannot be served. Pure.

Source: "gRPC over HTTP2", Requests; HTTP statuses as there: what is no gRPC at all gets one, a
call that cannot be served gets a gRPC status.
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
# "application/grpc+proto" and parameters belong to gRPC, "application/grpc-web" does not.
_CONTENT_TYPES: Final = (b"application/grpc+", b"application/grpc;")
_UNIT_SECONDS: Final[Mapping[str, float]] = MappingProxyType(
    {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
)
_TIMEOUT_DIGITS: Final = 8
# A client gives the same timeout to all its calls, or a few.
_REMEMBERED_HEADS: Final = 256
# What a header counts beside its name and value (RFC 9113, 6.5.2).
_FIELD_BYTES: Final = 32
_SHOWN_CHARACTERS: Final = 60


class CallHead(msgspec.Struct, frozen=True, gc=False):
    """What the headers say of a call.

    Attributes:
        coding: How messages whose flag says so are compressed: one of CODINGS.
        timeout_seconds: Time from now in which the client wants its answer, None for any.
    """

    coding: str
    timeout_seconds: float | None


class HttpRefusal(Exception):
    """The request is no gRPC call.

    Attributes:
        status: HTTP status code.
        message: Text for the client.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def parse_head(fields: Mapping[bytes, bytes]) -> CallHead:
    """The call's head.

    Args:
        fields: Lower-case header names, pseudo-headers included, to values.

    Raises:
        HttpRefusal: The request is no gRPC call.
        GrpcFault: The call cannot be served.
    """
    if fields.get(b":method") != b"POST":
        raise HttpRefusal(405, "expected a gRPC call, whose method is POST")
    kind = fields.get(b"content-type", b"")
    if kind != _CONTENT_TYPE and not kind.startswith(_CONTENT_TYPES):
        raise HttpRefusal(415, f"content-type is {_shown(kind)}, expected application/grpc")
    return _head(fields.get(b"grpc-encoding"), fields.get(b"grpc-timeout"))


@functools.lru_cache(_REMEMBERED_HEADS)
def _head(coding: bytes | None, timeout: bytes | None) -> CallHead:
    return CallHead(
        IDENTITY if coding is None else _coding(coding),
        None if timeout is None else parse_timeout(timeout.decode("latin-1")),
    )


def check_size(fields: Mapping[bytes, bytes], limit_bytes: int) -> None:
    """Refuse a call whose headers are too large, each counted with 32 bytes as RFC 9113 does.

    Raises:
        GrpcFault: RESOURCE_EXHAUSTED.
    """
    # joining is the quickest way to a sum of lengths
    size = len(b"".join(fields)) + len(b"".join(fields.values())) + _FIELD_BYTES * len(fields)
    if size > limit_bytes:
        raise GrpcFault(
            "RESOURCE_EXHAUSTED", f"the call's headers have {size} bytes, expected {limit_bytes}"
        )


def parse_timeout(text: str) -> float:
    """Seconds that a grpc-timeout stands for: "100m" is 0.1.

    Raises:
        GrpcFault: INVALID_ARGUMENT, it is not of the form.
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
            f"grpc-timeout is {text[:_SHOWN_CHARACTERS]!r}, expected at most 8 digits and one of "
            f"{', '.join(_UNIT_SECONDS)}",
        )
    return int(digits) * scale


def metadata(fields: Mapping[bytes, bytes]) -> dict[str, str]:
    """The call's metadata that is text: neither pseudo-headers nor binary values."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in fields.items()
        if not name.startswith(b":") and not name.endswith(b"-bin")
    }


def _coding(value: bytes) -> str:
    coding = value.decode("latin-1")
    if coding not in CODINGS:
        raise GrpcFault(
            "UNIMPLEMENTED", f"grpc-encoding is {_shown(value)}, expected {', '.join(CODINGS)}"
        )
    return coding


def _shown(value: bytes) -> str:
    return repr(value[:_SHOWN_CHARACTERS].decode("latin-1"))
