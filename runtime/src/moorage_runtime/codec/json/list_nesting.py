"""The nesting of a JSON list of numbers, from its brackets alone. Pure.

The text between two brackets decides whether the list can be valid::

    [[   nothing          [ ... ]   numbers          ] , [   one comma          ]]   nothing

Only compact text, with at most one blank after a comma, is supported.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

# numpy's own limit on the number of dimensions.
_RANK_LIMIT = 64


class Nesting(msgspec.Struct, frozen=True):
    """The nesting of lists.

    Attributes:
        shape: Length of the lists at each depth; None if they differ.
    """

    shape: tuple[int, ...] | None


def read(text: memoryview) -> Nesting | None:
    """The nesting of a list with balanced brackets, otherwise None.

    Args:
        text: From bracket to bracket, without strings. The content of innermost lists is not
            checked, except that it must not be empty.
    """
    codes = np.frombuffer(text, np.uint8)
    places = np.flatnonzero((codes == ord("[")) | (codes == ord("]")))
    is_open = codes[places] == ord("[")
    depths = np.cumsum(np.where(is_open, 1, -1))
    if depths[-1] != 0 or depths[:-1].min() < 1 or depths.max() > _RANK_LIMIT:
        return None
    if not _fit(codes, places, is_open):
        return None
    return Nesting(_shape(codes, places, is_open, depths))


def _fit(codes: NDArray[np.uint8], places: NDArray[np.int64], is_open: NDArray[np.bool_]) -> bool:
    """Whether the text between brackets is as described in the module's docstring."""
    gaps = np.diff(places) - 1
    before, after = is_open[:-1], is_open[1:]
    if (gaps[before == after] != 0).any() or (gaps[before & ~after] < 1).any():
        return False
    between = ~before & after
    starts, widths = places[:-1][between], gaps[between]
    if (widths < 1).any() or (widths > 2).any() or (codes[starts + 1] != ord(",")).any():
        return False
    return bool((codes[starts[widths == 2] + 2] == ord(" ")).all())


def _shape(
    codes: NDArray[np.uint8],
    places: NDArray[np.int64],
    is_open: NDArray[np.bool_],
    depths: NDArray[np.int64],
) -> tuple[int, ...] | None:
    """The length of the lists at each depth; None if they differ."""
    rank = int(depths.max())
    shape: list[int] = []
    for depth in range(1, rank):
        children = np.flatnonzero(is_open & (depths == depth + 1))
        ends = np.flatnonzero(~is_open & (depths == depth - 1))
        length = _common(np.diff(np.searchsorted(children, ends), prepend=0))
        if length is None:
            return None
        shape.append(length)
    innermost = np.flatnonzero(is_open[:-1] & ~is_open[1:])
    if (depths[innermost] != rank).any():
        return None
    commas = np.flatnonzero(codes == ord(","))
    first = np.searchsorted(commas, places[innermost])
    length = _common(np.searchsorted(commas, places[innermost + 1]) - first)
    return None if length is None else (*shape, length + 1)


def _common(counts: NDArray[np.int64]) -> int | None:
    first = int(counts[0])
    return first if bool((counts == first).all()) else None
