"""gRPC's length-prefixed messages: parsing and framing.

::

    message = compressed length payload
    compressed = %x00 / %x01
    length = 4 bytes, big-endian

A payload that arrives in one piece is not copied; one that arrives in several pieces is joined
once.

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


# A payload of many frames is assembled as they arrive, while they are in the CPU cache.
_ROOM_FROM_BYTES: Final = 64 * 1024


# Prefix and payload, separate so that a large payload is not copied.
Frame = tuple[bytes, bytes]


class Payload(msgspec.Struct, frozen=True, gc=False):
    """One message as received."""

    data: Message
    is_compressed: bool


_NOT_COMPRESSED: Final = b"\0"
_NONE: Final[Sequence[Payload]] = ()


class MessageReader:
    """Finds the messages in the bytes of one call.

    Args:
        limit_bytes: Maximum size of a payload.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._prefix = b""
        self._size = 0
        self._is_compressed = False
        self._parts: list[bytes] = []
        self._room: memoryview | None = (
            None  # buffer for a large payload, instead of a list of parts
        )
        self._missing = -1  # missing bytes of the payload; -1 before the prefix is complete
        self.received_bytes = 0

    @property
    def is_between(self) -> bool:
        """Whether the bytes so far end at the end of a message."""
        return self._missing < 0 and not self._prefix

    @property
    def held_bytes(self) -> int:
        """Bytes of the message that is not complete."""
        return self._size - self._missing if self._missing >= 0 else 0

    def feed(self, data: bytes, *, is_last: bool = False) -> Sequence[Payload]:
        """The messages that the bytes complete.

        Raises:
            GrpcFault: A message is too large, its prefix is invalid, or the body ends within a
                message.
        """
        self.received_bytes += len(data)
        # The two common cases are handled first: a frame of a large message, and a message in one
        # frame.
        if len(data) < self._missing and not is_last:
            self._keep(data)
            return _NONE
        if self.is_between and data[:1] == _NOT_COMPRESSED and len(data) >= PREFIX_BYTES:
            size = int.from_bytes(data[1:PREFIX_BYTES], "big")
            if size == len(data) - PREFIX_BYTES and size <= self._limit_bytes:
                return (Payload(data[PREFIX_BYTES:], is_compressed=False),)
        found: list[Payload] = []
        at = 0
        while at < len(data):
            if self._missing < 0:
                at = self._take_prefix(data, at)
                if self._missing < 0:
                    break
            part = data[at : at + self._missing]
            at += len(part)
            self._keep(part)
            if self._missing:
                break
            found.append(Payload(self._whole(), self._is_compressed))
        if is_last and not self.is_between:
            raise GrpcFault("INTERNAL", "the call ends within a message")
        return found

    def _keep(self, part: bytes) -> None:
        """Store the next bytes of a payload."""
        if self._room is None:
            self._parts.append(part)
        else:
            start = len(self._room) - self._missing
            self._room[start : start + len(part)] = part
        self._missing -= len(part)

    def _whole(self) -> Message:
        """The complete payload."""
        whole: Message
        if self._room is not None:
            whole, self._room = self._room, None
        else:
            whole = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
        self._missing = -1
        return whole

    def _take_prefix(self, data: bytes, at: int) -> int:
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
        self._missing = self._size = size
        if size >= _ROOM_FROM_BYTES and size > len(data) - stop:
            self._room = memory_for(size, size)
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
