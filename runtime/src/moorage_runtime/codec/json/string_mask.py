r"""Marks the bytes of a JSON text that are inside strings, for many bytes at once.

::

    ["a,b", "\"["]      text
    [sssss, sssss]      mask

An unescaped quotation mark opens or closes a string, so a byte is inside a string if the number
of such marks before it is odd. The text is passed in chunks of any size, and other threads can run
between them. Pure.

For malformed text, the mask is correct up to the position at which a parser stops.
"""

from typing import Final

import numpy as np

# Not a structural byte. It also replaces escapes, of which only the length matters.
_FILLER: Final = ord("s")
_QUOTE: Final = ord('"')


class StringMask:
    """Masks a text chunk by chunk; the first chunk starts outside of strings."""

    def __init__(self) -> None:
        self._is_inside = False
        self._is_escaped = False

    def of(self, chunk: bytes) -> bytes:
        """The next chunk, with an ``s`` for each byte of a string and for its quotation marks."""
        if self._is_escaped:
            chunk = b"s" + chunk[1:]
            self._is_escaped = False
        if b"\\" in chunk:
            chunk = chunk.replace(b"\\\\", b"ss").replace(b'\\"', b"ss")
            self._is_escaped = chunk.endswith(b"\\")
        codes = np.frombuffer(chunk, np.uint8)
        is_quote = codes == _QUOTE
        # sums wrap at 256, which does not change whether they are odd
        counts = np.cumsum(is_quote, dtype=np.uint8)
        if self._is_inside:
            counts += 1
        is_inside = (counts & 1).astype(np.bool_)
        self._is_inside = bool(is_inside[-1])
        return np.where(is_inside | is_quote, np.uint8(_FILLER), codes).tobytes()
