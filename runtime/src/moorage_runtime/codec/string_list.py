"""A long JSON list of strings as one array of bytes, read a piece at a time.

    json_lists -> find -> Found -> decode -> StringList -> oip_json, tfs_values, grps_json

Millions of short strings take a parser the better part of a second, in which no other thread of
the process gets its turn. So the list is cut at commas outside of strings into pieces of some ten
thousand bytes, and each is parsed and its strings are encoded before the next one is looked at.

Brackets within the list become blanks before it is read, after their nesting is checked, as
``number_list`` does. A list that holds other leaves than strings keeps its text alone, and what
is read of it is what Python's json gives. Pure.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime import string_arrays
from moorage_runtime.codec import list_nesting, list_text
from moorage_runtime.codec.list_text import MalformedListError
from moorage_runtime.codec.string_mask import StringMask

# Some thousand strings: about a millisecond.
_PIECE_BYTES: Final = 64 * 1024
# The first look, so that a short list costs little.
_GLANCE_BYTES: Final = 2 * 1024
_BLANKS: Final = b" \t\r\n"


class Found(msgspec.Struct, frozen=True):
    """Where a list stands in a body, and where it may be cut.

    Attributes:
        start: Its first bracket.
        stop: Behind its last bracket, or the end of the body that ends before the list does.
        cuts: Commas between leaves, a piece apart from each other.
        size: How many leaves there are, one more than commas.
        mask: The list with its strings masked where lists stand in it, else None.
        is_closed: Whether it has a last bracket.
    """

    start: int
    stop: int
    cuts: tuple[int, ...]
    size: int
    mask: bytes | None
    is_closed: bool

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Where each piece begins and ends, without the brackets and commas around it."""
        ends = (*self.cuts, self.stop - 1 if self.is_closed else self.stop)
        start = self.start + 1
        for end in ends:
            yield start, end
            start = end + 1


class StringList(msgspec.Struct, frozen=True):
    """The leaves of a list, in order.

    Attributes:
        body: Where the list stands.
        found: Where it stands there.
        shape: The shape of the nesting, ``(size,)`` of a flat list.
        strings: All leaves as UTF-8 in a flat array, None where one is no string or no text.
        is_text: Whether UTF-8 can hold every string; an unpaired surrogate it cannot.
    """

    body: bytes | bytearray
    found: Found
    shape: tuple[int, ...]
    strings: NDArray[Any] | None
    is_text: bool

    @property
    def size(self) -> int:
        """How many leaves there are."""
        return self.found.size

    def leaves(self) -> Iterator[Any]:
        """The leaves as Python's json gives them, read a piece at a time."""
        for text in self.texts():
            yield from list_text.read(b"[%b]" % text)

    def texts(self) -> Iterator[bytes]:
        """The leaves with the commas between them, a piece at a time."""
        for start, end in self.found.pieces():
            yield _flat_text(self.body, self.found, start, end)

    def tolist(self) -> list[Any]:
        """The list as Python's json gives it."""
        return list_text.nest(list(self.leaves()), self.shape)

    def elements(self) -> Iterable[Any]:
        """The elements of the list as Python's json gives them; of a flat one, piece by piece."""
        return self.leaves() if len(self.shape) == 1 else self.tolist()


def find(body: bytes | bytearray, start: int, piece_bytes: int = _PIECE_BYTES) -> Found | None:
    """The list that begins at this bracket; None where an object stands in it.

    Args:
        body: A JSON text.
        start: A bracket outside of strings.
        piece_bytes: About the size of the pieces that the list shall be read in.
    """
    scan = _Scan(body, start, piece_bytes)
    width = min(_GLANCE_BYTES, piece_bytes)
    while scan.depth:
        chunk = bytes(memoryview(body)[scan.position : scan.position + width])
        if not chunk:
            break
        width = piece_bytes
        if not scan.take(chunk):
            return None
    return scan.found()


