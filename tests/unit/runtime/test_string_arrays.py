"""Arrays of many strings: whole while anybody has them, then emptied elsewhere in pieces."""

import threading
import weakref

import numpy as np
import pytest

from moorage_runtime import string_arrays

MANY = 300_000
DEADLINE_SECONDS = 20


class Element:
    """One whose end can be seen."""


@pytest.mark.parametrize("count", [0, 1, 10, 65_535, 65_536, 262_144, 262_145, MANY])
def test_an_array_has_the_elements_that_were_collected(count):
    elements = [b"%d" % number for number in range(count)]
    step = string_arrays.PIECE_ELEMENTS
    parts = [elements[at : at + step] for at in range(0, count, step)]

    array = string_arrays.collect(parts, count)

    assert type(array) is np.ndarray
    assert array.tolist() == elements
    assert [list(part) for part in string_arrays.pieces(array)] == parts


def test_views_keep_the_elements_of_a_large_array():
    array = string_arrays.make(MANY)
    array[:] = b"x"
    view = array.reshape(2, -1)[1]
    del array

    assert set(view.tolist()) == {b"x"}


def test_the_elements_of_a_large_array_are_freed_by_another_thread():
    freed_by = []
    is_freed = threading.Event()

    def note() -> None:
        freed_by.append(threading.current_thread().name)
        is_freed.set()

    element = Element()
    weakref.finalize(element, note)
    array = string_arrays.make(MANY)
    array[MANY - 1] = element
    del element, array

    assert is_freed.wait(DEADLINE_SECONDS)
    assert freed_by == ["free-strings"]
