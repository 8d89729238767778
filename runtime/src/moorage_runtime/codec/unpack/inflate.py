"""Decompresses gzip and deflate in limited steps, with limits on output and members. Pure.

    inflater = Inflater(body, "gzip", limit_bytes)
    while not inflater.advance(step_bytes): ...
    inflater.result()

The caller selects the thread for the steps, and stops between two of them if the result is not
needed any more.

Source: RFC 9110, 8.4. ``deflate`` is the zlib format, as specified there; raw deflate is not
accepted. RFC 1952, 2.2: a gzip file is a sequence of members.
"""

import zlib
from typing import Final

from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge, UnsupportedEncoding

_GZIP_BITS: Final = 31  # zlib's code for the gzip format with the largest window
_ZLIB_BITS: Final = 15
BITS: Final = {"gzip": _GZIP_BITS, "x-gzip": _GZIP_BITS, "deflate": _ZLIB_BITS}
# zlib copies input that a call does not consume, so each call gets only a little.
_INPUT_BYTES: Final = 16 * 1024

Buffer = bytes | bytearray | memoryview


class Inflater:
    """Decompresses one body.

    Args:
        body: The compressed bytes.
        coding: Value of Content-Encoding or grpc-encoding.
        limit_bytes: Maximum size of the result.

    Raises:
        UnsupportedEncoding: The coding is not gzip or deflate, or there are several.
    """

    def __init__(self, body: Buffer, coding: str, limit_bytes: int) -> None:
        bits = BITS.get(coding.strip().lower())
        if bits is None:
            raise UnsupportedEncoding(
                f"Content-Encoding {coding[:80]!r} is not supported: must be gzip or deflate"
            )
        self._bits = bits
        self._coding = coding
        self._limit_bytes = limit_bytes
        self._rest = memoryview(body)
        self._stream = zlib.decompressobj(bits)
        self._members = 1
        self._parts: list[bytes] = []
        self._size = 0
        self._is_done = False

    def advance(self, step_bytes: int) -> bool:
        """Decompress about this many bytes more; return whether the result is complete.

        Raises:
            PayloadTooLarge: The result exceeds the limit, or there are too many members.
            InvalidRequest: The data is corrupt or truncated.
        """
        left = step_bytes
        while left > 0 and not self._is_done:
            left -= self._step(left)
        return self._is_done

    def result(self) -> bytes:
        """The decompressed body, after ``advance`` has returned True."""
        return b"".join(self._parts)

    def _step(self, most_bytes: int) -> int:
        """One call of zlib; returns the input and output bytes, as a measure of its time."""
        given = self._rest[:_INPUT_BYTES]
        stream = self._stream
        try:
            part = stream.decompress(given, min(most_bytes, self._limit_bytes - self._size + 1))
        except zlib.error as error:
            raise InvalidRequest(f"the {self._coding} body is corrupt") from error
        # at the end of a member, both may contain the same bytes
        taken = len(given) - len(stream.unused_data if stream.eof else stream.unconsumed_tail)
        self._rest = self._rest[taken:]
        if part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > self._limit_bytes:
                raise PayloadTooLarge(
                    f"the decompressed body is too large: must have {self._limit_bytes} "
                    "bytes or fewer"
                )
        if stream.eof:
            self._end_member()
        elif not taken and not part:
            raise InvalidRequest(f"the {self._coding} body is truncated")
        return taken + len(part)

    def _end_member(self) -> None:
        if not self._rest:
            self._is_done = True
            return
        if self._bits == _ZLIB_BITS:
            raise InvalidRequest(
                f"the {self._coding} body has {len(self._rest)} bytes after its end"
            )
        self._members += 1
        if self._members > limits.GZIP_MEMBERS:
            raise PayloadTooLarge(
                f"the {self._coding} body has too many members: must have "
                f"{limits.GZIP_MEMBERS} or fewer"
            )
        self._stream = zlib.decompressobj(self._bits)


def inflate(body: Buffer, coding: str, limit_bytes: int) -> bytes:
    """The whole result at once; raises like :class:`Inflater`."""
    inflater = Inflater(body, coding, limit_bytes)
    while not inflater.advance(limit_bytes + 1):
        pass
    return inflater.result()
