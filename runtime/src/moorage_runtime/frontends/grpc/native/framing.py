"""gRPC's length-prefixed messages: out of the bytes of one call, and into them. Pure.

::

    message = compressed length payload
    compressed = %x00 / %x01
    length = 4 bytes, big-endian

A payload is cut out of what came without a copy of its own where it came in one piece, and joined
once where it came in several.

Source: "gRPC over HTTP2", Length-Prefixed-Message.
"""

import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from moorage_runtime.errors import InvalidRequest, PayloadTooLarge
from moorage_runtime.frontends.grpc.methods import GrpcFault, Message
from moorage_runtime.frontends.grpc.native.head import IDENTITY
from moorage_runtime.frontends.http import encoding
from moorage_runtime.frontends.http.body_memory import memory_for

_PREFIX: Final = struct.Struct(">BI")
PREFIX_BYTES: Final = _PREFIX.size
# Shorter answers gain nothing from compression.
_COMPRESS_FROM_BYTES: Final = 1024


# A payload of many frames is put together as they come, while they are in the processor's cache.
_ROOM_FROM_BYTES: Final = 64 * 1024


# A message as it is sent: prefix and payload, apart so that a large one is not copied.
Frame = tuple[bytes, bytes]


class Payload(msgspec.Struct, frozen=True, gc=False):
    """One message as it came."""

    data: Message
    is_compressed: bool


_NOT_COMPRESSED: Final = b"\0"
_NONE: Final[Sequence[Payload]] = ()


class MessageReader:
    """Finds the messages in the bytes of one call.

    Args:
        limit_bytes: Largest payload.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._prefix = b""
        self._size = 0
        self._is_compressed = False
        self._parts: list[bytes] = []
        self._room: memoryview | None = None  # for all of a large payload, in place of its parts
        self._missing = -1  # bytes of the payload that have not come; -1 while the prefix has not
        self.received_bytes = 0

    @property
    def is_between(self) -> bool:
        """Whether the bytes so far end where a message ends."""
        return self._missing < 0 and not self._prefix

    def feed(self, data: bytes, *, is_last: bool = False) -> Sequence[Payload]:
        """The messages that the bytes complete.

        Raises:
            GrpcFault: A message is too large, its prefix makes no sense, or the last bytes end
                within a message.
        """
        self.received_bytes += len(data)
        # Of all that may come, one of many frames of a message, and a whole message in one frame,
        # are worth a shortcut.
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
        """Keep the next bytes of a payload."""
        if self._room is None:
            self._parts.append(part)
        else:
            start = len(self._room) - self._missing
            self._room[start : start + len(part)] = part
        self._missing -= len(part)

    def _whole(self) -> Message:
        """The payload, of which nothing is missing any more."""
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
            raise GrpcFault("INTERNAL", f"a message's compressed flag is {flag}, expected 0 or 1")
        if size > self._limit_bytes:
            raise GrpcFault(
                "RESOURCE_EXHAUSTED",
                f"a message has {size} bytes, expected at most {self._limit_bytes}",
            )
        self._is_compressed = flag == 1
        self._missing = size
        if size >= _ROOM_FROM_BYTES and size > len(data) - stop:
            self._room = memory_for(size, size)
        return stop


def decompress(payload: Payload, coding: str, limit_bytes: int) -> Message:
    """The message.

    Raises:
        GrpcFault: It is compressed though the call's head named no coding, it is corrupt, or it
            is larger than the limit.
    """
    if not payload.is_compressed:
        return payload.data
    if coding == IDENTITY:
        # the code that gRPC's compression document wants here
        raise GrpcFault("INTERNAL", "a message is compressed, but grpc-encoding names no coding")
    try:
        return encoding.decompress(payload.data, coding, limit_bytes)
    except InvalidRequest as error:
        raise GrpcFault(
            "INTERNAL", f"a message cannot be decompressed: {error.message}"
        ) from error
    except PayloadTooLarge as error:
        raise GrpcFault("RESOURCE_EXHAUSTED", error.message) from error


def frame(message: bytes, coding: str) -> Frame:
    """The prefix and the payload that carry a message, compressed where that may gain."""
    if coding == IDENTITY or len(message) < _COMPRESS_FROM_BYTES:
        return _PREFIX.pack(0, len(message)), message
    payload = encoding.compress([message], coding)
    return _PREFIX.pack(1, len(payload)), payload
