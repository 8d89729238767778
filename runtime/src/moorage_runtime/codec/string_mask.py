r"""Which bytes of a JSON text stand in strings, told for many bytes at once.

::

    ["a,b", "\"["]      text
    [sssss, sssss]      mask

A quotation mark without a backslash before it opens a string or closes one, so a byte stands in a
string where the number of such marks before it is odd. The text is given in chunks, at any places;
between two of them other threads get their turn. Pure.

Of malformed text the mask is right up to the place where a parser stops.
"""

from typing import Final

import numpy as np

# No byte that structure is made of. It also replaces escapes, of which only the length counts.
_FILLER: Final = ord("s")
_QUOTE: Final = ord('"')


class StringMask:
    """Masks a text chunk by chunk; the first one begins outside of strings."""

    def __init__(self) -> None:
        self._is_inside = False
        self._is_escaped = False

    def of(self, chunk: bytes) -> bytes:
        """The next chunk with an ``s`` for each byte of a string and for its quotation marks."""
        if self._is_escaped:
            chunk = b"s" + chunk[1:]
            self._is_escaped = False
        if b"\\" in chunk:
            chunk = chunk.replace(b"\\\\", b"ss").replace(b'\\"', b"ss")
            self._is_escaped = chunk.endswith(b"\\")
        codes = np.frombuffer(chunk, np.uint8)
        is_quote = codes == _QUOTE
        # sums wrap at 256, which leaves odd what is odd
        counts = np.cumsum(is_quote, dtype=np.uint8)
        if self._is_inside:
            counts += 1
        is_inside = (counts & 1).astype(np.bool_)
        self._is_inside = bool(is_inside[-1])
        return np.where(is_inside | is_quote, np.uint8(_FILLER), codes).tobytes()
