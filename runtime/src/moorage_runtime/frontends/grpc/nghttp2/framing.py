"""gRPC's length-prefixed messages: parsing and framing.

::

    message = compressed length payload
    compressed = %x00 / %x01
    length = 4 bytes, big-endian

A payload that arrives in several pieces is assembled as they arrive, while they are in the CPU
cache.

Source: "gRPC over HTTP2", Length-Prefixed-Message.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from moorage_runtime.frontends import unpacking
from moorage_runtime.frontends.grpc.methods import GrpcFault, Message
from moorage_runtime.frontends.grpc.nghttp2.head import IDENTITY
from moorage_runtime.frontends.http import encoding
from moorage_runtime.frontends.http.body_memory import memory_for
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge

_PREFIX: Final = struct.Struct(">BI")
PREFIX_BYTES: Final = _PREFIX.size
# Compression of shorter responses gains nothing.
_COMPRESS_FROM_BYTES: Final = 1024

# Prefix and payload, separate so that a large payload is not copied.
Frame = tuple[bytes, bytes]


class Payload(msgspec.Struct, frozen=True, gc=False):
    """One message as received."""

    data: Message
    is_compressed: bool


class MessageReader:
    """Finds the messages in the bytes of one call.

    Args:
        limit_bytes: Maximum size of a payload.

    Attributes:
        received_bytes: Number of bytes so far.
        held_bytes: How many of them belong to a payload that is not complete.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.received_bytes = 0
        self.held_bytes = 0
        self._limit_bytes = limit_bytes
        self._prefix = b""  # the part of a prefix that has arrived
        self._missing = 0  # missing bytes of a payload whose prefix is complete
        self._room: memoryview | None = None  # memory of a payload that arrives in pieces

    @property
    def is_between(self) -> bool:
        """Whether the bytes so far end at the end of a message."""
        return not (self._missing or self._prefix)

    def feed(self, data: bytes, *, is_last: bool = False) -> Sequence[Payload]:
        """The messages that the bytes complete.

        Raises:
            GrpcFault: A message is too large, its prefix is invalid, or the body ends within a
                message.
        """
        self.received_bytes += len(data)
        found: list[Payload] = []
        at = 0
        while at < len(data):
            if not self._missing:
                at = self._take_prefix(data, at)
                if self._prefix:
                    break
            part = data[at : at + self._missing]
            at += len(part)
            whole = self._keep(part)
            if whole is not None:
                found.append(Payload(whole, self._is_compressed))
        if is_last and not self.is_between:
            raise GrpcFault("INTERNAL", "the call ends within a message")
        return found

    def _keep(self, part: bytes) -> Message | None:
        """Store the next bytes of a payload; the payload when it is complete."""
        if self._room is None:
            if len(part) == self._missing:
                self._missing = 0
                return part
            self._room = memory_for(self._missing, self._missing)
        start = self.held_bytes
        self.held_bytes += len(part)
        self._room[start : self.held_bytes] = part
        self._missing -= len(part)
        if self._missing:
            return None
        whole, self._room, self.held_bytes = self._room, None, 0
        return whole

    def _take_prefix(self, data: bytes, at: int) -> int:
        """Read a prefix or its next bytes; the index of the byte that follows."""
        stop = at + PREFIX_BYTES - len(self._prefix)
        self._prefix += data[at:stop]
        if len(self._prefix) < PREFIX_BYTES:
            return len(data)
        flag, size = _PREFIX.unpack(self._prefix)
        self._prefix = b""
        if flag > 1:
            raise GrpcFault(
                "INTERNAL", f"the compressed flag of a message is {flag}: must be 0 or 1"
            )
        if size > self._limit_bytes:
            raise GrpcFault(
                "RESOURCE_EXHAUSTED",
                f"a message has {size} bytes: must have {self._limit_bytes} or fewer",
            )
        self._is_compressed = flag == 1
        self._missing = size
        return stop


async def decompress(payload: Payload, coding: str, limit_bytes: int) -> Message:
    """The decompressed message.

    Raises:
        GrpcFault: It is compressed, but the call's headers name no coding; it is corrupt; or it
            exceeds the limit.
    """
    if not payload.is_compressed:
        return payload.data
    if coding == IDENTITY:
        # the code that gRPC's compression document requires
        raise GrpcFault("INTERNAL", "a message is compressed, but grpc-encoding is not set")
    try:
        return await unpacking.inflate(payload.data, coding, limit_bytes)
    except InvalidRequest as error:
        raise GrpcFault(
            "INTERNAL", f"a message cannot be decompressed: {error.message}"
        ) from error
    except PayloadTooLarge as error:
        raise GrpcFault("RESOURCE_EXHAUSTED", error.message) from error


def frame(message: bytes, coding: str) -> Frame:
    """The prefix and the payload of a message, compressed if that is likely to help."""
    if coding == IDENTITY or len(message) < _COMPRESS_FROM_BYTES:
        return _PREFIX.pack(0, len(message)), message
    payload = encoding.compress([message], coding)
    return _PREFIX.pack(1, len(payload)), payload