def decode(body: bytes | bytearray, found: Found) -> StringList | None:
    """The strings of a list, None where another parser has to read it.

    Raises:
        MalformedListError: It is a flat list, and no valid JSON.
    """
    shape: tuple[int, ...] | None = (found.size,)
    if found.mask is not None:
        nesting = list_nesting.read(memoryview(found.mask)) if found.is_closed else None
        shape = None if nesting is None else nesting.shape
    if shape is None:
        return None
    strings: NDArray[Any] | None = string_arrays.make(found.size)
    filled = 0
    is_text = True
    for start, end in found.pieces():
        text = _flat_text(body, found, start, end)
        try:
            values = _read_piece(text, found, start, end)
        except MalformedListError:
            if found.mask is None:
                raise
            return None
        except ValueError:  # not UTF-8, or a number of thousands of digits
            return None
        if not values:
            if found.size == 1:  # nothing but blanks
                return None
            raise MalformedListError(end, "Expecting value")
        encoded = _encode(values)
        is_text = is_text and (encoded is not None or not _has_surrogate(values))
        if strings is not None and encoded is not None:
            strings[filled : filled + len(encoded)] = encoded
        else:
            strings = None
        filled += len(values)
    return StringList(body, found, shape, strings, is_text)


class _Scan:
    """What is known of a list that is looked through from its first bracket on."""

    def __init__(self, body: bytes | bytearray, start: int, piece_bytes: int) -> None:
        self.position = start
        self.depth = 1
        self._start = start
        self._piece_bytes = piece_bytes
        self._mask = StringMask()
        self._masks: list[bytes] = []
        self._cuts: list[int] = []
        self._commas = 0
        opening = body[start + 1 : start + 1 + _GLANCE_BYTES].lstrip(_BLANKS)
        self._is_nested = opening.startswith(b"[")

    def take(self, chunk: bytes) -> bool:
        """Look at the next bytes; whether the list may still be one of strings."""
        mask = self._mask.of(chunk)
        end = self._end(mask)
        mask = mask[:end]
        is_first = self.position == self._start
        if b"{" in mask or (not self._is_nested and mask.find(b"[", is_first) >= 0):
            return False
        self._commas += mask.count(b",")
        comma = mask.rfind(b",")
        last = self._cuts[-1] if self._cuts else self._start
        if comma >= 0 and self.position + comma - last >= self._piece_bytes // 2:
            self._cuts.append(self.position + comma)
        if self._is_nested:
            self._masks.append(mask)
        self.position += end
        return True

    def found(self) -> Found:
        """What was found."""
        mask = b"".join(self._masks) if self._is_nested else None
        size = self._commas + 1
        return Found(self._start, self.position, tuple(self._cuts), size, mask, not self.depth)

    def _end(self, mask: bytes) -> int:
        """How many of these bytes belong to the list."""
        if self.position != self._start and b"]" not in mask and b"[" not in mask:
            return len(mask)
        codes = np.frombuffer(mask, np.uint8)
        steps = (codes == ord("[")).astype(np.int64) - (codes == ord("]"))
        before = 0 if self.position == self._start else self.depth
        depths = before + np.cumsum(steps)
        ends = np.flatnonzero(depths == 0)
        self.depth = 0 if ends.size else int(depths[-1])
        return int(ends[0]) + 1 if ends.size else len(mask)


def _flat_text(body: bytes | bytearray, found: Found, start: int, end: int) -> bytes:
    """The leaves of a piece with the commas between them."""
    text = bytes(memoryview(body)[start:end])
    if found.mask is None:
        return text
    mask = np.frombuffer(found.mask, np.uint8)[start - found.start : end - found.start]
    codes = np.frombuffer(text, np.uint8)
    is_bracket = (mask == ord("[")) | (mask == ord("]"))
    return np.where(is_bracket, np.uint8(ord(" ")), codes).tobytes()


def _read_piece(text: bytes, found: Found, start: int, end: int) -> list[Any]:
    """The leaves of a piece.

    Raises:
        MalformedListError: It is not valid JSON.
        ValueError: As :func:`list_text.read`.
    """
    # a leaf before the piece, where one was, so that a comma without one behind it is an error
    head = b"[" if start == found.start + 1 else b"[0,"
    tail = b"]" if found.is_closed or end != found.stop else b""
    try:
        values = list_text.read(b"%b%b%b" % (head, text, tail))
    except json.JSONDecodeError as error:
        position = len(error.doc[: error.pos].encode()) - len(head)
        raise MalformedListError(start + position, error.msg) from error
    if len(head) > 1:
        del values[0]
    return values


def _encode(values: list[Any]) -> list[bytes] | None:
    """The strings as UTF-8, None where one is none or has no UTF-8."""
    try:
        return list(map(str.encode, values))
    except (TypeError, UnicodeEncodeError):
        return None


def _has_surrogate(values: list[Any]) -> bool:
    return _encode([value for value in values if type(value) is str]) is None
