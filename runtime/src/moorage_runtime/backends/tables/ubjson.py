"""Reads UBJSON strictly: XGBoost's own reader reads beyond the end of an incomplete document.

Pure. Source: ubjson.org, "Type Reference" and "Container Types", with the optimized arrays that
XGBoost writes: ``[$d#L<count>`` and as many numbers, which become numpy arrays.
"""

from typing import Any, Final

import numpy as np

# Marker -> the numbers after it.
_NUMBERS: Final = {
    b"i": np.dtype("i1"),
    b"U": np.dtype("u1"),
    b"C": np.dtype("u1"),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
_CONSTANTS: Final = {b"Z": None, b"T": True, b"F": False}
_LENGTHS: Final = (b"i", b"U", b"I", b"l", b"L")
_DEPTH: Final = 64


def decode(data: bytes) -> dict[str, Any]:
    """The content of one document, which must be an object.

    Raises:
        ValueError: It is incomplete or invalid; the message has the position.
    """
    reader = _Reader(data)
    if not data.startswith(b"{"):
        raise ValueError("the first byte must be '{'")
    found = reader.value(_DEPTH)
    if reader.place != len(data):
        raise ValueError(f"byte {reader.place}: the document ends, but the file does not")
    return found


class _Reader:
    """Walks through a document.

    Attributes:
        place: Position of the next byte.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def value(self, depth: int) -> Any:
        """One value with its marker."""
        return self._content(self._take(1), depth)

    def _content(self, marker: bytes, depth: int) -> Any:
        if marker in _NUMBERS:
            return self._numbers(marker, 1)[0].item()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker in (b"S", b"H"):
            return self._text()
        if marker == b"[" and depth:
            return self._array(depth - 1)
        if marker == b"{" and depth:
            return self._object(depth - 1)
        raise ValueError(f"byte {self.place - 1}: {marker!r} is no type")

    def _array(self, depth: int) -> Any:
        kind, count = self._header()
        if kind in _NUMBERS and count is not None:
            return self._numbers(kind, count)
        found: list[Any] = []
        while not self._ends(b"]", count, len(found)):
            found.append(self._content(kind, depth) if kind else self.value(depth))
        return found

    def _object(self, depth: int) -> dict[str, Any]:
        kind, count = self._header()
        found: dict[str, Any] = {}
        read = 0
        while not self._ends(b"}", count, read):
            name = self._text()
            found[name] = self._content(kind, depth) if kind else self.value(depth)
            read += 1
        return found

    def _header(self) -> tuple[bytes, int | None]:
        """The type and the count of a container, if it has them."""
        kind = self._take(1) if self._skip(b"$") else b""
        if self._skip(b"#"):
            count = self._length()
            if kind in _CONSTANTS:
                raise ValueError(f"byte {self.place}: {kind!r} is no type of several values")
            return kind, count
        if kind:
            raise ValueError(f"byte {self.place}: a type must be followed by a count")
        return kind, None

    def _ends(self, marker: bytes, count: int | None, read: int) -> bool:
        return self._skip(marker) if count is None else read >= count

    def _numbers(self, marker: bytes, count: int) -> Any:
        dtype = _NUMBERS[marker]
        return np.frombuffer(self._take(count * dtype.itemsize), dtype)

    def _text(self) -> str:
        data = self._take(self._length())
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"byte {self.place - len(data)}: the text is not UTF-8") from error

    def _length(self) -> int:
        marker = self._take(1)
        if marker not in _LENGTHS:
            raise ValueError(f"byte {self.place - 1}: {marker!r} is no type of a length")
        length = int(self._numbers(marker, 1)[0])
        if length < 0:
            raise ValueError(f"byte {self.place}: a length is {length}")
        return length

    def _skip(self, marker: bytes) -> bool:
        found = self._data[self.place : self.place + 1] == marker
        self.place += found
        return found

    def _take(self, count: int) -> bytes:
        end = self.place + count
        if end > len(self._data):
            raise ValueError(
                f"byte {self.place}: {count} bytes must follow: the file is incomplete"
            )
        found = self._data[self.place : end]
        self.place = end
        return found
