import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.backends.text import to_bytes, to_text


def array(*elements: object, shape: tuple[int, ...] = (-1,)):
    made = np.empty(len(elements), np.object_)
    made[:] = elements
    return made.reshape(shape)


@given(st.lists(st.binary() | st.text().map(str.encode)))
def test_any_bytes_are_restored(elements):
    back = to_bytes(to_text(array(*elements)))

    assert back.tolist() == elements


@pytest.mark.parametrize("text", ["", "text", "é", "日本", "a\x00b", "\U0001f600"])
def test_text_is_unchanged(text):
    assert to_text(array(text.encode())).tolist() == [text]


@given(st.binary())
def test_what_the_model_sees_can_be_encoded(element):
    to_text(array(element))[0].encode()


def test_a_real_private_character_is_restored():
    element = "\U0010ff80 and \U0010ffff".encode()

    assert to_bytes(to_text(array(element))).tolist() == [element]


def test_the_shape_is_unchanged():
    assert to_text(array(b"a", b"b", shape=(2, 1))).shape == (2, 1)
    assert to_text(array(b"a", shape=())).shape == ()
    assert to_bytes(array(shape=(0, 3))).shape == (0, 3)
