"""JSON that the strict parser refuses, limits on its size, and values in messages."""

import json
import math

import pytest

from moorage_runtime.codec.json import number_list
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (math.nan, "NaN"),
        ("é\n", '"é\\n"'),
        ("\ud800", '"?"'),
        ([1], "an array"),
        ({"a": 1}, "an object"),
        (number_list.decode(b"[1,2]", 0, 5), "an array"),
        ((1, "a"), '[1,"a"]'),
        ({1}, '"{1}"'),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 59}...'),
        ("x" * 1000, f'"{"x" * 59}...'),
        (10**59, "1" + "0" * 59),
        (10**60, "1" + "0" * 59 + "..."),
    ],
)
def test_a_value_is_shown_as_json_of_at_most_60_characters(value, shown):
    assert json_text.show(value) == shown


@pytest.mark.parametrize(
    "text",
    [
        '["\\ud83d\\ude00 yes",NaN]',  # a pair
        '["\\ud7ff\\ue000",NaN]',  # beside the surrogates
        '{"\\u00e9":[1,null,true,NaN]}',
        "[NaN,Infinity,-Infinity,1e999,-1E999]",
        '{"a":NaN,"a":1}',
    ],
)
def test_a_text_with_tokens_is_read_as_python_reads_it(text):
    assert repr(json_text.parse(text.encode())) == repr(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        '"\\ud800"',
        '"\\uDFFF"',
        '["a",{"b":"\\udc00"}]',
        '{"\\uD8aB":1}',
        '{"a":["\\ud83d\\ude00","\\ude00\\ud83d"]}',
    ],
)
def test_an_unpaired_surrogate_is_refused(text):
    with pytest.raises(InvalidRequest) as error:
        json_text.parse(text.encode())
    assert error.value.message == (
        "the JSON contains an unpaired surrogate, which is not valid Unicode"
    )


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("text", [b'{"a":1}', b'{"a":NaN}', b'{"a":"' + b"x" * 70_000 + b'"}'])
def test_a_body_may_be_any_buffer(kind, text):
    assert json_text.parse_object(kind(text)).keys() == {"a"}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_body_is_nested_at_most_100_levels(opening, closing):
    def parse(levels):
        return json_text.parse(f"{opening * levels}0{closing * levels}".encode())

    parse(100)
    with pytest.raises(InvalidRequest) as error:
        parse(101)
    assert error.value.message == "the JSON is nested deeper than 100 levels"


@pytest.mark.parametrize("part", ["{}", "[]"])
def test_a_body_has_at_most_262144_arrays_and_objects(part):
    def parse(count):
        return json_text.parse(f'{{"a":[{",".join([part] * count)}]}}'.encode())

    assert len(parse(limits.JSON_PARTS - 2)["a"]) == 262_142
    with pytest.raises(InvalidRequest) as error:
        parse(limits.JSON_PARTS - 1)
    assert error.value.message == (
        "the JSON contains 262145 arrays and objects outside of long lists of numbers: must "
        "contain 262144 or fewer"
    )


def test_a_body_has_at_most_1048576_values():
    text = f'["",{",".join(["0"] * (limits.VALUES - 1))}]'.encode()

    assert len(json_text.parse(text)) == 1024 * 1024
    with pytest.raises(InvalidRequest) as error:
        json_text.parse(text[:-1] + b",0]")
    assert error.value.message == (
        "the JSON contains more than 1048576 values outside of long lists of numbers: must "
        "contain 1048576 or fewer. Send large tensors as binary data"
    )


def test_json_above_the_limit_is_refused_with_an_alternative():
    json_text.check_size(100, 100)
    with pytest.raises(PayloadTooLarge) as error:
        json_text.check_size(101, 100)
    assert error.value.message == (
        "the JSON has 101 bytes: must have 100 or fewer (--max-json-bytes). Send large tensors "
        "as binary data, with the binary tensor extension of the Open Inference Protocol"
    )


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request body is empty: must be a JSON object"),
        (b"[1]", "the request body is an array: must be a JSON object"),
        (b"1", "the request body is 1: must be a JSON object"),
    ],
)
def test_a_body_that_is_no_object_is_refused(body, message):
    with pytest.raises(InvalidRequest) as error:
        json_text.parse_object(body)
    assert error.value.message == message


def test_a_member_of_an_object_may_remain_a_long_list():
    numbers = [0] * json_text.LONG_BYTES
    body = json.dumps({"a": numbers, "b": numbers}).encode()

    found = json_text.parse_object(body, {"a"})

    assert isinstance(found["a"], number_list.NumberList)
    assert found["b"] == numbers


def test_exactly_100_levels_beside_many_brackets_are_accepted():
    inner = "[" * (limits.JSON_DEPTH - 1) + "]" * (limits.JSON_DEPTH - 1)
    text = f"[{inner},{inner}]"

    assert json_text.parse(text.encode()) == json.loads(text)


def test_an_integer_beyond_64_bits_is_a_float():
    found = json_text.parse(b"[18446744073709551615,18446744073709551616]")
    assert [type(each) for each in found] == [int, float]


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (b'{"a":18446744073709551616}', "a", 2**64),
        (b'{"a" : -9223372036854775809 }', "a", -(2**63) - 1),
        (b'{"a":1,"b":18446744073709551616,"c":1}', "b", 2**64),
        ('{"é\\"":18446744073709551616}'.encode(), 'é"', 2**64),
        # another member, another value, or no integer
        (b'{"b":18446744073709551616}', "a", None),
        (b'{"a":18446744073709551616e0}', "a", None),
        (b'{"a":18446744073709551616.0}', "a", None),
        (b'{"a":1e30}', "a", None),
        (b'{"a":9000000000000000000000,"a":1e19}', "a", None),
        # the second one
        (b'{"a":9000000000000000000000,"a":18446744073709551616}', "a", 2**64),
    ],
)
def test_an_integer_that_a_parser_rounded_is_found_in_the_text(text, key, expected):
    value = float(json.loads(text).get(key, 2**64))

    assert json_text.written_integer(text, key, value) == expected


def test_an_integer_without_a_number_of_64_bits_is_not_searched_for():
    assert (
        json_text.written_integer(b'{"a":999999999999999999}', "a", 999999999999999999.0) is None
    )
    assert json_text.written_integer(b'{"a":1' + b"0" * 308 + b"}", "a", 1e308) is None
    assert json_text.written_integer(b'{"a":1' + b"0" * 307 + b"}", "a", 1e307) == 10**307
