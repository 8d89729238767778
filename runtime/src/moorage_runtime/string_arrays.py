"""Arrays for the elements of BYTES tensors; those of large ones are freed in pieces, by a thread.

    make -> array -> codec, model, codec -> nobody has it any more -> cleared here

To free millions of objects takes hundreds of milliseconds, all of them within one call of C, and
the last who holds a tensor is most often the event loop, which then answers nobody. A large array
made here is therefore emptied by a thread of its own, some thousand elements at a time.
"""

import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

# Some thousand objects are freed or copied in a fraction of a millisecond.
PIECE_ELEMENTS: Final = 8 * 1024
# Fewer take no longer than handing them over is worth.
_LARGE_ELEMENTS: Final = 64 * 1024
# Two megabytes of pointers.
_GROWTH_ELEMENTS: Final = 256 * 1024

_dropped: Final[queue.SimpleQueue["_Emptied"]] = queue.SimpleQueue()


class _Emptied(np.ndarray[Any, np.dtype[np.object_]]):
    """The owner of a large array's elements, which others see through views of it."""

    is_empty = False

    def __del__(self) -> None:
        # a queue of this kind may be used wherever an object happens to die
        if self.base is None and not self.is_empty:
            _dropped.put(self)

    def empty(self) -> None:
        """Free the elements."""
        self.is_empty = True
        for start in range(0, self.size, PIECE_ELEMENTS):
            self[start : start + PIECE_ELEMENTS] = None


def make(size: int) -> NDArray[Any]:
    """A flat array for so many elements."""
    if size < _LARGE_ELEMENTS:
        return np.empty(size, np.object_)
    _start()
    owner = _Emptied(_LARGE_ELEMENTS, np.object_)
    # to touch all of the memory at once would take long as well
    for grown in range(_GROWTH_ELEMENTS, size, _GROWTH_ELEMENTS):
        owner.resize(grown, refcheck=False)
    owner.resize(size, refcheck=False)
    return owner.view(np.ndarray)


def pieces(array: NDArray[Any]) -> Iterator[list[Any]]:
    """The elements in row-major order, some thousand at a time."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, PIECE_ELEMENTS):
        yield flat[start : start + PIECE_ELEMENTS].tolist()


def collect(parts: Iterable[Sequence[Any]], size: int) -> NDArray[Any]:
    """The elements of all parts in one flat array, of which there are so many."""
    array = make(size)
    filled = 0
    for piece in parts:
        array[filled : filled + len(piece)] = piece
        filled += len(piece)
    return array


def _empty_dropped() -> None:
    while True:
        _dropped.get().empty()


def _start() -> None:
    with _starting:
        if not _thread.is_alive():
            _thread.start()


_starting: Final = threading.Lock()
_thread: Final = threading.Thread(target=_empty_dropped, name="free-strings", daemon=True)
