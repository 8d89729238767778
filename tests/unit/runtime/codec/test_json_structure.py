"""Depth and counts of a JSON text, computed before it is parsed."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.arrays import json_data
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.string_mask import StringMask
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import Datatype

STRINGS = st.text(st.sampled_from('ab,[]{}"\\/ \n\té€😀\u2028')) | st.text(max_size=6)
NUMBERS = list(range(20_000))
LIST = json.dumps(NUMBERS)
DEEP = "[" * 100_000


def spell(value):
    return json.dumps(value, separators=(",", ":")).encode()


@given(st.binary() | STRINGS.map(spell), st.data())
def test_a_mask_marks_strings_for_any_split_of_the_text(text, data):
    mask, is_inside, is_escaped = bytearray(text), False, False
    for place, byte in enumerate(text):
        if is_inside or byte == ord('"'):
            mask[place] = ord("s")
        if is_escaped:
            is_escaped = False
        elif byte == ord("\\"):
            is_escaped = is_inside
        elif byte == ord('"'):
            is_inside = not is_inside
        if is_escaped is False and byte == ord("\\") and not is_inside:
            return  # invalid JSON: the rest may be interpreted differently

    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))) | {0, len(text)})
    masker = StringMask()
    found = b"".join(masker.of(text[start:end]) for start, end in itertools.pairwise(cuts))

    assert found.translate(None, b"\\") == bytes(mask).translate(None, b"\\")
    assert len(found) == len(text)


def test_a_mask_forgets_an_escape_after_the_next_byte():
    masker = StringMask()

    assert masker.of(b'["a\\') + masker.of(b'"b') + masker.of(b'",[1]') == b"[ssssss,[1]"


@pytest.mark.parametrize("split", range(1, 15))
def test_a_mask_does_not_depend_on_where_an_escape_is_split(split):
    text = rb'["a\\","\"[",1]'
    masker = StringMask()

    assert len(text) == 15
    assert masker.of(text[:split]) + masker.of(text[split:]) == b"[sssss,sssss,1]"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a":"[[[","b":[1]}', 2),
        ('["\\"[[",["\\\\"],[]]', 2),
        ("]]]][[[[[[", 2),
        ("[" * 70_000, 70_000),
        (f'["{"[" * 200_000}",[[1]]]', 3),
        (f"[{' ' * 70_000}{'[' * 50}", 51),
    ],
)
def test_depth_is_counted_outside_of_strings(text, expected):
    assert json_text.depth(text.encode()) == expected


def test_brackets_and_commas_in_strings_do_not_count():
    text = json.dumps({"a": "[{," * limits.VALUES})

    assert json_text.parse(text.encode()) == json.loads(text)


def test_a_long_list_of_numbers_may_have_more_values():
    text = json.dumps({"data": [1] * (limits.VALUES + 5)}).encode()

    assert json_text.parse(text, {"data"})["data"].size == limits.VALUES + 5


@pytest.mark.parametrize(
    "text",
    [
        f'{{"b":{DEEP},"a":[{LIST[1:-1]},]}}',
        f'{{"a":{LIST},"b":{DEEP}',
        f'{{"a":{LIST},"b":{DEEP}{"]" * 100_000}}}',
        f'{{"a":{LIST},"b":"x","c":{DEEP}}}',
    ],
)
def test_deep_nesting_is_refused_before_and_after_a_long_list(text):
    with pytest.raises(InvalidRequest, match="the JSON is nested deeper than 100 levels"):
        json_text.parse(text.encode())


def test_a_number_of_too_many_digits_before_a_malformed_list_is_refused():
    text = f'{{"b":{"1" * 5000},"a":[{LIST[1:-1]},]}}'

    with pytest.raises(
        InvalidRequest, match="the JSON contains an integer with more than 4300 digits"
    ):
        json_text.parse(text.encode())


@pytest.mark.parametrize("size", [64, 65, 100_000])
def test_a_shape_of_too_many_dimensions_is_refused(size):
    item = {"name": "x", "datatype": "INT8", "shape": [2**40] * size, "data": [1]}

    with pytest.raises(InvalidRequest, match=r"inputs\[0\]\.shape"):
        oip_request.decode(spell({"inputs": [item]}), None, "m", "")


def test_lists_beside_values_keep_their_order():
    data = [1, [2, [3, [4], 5]], [], [[6]], 7]

    array = json_data.decode_array(data, Datatype.INT8, (7,), "data")

    assert array.tolist() == [1, 2, 3, 4, 5, 6, 7]
