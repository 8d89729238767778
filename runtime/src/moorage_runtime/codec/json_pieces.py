"""A JSON text that is mostly one list of objects, parsed and freed a piece at a time.

::

    {"instances":[{"x":1},{"x":2}, ... {"x":9}]}        text
    {"instances":[{"x":1},"@",{"x":9}]}  +  [...]       envelope and pieces

Millions of objects take a parser the better part of a second, and as long again when they are
freed; in neither does another thread of the process get its turn. So the text is cut at commas of
the one list, which are known from measuring its nesting, and each piece is parsed as a list. The
text is valid JSON where envelope and pieces are, and means the same. Pure.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.errors import InvalidRequest

# The depth of the elements of a list that is a member of the root.
_DEPTH: Final = 2
_COMMA: Final = ord(",")
# To free so many objects takes about a millisecond.
_FREED_AT_ONCE: Final = 8 * 1024


class Cuts:
    """Finds commas of the longest list that is a member of the root, as nesting is measured."""

    def __init__(self) -> None:
        self._longest: list[int] = []
        self._run: list[int] = []  # of the list, or the object, that is being looked at

    def look(self, start: int, codes: NDArray[np.uint8], levels: NDArray[np.int64]) -> None:
        """Look at the next bytes; one comma of them is enough.

        Args:
            start: Where they stand in the text.
            codes: The bytes, with strings masked.
            levels: How deep the nesting is after each of them.
        """
        ends = np.flatnonzero(levels < _DEPTH)
        if ends.size:
            self._end()
            start += int(ends[-1]) + 1
            codes, levels = codes[ends[-1] + 1 :], levels[ends[-1] + 1 :]
        commas = np.flatnonzero((codes == _COMMA) & (levels == _DEPTH))
        if commas.size:
            self._run.append(start + int(commas[-1]))

    def found(self) -> Sequence[int]:
        """Where the commas stand, ascending."""
        self._end()
        return self._longest

    def _end(self) -> None:
        if len(self._run) > len(self._longest):
            self._longest = self._run
        self._run = []


def parse(
    text: bytes | bytearray, cuts: Sequence[int], read: Callable[[bytes], Any]
) -> dict[str, Any] | None:
    """The value of the text, None where all of it has to be read at once.

    Args:
        text: UTF-8, not nested deeper than a parser can follow.
        cuts: As ``Cuts`` finds them.
        read: The value of a short text, or InvalidRequest.
    """
    if len(cuts) < 2:
        return None
    view = memoryview(text)
    front, back = bytes(view[: cuts[0]]), bytes(view[cuts[-1] :])
    marker = b"@"
    while marker in front or marker in back:
        marker += b"@"
    if b"\\u0040" in front or b"\\u0040" in back:  # the marker's character, spelled otherwise
        return None
    try:
        root = read(b'%b,"%b"%b' % (front, marker, back))
        elements: list[Any] = []
        for before, after in pairwise(cuts):
            piece = read(b"[%b]" % view[before + 1 : after])
            if not piece:
                return None
            elements += piece
    except InvalidRequest:
        return None  # what is wrong, and where, only the whole text tells
    return root if _put(elements, marker.decode(), root) else None


def discard(document: dict[str, Any]) -> None:
    """Free what the long lists among the members hold; the document is of no use afterwards."""
    for member in document.values():
        if type(member) is list:
            elements: list[Any] = member
            while elements:
                del elements[-_FREED_AT_ONCE:]


def _put(elements: list[Any], marker: str, root: Any) -> bool:
    """Put the elements in the place of the marker; whether there is one."""
    members: list[Any] = list(root.values()) if type(root) is dict else []
    for member in members:
        if type(member) is list and marker in member:
            at = member.index(marker)
            member[at : at + 1] = elements
            return True
    return False
