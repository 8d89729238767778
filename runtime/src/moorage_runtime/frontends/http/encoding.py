"""Content codings: gzip and deflate request bodies and responses. Pure, but it takes time.

Source: RFC 9110, 8.4. ``deflate`` is the zlib format, as there; bare deflate is not accepted.
"""

import zlib
from typing import Final

from moorage_runtime.errors import InvalidRequest, PayloadTooLarge, UnsupportedEncoding

ACCEPTED: Final = b"gzip, deflate"
_GZIP_BITS: Final = 31  # zlib's sign for the gzip format with the largest window
_ZLIB_BITS: Final = 15
_BITS: Final = {"gzip": _GZIP_BITS, "x-gzip": _GZIP_BITS, "deflate": _ZLIB_BITS}
# Responses are compressed while a client waits: most of the gain for the least time.
_FASTEST: Final = 1

Buffer = bytes | bytearray | memoryview


def is_identity(coding: str) -> bool:
    """Whether the body is as it is."""
    return coding.strip().lower() in {"", "identity"}


def decompress(body: Buffer, coding: str, limit_bytes: int) -> bytes:
    """The decompressed body; no more memory than the limit is used for it.

    Raises:
        UnsupportedEncoding: The coding is not gzip or deflate, or there are several.
        PayloadTooLarge: The result is larger than the limit.
        InvalidRequest: The data is corrupt or truncated.
    """
    bits = _BITS.get(coding.strip().lower())
    if bits is None:
        raise UnsupportedEncoding(f"Content-Encoding {coding[:80]!r} is not gzip or deflate")
    parts: list[bytes] = []
    room = limit_bytes
    rest: Buffer = body
    while True:
        stream = zlib.decompressobj(bits)
        try:
            part = stream.decompress(rest, room + 1)
        except zlib.error as error:
            raise InvalidRequest(f"the {coding} body is corrupt: {error}") from error
        room -= len(part)
        if room < 0:
            raise PayloadTooLarge(f"the decompressed body is larger than {limit_bytes} bytes")
        if not stream.eof:
            raise InvalidRequest(f"the {coding} body is truncated")
        parts.append(part)
        rest = stream.unused_data
        # a gzip file may have several members, one after the other (RFC 1952, 2.2)
        if not rest or bits == _ZLIB_BITS:
            break
    if rest:
        raise InvalidRequest(f"the {coding} body has {len(rest)} bytes after its end")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def choose(accept_encoding: str) -> str:
    """The coding for a response: "gzip", "deflate" or "" for none.

    A weight of 0 excludes a coding; other weights are not compared, gzip comes first.
    """
    accepted: set[str] = set()
    for item in accept_encoding.lower().split(","):
        name, _, parameters = item.partition(";")
        weight = parameters.strip().removeprefix("q=")
        if weight.strip("0.") or not parameters:
            accepted.add(name.strip())
    return next((name for name in ("gzip", "deflate") if name in accepted), "")


def compress(parts: list[bytes | memoryview], coding: str) -> bytes:
    """The parts as one compressed body in the coding that :func:`choose` gave."""
    stream = zlib.compressobj(_FASTEST, wbits=_BITS[coding])
    pieces = [stream.compress(part) for part in parts]
    return b"".join([*pieces, stream.flush()])
