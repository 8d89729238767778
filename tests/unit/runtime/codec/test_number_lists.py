"""Long lists of numbers: parsed as arrays, with the same results as Python's json."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.codec.json import list_nesting, number_list
from moorage_runtime.codec.json import lists as json_lists
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.list_text import MalformedListError
from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.values.errors import InvalidRequest

# More than one piece, and enough for the search for lists.
MANY = 20_000
FLOATS = st.floats(allow_nan=True, allow_infinity=True)
INTEGERS = st.integers(-(2**63), 2**64 - 1)
ODD = st.sampled_from([True, False, None, 2**64, -(2**70), -(2**63) - 1])


def decode(text):
    return number_list.decode(text, 0, len(text))


def same(one, other):
    """Equal in type and value, with NaN equal to itself, and different zeros."""
    if isinstance(one, list):
        return type(other) is list and len(one) == len(other) and all(map(same, one, other))
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    return one == other


@given(st.lists(FLOATS | INTEGERS | ODD, min_size=2, max_size=40), st.sampled_from([",", ", "]))
def test_leaves_equal_the_values_of_json(values, separator):
    text = json.dumps(values, separators=(separator, ":")).encode()

    numbers = decode(text)

    assert numbers.shape == (len(values),)
    assert numbers.size == len(values)
    expected = json.loads(text)
    assert same(
        [float(x) if type(x) is int and abs(x) >= 2**63 else x for x in numbers.leaves()],
        [float(x) if type(x) is int and abs(x) >= 2**63 else x for x in expected],
    )


@given(st.lists(FLOATS | INTEGERS, min_size=2, max_size=40))
def test_floats_are_rounded_like_python_numbers(values):
    numbers = decode(json.dumps(values).encode())
    with np.errstate(over="ignore"):
        expected = np.array([float(value) for value in values]).astype(np.float32)

    found = np.concatenate([piece.floats(np.dtype(np.float32)) for piece in numbers.pieces])

    np.testing.assert_array_equal(found, expected)
    zeros = expected == 0
    np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize(
    ("dtype", "values", "fits"),
    [
        ("int64", [-(2**63), 2**63 - 1], True),
        ("int64", [0, 2**63], False),
        ("uint64", [0, 2**64 - 1], True),
        ("uint64", [0, -1], False),
        ("int8", [-128, 127], True),
        ("int8", [-129, 0], False),
        ("uint8", [0, 256], False),
        ("int32", [1, 2.0], False),
        ("int32", [1, math.nan], False),
        ("int32", [1, True], False),
    ],
)
def test_integers_are_exact_or_refused(dtype, values, fits):
    (piece,) = decode(json.dumps(values).encode()).pieces

    found = piece.integers(np.dtype(dtype))

    assert (None if found is None else found.tolist()) == (values if fits else None)
    assert found is None or found.dtype == dtype


def test_a_long_list_is_read_in_pieces_of_its_text():
    values = [index / 7 for index in range(MANY)]

    numbers = decode(json.dumps(values).encode())

    assert 3 < len(numbers.pieces) < 10
    assert numbers.tolist() == values


@pytest.mark.parametrize("text", [b"[1,2]", b"[[1,2],[3,4]]", b"[[1,2],[3]]"])
def test_the_elements_of_a_list_are_those_of_json(text):
    assert list(decode(text).elements()) == json.loads(text)


@pytest.mark.parametrize("text", [b"[NaN,1]", b"[Infinity,1]", b"[1,-Infinity]"])
def test_a_token_does_not_prevent_an_array(text):
    (piece,) = decode(text).pieces

    assert piece.floats(np.dtype(np.float64)).tolist() == pytest.approx(
        json.loads(text), nan_ok=True
    )


def test_only_the_list_itself_is_decoded():
    body = b"[0],[1,,2],[3]"

    with pytest.raises(MalformedListError) as error:
        number_list.decode(body, 4, 10)
    assert error.value.position == body.index(b",,") + 1
    assert number_list.decode(b"[0],[12],[3]", 4, 8) is None
    assert number_list.decode(b"[0],[1,2],[3]", 4, 9).tolist() == [1, 2]


@pytest.mark.parametrize("text", [b"[[1,2]", b"[1],2]", b"[1,2]]"])
def test_an_unbalanced_list_is_left_to_another_parser(text):
    assert decode(text) is None


def test_a_comma_at_the_end_of_a_piece_must_be_followed_by_a_value():
    text = b"[0," + b" " * 64 * 1024 + b"1,]"
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(MalformedListError) as found:
        decode(text)

    assert (found.value.complaint, found.value.position) == (
        expected.value.msg,
        expected.value.pos,
    )


TOKENS = ["NaN", "Infinity", "-Infinity", "1", "-2.5", "1e3"]


@given(st.lists(st.sampled_from(TOKENS), min_size=2, max_size=30), st.sampled_from([",", " , "]))
def test_tokens_keep_their_positions(tokens, separator):
    text = f"[{separator.join(tokens)}]".encode()

    numbers = decode(text)

    found = np.concatenate([piece.floats(np.dtype(np.float64)) for piece in numbers.pieces])
    np.testing.assert_array_equal(found, np.array(json.loads(text), np.float64))


MALFORMED = [
    "1,,2", "1,2,", ",1,2", "1 2,3", "1,1NaN", "1,NaN1", "1,-NaN", "1,1-Infinity", "1,NaNNaN",
    "1,InfiNaNnity", "1,+1", "1,01", "1,1.", "1,.5", "1,nan", "1,-", "1,1e", "1,yes", "1,0x1",
]  # fmt: skip


@pytest.mark.parametrize("inner", MALFORMED)
def test_invalid_json_is_refused_with_its_position(inner):
    text = f"[{inner}]"
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(MalformedListError) as found:
        decode(text.encode())

    assert (found.value.complaint, found.value.position) == (
        expected.value.msg,
        expected.value.pos,
    )
    assert str(found.value) == expected.value.msg


NESTED = st.recursive(
    st.lists(st.integers(-9, 9) | st.just(0.5), min_size=1, max_size=3),
    lambda inner: st.lists(inner, min_size=1, max_size=3),
    max_leaves=12,
)


def shape_of(value):
    """The shape in numpy, or None for a ragged list."""
    try:
        return np.array(value).shape
    except ValueError:
        return None


@given(NESTED, st.sampled_from([",", ", "]))
def test_nested_lists_have_numpys_shape_and_their_leaves_in_order(value, separator):
    text = json.dumps(value, separators=(separator, ":")).encode()
    numbers = decode(text)

    if numbers is None:
        assert b"," not in text
        return
    assert numbers.shape == shape_of(value)
    assert numbers.tolist() == value


@given(NESTED, st.data())
@settings(max_examples=300)
def test_unbalanced_brackets_are_never_accepted(value, data):
    text = bytearray(json.dumps(value, separators=(",", ":")).encode())
    place = data.draw(st.integers(1, len(text) - 2))
    text[place : place + 1] = data.draw(st.sampled_from([b"[", b"]", b",", b" ", b"", b"],["]))
    try:
        expected = json.loads(text)
    except json.JSONDecodeError:
        expected = None

    try:
        numbers = decode(bytes(text))
    except MalformedListError:
        numbers = None

    if numbers is not None:
        assert numbers.tolist() == expected


def test_a_list_is_nested_at_most_64_levels():
    assert list_nesting.read(memoryview(b"[" * 64 + b"1,2" + b"]" * 64)).shape == (1,) * 63 + (2,)
    assert list_nesting.read(memoryview(b"[" * 65 + b"1,2" + b"]" * 65)) is None


@pytest.mark.parametrize(
    "text",
    [
        b"[[1],[2]",
        b"[1]]",
        b"[1]][",
        b"[1],[2]",
        b"[[1]2]",
        b"[[1]2,[3]]",
        b"[[],[1]]",
        b"[[1],\n[2]]",
        b"[[1],  [2]]",
        b"[[1] ,[2]]",
        b"[ [1],[2]]",
        b"[[1],[2] ]",
    ],
)
def test_an_unsupported_nesting_is_none(text):
    assert list_nesting.read(memoryview(text)) is None


LONG = ",".join(f"{index}.5" for index in range(MANY))
LIST = f"[{LONG}]"


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":{LIST}}}',
        f'{{ "a" : {LIST} , "b" : "x" }}',
        f'{{"b":[{{"c":"[1,2","a":{LIST}}},{{"a":{LIST}}}],"d":{{}}}}',
        f'{{"a":[[{LONG}],[{LONG}]],"b":null}}',
        f'{{"@":"@0","a":{LIST},"b":"@@0"}}',
        f'{{"a":{LIST},"b":"\\u0040\\"0"}}',
        f'{{"a":{LIST},"a":1}}',
        f'{{"a":[{LIST},{{"b":1}}]}}',
        f'{{"a":["x",{LONG}]}}',
        f'[{LONG},"x"]',
        LIST,
    ],
)
def test_a_body_with_long_lists_equals_the_result_of_json(text):
    assert json_text.parse(text.encode()) == json.loads(text)


MANY_ESCAPES = "\\" * 1000


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (f'{{"a":{LIST}}}', 1),
        (f'{{"x":{{"y":1}},"a":{LIST},"b":"]"}}', 1),
        (f'{{"a":{LIST},"b":[1,2]}}', 1),
        (f'{{"o":{{"z":[{{"a":{LIST}}}]}},"b":{LIST}}}', 2),
        (f'{{"b":[{{"c":"[1,2","a":{LIST}}},{{"a":{LIST}}}],"d":{{}}}}', 2),
        (f'{{"a":{LIST},"b":"{MANY_ESCAPES}"}}', 1),
        (f'{{"a":[{{}},{LIST}]}}', 0),
        (f'{{"a" {LIST}}}', 0),
        (f'{{"a":{LIST[:-1]}', 0),
        (f'{{"b":[1],"a":{LIST[:-1]}', 0),
    ],
)
def test_each_long_list_is_cut_out(text, count):
    cut = json_lists.cut(text.encode())

    spans = cut.spans if cut else ()
    assert [text[span.start : span.stop] for span in spans] == [LIST] * count


def test_a_nested_list_is_cut_out_whole():
    (span,) = json_lists.cut(f'{{"a":[{LIST},{LIST}],"b":[1]}}'.encode()).spans

    assert (span.start, span.stop) == (5, 5 + 2 * len(LIST) + len("[,]"))


def test_only_the_requested_members_are_number_lists():
    text = f'{{"a":{LIST},"b":{LIST},"c":{{"a":{LIST}}},"d":[[{{"a":{LIST}}}]]}}'.encode()

    value = json_text.parse(text, frozenset({"a"}))

    assert isinstance(value["a"], NumberList)
    assert isinstance(value["c"]["a"], NumberList)
    assert isinstance(value["d"][0][0]["a"], NumberList)
    assert value["b"] == json.loads(LIST)


def test_only_members_of_the_outermost_object_are_number_lists_if_asked():
    text = f'{{"a":{LIST},"b":{{"a":{LIST}}},"c":[{{"a":{LIST}}}]}}'.encode()

    value = json_text.parse(text, frozenset({"a"}), nested=False)

    assert isinstance(value["a"], NumberList)
    assert value["b"] == {"a": json.loads(LIST)}
    assert value["c"] == [{"a": json.loads(LIST)}]


@pytest.mark.parametrize(("blanks", "is_cut"), [(0, False), (1, True)])
def test_a_list_is_cut_out_of_16_kib_or_more_without_a_string(blanks, is_cut):
    rest = b":" + b" " * blanks + b"[" + b"1," * 8189 + b"1]}"

    assert len(rest) == 16 * 1024 - 1 + blanks
    assert (json_lists.cut(b'{"a"' + rest) is not None) == is_cut


@pytest.mark.parametrize(
    "text",
    [
        f'{{"a":[{LONG},]}}',
        f'{{"a":[1,,{LONG}]}}',
        f'{{"é":"ü",\n"a":[{LONG},x]}}',
        f'{{"a":[{LONG},{{]}}',
        f'{{"a":[1,,{LONG}],"é":1}}',
        f'{{"a":[{{,{LONG}]}}',
        f'{{"a":[1,{{2,{LONG}]}}',
        f'{{"a":[1,{{ \n{LONG}]}}',
        f'{{"a":[1,{{[{LONG}]]}}',
        f'{{"a":{LIST},"b":}}',
        f'{{"a" {LIST}}}',
        f'{{"x":yes,"a":{LIST}}}',
        f'{{"a":{LIST}}} more',
        f'{{"a":[[{LONG}],[{LONG}]}}',
        f'{{"a":[\n{LONG}],\n"b":}}',
    ],
)
def test_an_error_has_the_position_that_json_reports(text):
    with pytest.raises(json.JSONDecodeError) as expected:
        json.loads(text)

    with pytest.raises(InvalidRequest) as found:
        json_text.parse(text.encode())

    assert found.value.message == f"the body is not valid JSON: {expected.value}"


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (b'"b":"\xff"', "the JSON is not UTF-8: byte 0xff at position 148902"),
        (b'"b":' + b"1" * 5000, "the JSON contains an integer with more than 4300 digits"),
        (b'"b":"\\ud800"', "the JSON contains an unpaired surrogate, which is not valid Unicode"),
    ],
)
def test_values_that_python_cannot_represent_are_refused_beside_a_long_list(rest, message):
    with pytest.raises(InvalidRequest, match=message) as error:
        json_text.parse(b'{"a":%b,%b}' % (LIST.encode(), rest))

    if b"\xff" in rest:
        assert error.value.message.endswith(f" {len(LIST) + 11}")


def test_a_malformed_list_is_reported_before_bytes_after_it_that_are_not_utf8():
    with pytest.raises(InvalidRequest) as error:
        json_text.parse(b'{"a":[1,,%b,\xff]}' % LONG.encode())

    assert error.value.message == (
        "the body is not valid JSON: Expecting value: line 1 column 9 (char 8)"
    )


@pytest.mark.parametrize("text", ["\x7f", "\\u007f", "\\u007F", "\x7f0"])
def test_a_text_with_the_placeholder_character_is_not_cut(text):
    body = f'{{"a":{LIST},"b":"{text}","c":{LIST}}}'

    assert json_lists.cut(body.encode()) is None
    assert json_text.parse(body.encode()) == json.loads(body)


@pytest.mark.parametrize("text", ["@" * 200_000, "@0", r"\"@\u0040", "\\" * 63 + "\\"])
def test_a_list_is_found_beside_any_other_string(text):
    body = f'{{"b":"{text}","a":{LIST}}}'

    assert len(json_lists.cut(body.encode()).spans) == 1
    assert json_text.parse(body.encode()) == json.loads(body)


@pytest.mark.parametrize("text", ["\\" * 1000, r"\"" * 20_000])
def test_a_text_with_many_escapes_is_not_cut(text):
    body = f'{{"b":"{text}","a":{LIST}}}'

    assert json_lists.cut(body.encode()) is None
    assert json_text.parse(body.encode()) == json.loads(body)


def infer(data, shape, datatype="FP32"):
    body = {"inputs": [{"name": "x", "shape": shape, "datatype": datatype, "data": data}]}
    return oip_request.decode(json.dumps(body).encode(), None, "m", "").request.inputs[0].array


def test_long_and_short_paths_give_the_same_tensor():
    values = [index * 1e37 for index in range(MANY)]
    with np.errstate(over="ignore"):
        expected = np.array(values).astype(np.float32)

    np.testing.assert_array_equal(infer(values, [MANY]), expected)
    nested = [values[:10_000], values[10_000:]]
    np.testing.assert_array_equal(infer(nested, [2, 10_000]), expected.reshape(2, -1))


@pytest.mark.parametrize("number", [2**54 + 2**30 + 1, -(2**63), 2**64 - 1, 1e39, 0.1])
@pytest.mark.parametrize("datatype", ["FP16", "FP32", "FP64"])
def test_long_and_short_lists_are_rounded_alike(number, datatype):
    (expected,) = infer([number], [1], datatype)

    array = infer([number] * MANY, [MANY], datatype)

    assert array.dtype == expected.dtype
    assert (array == expected).all()


@pytest.mark.parametrize(
    ("datatype", "values"),
    [
        ("INT64", [2**53 + 1, 1.0, *range(MANY)]),
        ("UINT64", [2**64 - 1, *range(MANY)]),
        ("BOOL", [True, 0, *[1] * MANY]),
        ("INT8", [1.0] * MANY),
    ],
)
def test_long_lists_are_converted_without_loss(datatype, values):
    assert infer(values, [len(values)], datatype).tolist() == [int(value) for value in values]


@pytest.mark.parametrize(
    ("datatype", "shape", "data", "message"),
    [
        ("FP32", [3], [0.5] * MANY, "inputs[0].data has 20000 elements: shape [3] requires 3"),
        (
            "INT8",
            [MANY + 1],
            [*[1] * MANY, 300],
            (
                "inputs[0].data[20000]: 300 is invalid: must be an integer from -128 to 127, "
                "the range of INT8"
            ),
        ),
        (
            "INT8",
            [2, MANY],
            [[1] * MANY, [1.5] * MANY],
            (
                "inputs[0].data[1][0]: 1.5 is invalid: must be an integer from -128 to 127, "
                "the range of INT8"
            ),
        ),
        (
            "FP32",
            [MANY + 1],
            [*[0.5] * MANY, None],
            "inputs[0].data[20000]: null is invalid: must be a number, as FP32 requires",
        ),
        (
            "BYTES",
            [MANY],
            [1] * MANY,
            "inputs[0].data[0]: 1 is invalid: must be a string, as BYTES requires",
        ),
        (
            "INT8",
            [MANY + 1],
            [[1] * MANY, [1.5]],
            (
                "inputs[0].data[1][0]: 1.5 is invalid: must be an integer from -128 to 127, "
                "the range of INT8"
            ),
        ),
    ],
)
def test_errors_name_the_element_of_a_long_list(datatype, shape, data, message):
    with pytest.raises(InvalidRequest) as error:
        infer(data, shape, datatype)

    assert error.value.message == message
