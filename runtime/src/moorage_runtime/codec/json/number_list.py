"""A long JSON list of numbers as arrays, without a Python object per number.

    lists -> decode(text of the list) -> NumberList -> arrays.json_data, codec.tfs, codec.grps

The text is cut at commas into pieces of tens of kilobytes. A C parser reads most of them into
arrays. Tokens for values that are not finite are inserted by position. A piece with other values
(true, numbers beyond 64 bits) is read as Python values. Other threads can run between two pieces,
so a body of many megabytes does not delay others.

Brackets inside the list are replaced by blanks before it is cut, after their nesting was checked.
Pure.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, cast

import msgspec
import numpy as np
import simdjson
from numpy.typing import NDArray

from moorage_runtime.codec.json import list_nesting, list_text
from moorage_runtime.codec.json.list_text import MalformedListError

# A few thousand numbers: a fraction of a millisecond, with little overhead per piece.
_PIECE_BYTES: Final = 64 * 1024
_FLOAT64: Final = np.dtype(np.float64)
_Kind = tuple[Literal["i", "u", "d"], np.dtype[Any]]
_FLOATS_ONLY: Final[tuple[_Kind, ...]] = (("d", _FLOAT64),)
_KINDS: Final[tuple[_Kind, ...]] = (
    ("i", np.dtype(np.int64)),
    ("u", np.dtype(np.uint64)),
    *_FLOATS_ONLY,
)
# The blanks separate it from its neighbours: "1NaN" must not become a number.
_FILLER: Final = b" 0 "
_TOKENS: Final = (b"-Infinity", b"Infinity", b"NaN")


class Piece(msgspec.Struct, frozen=True):
    """Consecutive leaves of a list.

    Attributes:
        body: Buffer with their text, without brackets.
        start: Start of the first leaf.
        stop: End of the last leaf.
        values: int64 or uint64 if all are integers, otherwise float64; a list if these types do
            not fit all of them.
    """

    body: bytes | bytearray
    start: int
    stop: int
    values: NDArray[Any] | list[Any]

    def read(self) -> list[Any]:
        """The leaves, as Python's json returns them."""
        if isinstance(self.values, list):
            return self.values
        return list_text.read(_text(self.body, self.start, self.stop))

    def floats(self, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The leaves rounded to this type, possibly infinite; None if one is not a number."""
        if isinstance(self.values, list):
            return None
        with np.errstate(over="ignore"):
            # Python's numbers are also rounded to float64 first
            return np.asarray(np.asarray(self.values, np.float64), dtype)

    def integers(self, dtype: np.dtype[Any]) -> NDArray[Any] | None:
        """The leaves in this type; None if one is not an integer or out of range."""
        values = self.values
        if isinstance(values, list) or values.dtype == _FLOAT64:
            return None
        limits = np.iinfo(dtype)
        if int(values.min()) < limits.min or int(values.max()) > limits.max:
            return None
        return np.asarray(values, dtype)


class NumberList(msgspec.Struct, frozen=True):
    """The leaves of a list, in order.

    Attributes:
        text: The whole list.
        pieces: One or more.
        size: Number of leaves.
        shape: Shape of the nesting, None if it is ragged; ``(size,)`` for a flat list.
    """

    text: memoryview
    pieces: tuple[Piece, ...]
    size: int
    shape: tuple[int, ...] | None

    def leaves(self) -> Iterator[Any]:
        """The leaves, as Python's json returns them, parsed a piece at a time."""
        for piece in self.pieces:
            yield from piece.read()

    def tolist(self) -> list[Any]:
        """The list, as Python's json returns it."""
        if self.shape is None:
            return list_text.read(bytes(self.text))
        return list_text.nest(list(self.leaves()), self.shape)

    def elements(self) -> Iterable[Any]:
        """The elements of the list, as Python's json returns them; those of a flat list piece by
        piece.
        """
        return self.leaves() if self.shape == (self.size,) else self.tolist()


def decode(body: bytes | bytearray, start: int, stop: int) -> NumberList | None:
    """The numbers of a list, or None if another parser must read it.

    Args:
        body: The body that contains the list.
        start: Position of its first bracket.
        stop: Position after its last bracket; there are no strings in between.

    Raises:
        MalformedListError: It is a flat list and not valid JSON.
    """
    text = memoryview(body)[start:stop]
    if body.find(b",", start, stop) < 0:
        return None  # one value, or only blanks
    shape: tuple[int, ...] | None = None
    is_flat = body.find(b"[", start + 1, stop) < 0 and body.find(b"]", start) == stop - 1
    if not is_flat:
        nesting = list_nesting.read(text)
        if nesting is None:
            return None
        shape = nesting.shape
        body = bytes(text).replace(b"[", b" ").replace(b"]", b" ")
        start, stop = 0, len(body)
    try:
        pieces = _pieces(body, start + 1, stop - 1)
    except MalformedListError:
        if is_flat:
            raise
        return None
    except ValueError:  # not UTF-8, or a number with thousands of digits
        return None
    size = sum(len(piece.values) for piece in pieces)
    return NumberList(text, pieces, size, (size,) if is_flat else shape)


def _pieces(body: bytes | bytearray, start: int, stop: int) -> tuple[Piece, ...]:
    parser = simdjson.Parser()
    pieces: list[Piece] = []
    while start <= stop:
        comma = body.find(b",", min(start + _PIECE_BYTES, stop), stop)
        end = stop if comma < 0 else comma
        values = _decode_piece(parser, _text(body, start, end), start)
        pieces.append(Piece(body, start, end, values))
        start = end + 1
    return tuple(pieces)


def _text(body: bytes | bytearray, start: int, stop: int) -> bytes:
    """The leaves of a piece as the text of a list.

    It is rebuilt on demand: the cached texts of a list would take as much memory as the list
    itself, and most of them are never needed again.
    """
    return b"[%b]" % memoryview(body)[start:stop]


def _decode_piece(parser: simdjson.Parser, text: bytes, start: int) -> NDArray[Any] | list[Any]:
    values = _parse(parser, text)
    if values is None and (b"N" in text or b"I" in text):
        values = _parse_tokens(parser, text)
    if values is None:
        try:
            values = list_text.read(text)
        except json.JSONDecodeError as error:
            raise MalformedListError(start + error.pos - 1, error.msg) from error
    if not len(values):
        raise MalformedListError(start, "Expecting value")
    return values


def _parse(parser: simdjson.Parser, text: bytes) -> NDArray[Any] | None:
    try:
        # no variable of this function may keep a reference to it: the parser reuses its memory
        document = cast("simdjson.Array", parser.parse(text))
    except (ValueError, RuntimeError):  # RuntimeError is raised for integers beyond 64 bits
        return None
    # a decimal point rules out integers
    for kind, dtype in _FLOATS_ONLY if b"." in text else _KINDS:
        try:
            return np.frombuffer(document.as_buffer(of_type=kind), dtype)
        except (ValueError, TypeError):
            continue
    return None


def _parse_tokens(parser: simdjson.Parser, text: bytes) -> NDArray[Any] | None:
    """The values of a piece that contains NaN, Infinity or -Infinity."""
    filled = text
    for token in _TOKENS:
        filled = filled.replace(token, _FILLER)
    values = _parse(parser, filled)
    if values is None:
        return None
    spelled = values.astype(np.float64)
    codes = np.frombuffer(text, np.uint8)
    commas = np.flatnonzero(codes == ord(","))
    # each token has one unique letter: the "a" of NaN and the "y" of Infinity
    spelled[np.searchsorted(commas, np.flatnonzero(codes == ord("a")))] = np.nan
    ends = np.flatnonzero(codes == ord("y"))
    signs = np.where(codes[ends - len("Infinity")] == ord("-"), -np.inf, np.inf)
    spelled[np.searchsorted(commas, ends)] = signs
    return spelled
