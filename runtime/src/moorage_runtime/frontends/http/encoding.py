"""Content codings of responses, and which of them a client accepts. Pure, but CPU-intensive.

Source: RFC 9110, 8.4. ``deflate`` is the zlib format, as specified there.
"""

import zlib
from typing import Final

from moorage_runtime.codec.unpack.inflate import BITS

ACCEPTED: Final = b"gzip, deflate"
# Fastest level, because the client waits; it achieves most of the gain.
_FASTEST: Final = 1


def is_identity(coding: str) -> bool:
    """Whether the body is not encoded."""
    return coding.strip().lower() in {"", "identity"}


def choose(accept_encoding: str) -> str:
    """The coding for a response: "gzip", "deflate" or "" for none.

    A weight of 0 excludes a coding. Other weights are ignored, and gzip is preferred.
    """
    accepted: set[str] = set()
    for item in accept_encoding.lower().split(","):
        name, _, parameters = item.partition(";")
        weight = parameters.strip().removeprefix("q=")
        if weight.strip("0.") or not parameters:
            accepted.add(name.strip())
    return next((name for name in ("gzip", "deflate") if name in accepted), "")


def compress(parts: list[bytes | memoryview], coding: str) -> bytes:
    """The parts as one compressed body in the coding from :func:`choose`."""
    stream = zlib.compressobj(_FASTEST, wbits=BITS[coding])
    pieces = [stream.compress(part) for part in parts]
    return b"".join([*pieces, stream.flush()])
