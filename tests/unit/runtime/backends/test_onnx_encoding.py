"""Fields of a serialized model, which the reader of models reads."""

import pytest

from moorage_runtime.backends.onnx.graph.encoding import field, text_field
from moorage_runtime.backends.onnx.graph.file import fields

NUMBERS = [0, 1, 127, 128, 16383, 16384, 2**32, 2**63, 2**64 - 1]


@pytest.mark.parametrize("number", [1, 15, 16, 2047, 2**29 - 1])
@pytest.mark.parametrize("value", [*NUMBERS, b"", b"\x00", b"x" * 127, b"x" * 128], ids=str)
def test_a_field_is_read_as_it_was_written(number, value):
    assert list(fields(memoryview(field(number, value)))) == [(number, value)]


def test_numbers_and_texts_have_the_bytes_of_the_format():
    assert field(1, 127) == b"\x08\x7f"
    assert field(1, 150) == b"\x08\x96\x01"
    assert text_field(2, "\u00e9") == b"\x12\x02\xc3\xa9"
