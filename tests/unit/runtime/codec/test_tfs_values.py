"""JSON values to arrays: nesting, datatypes, ranges, base64, and the error texts."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from moorage_runtime.codec.json import number_list
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs import values as tfs_values
from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype

NUMBERS = [
    Datatype(name)
    for name in ("FP32", "FP64", "INT8", "UINT8", "INT16", "INT32", "UINT32", "INT64", "UINT64")
]

# JSON, datatype, and array; the same table is used in the other direction below.
CASES = [
    (b"[1.0,2.5]", "FP32", np.array([1.0, 2.5], "f4")),
    (b"0.2", "FP32", np.array(0.2, "f4")),
    (b"[[1.0,2.0]]", "FP64", np.array([[1, 2]], "f8")),
    (b"[NaN,Infinity,-Infinity]", "FP32", np.array([math.nan, math.inf, -math.inf], "f4")),
    (b"NaN", "FP64", np.array(math.nan)),
    (b"[0.1,0.33333334,16777216.0]", "FP32", np.array([0.1, 1 / 3, 2**24], "f4")),
    (b"[0.30000000000000004,-0.0]", "FP64", np.array([0.1 + 0.2, -0.0], "f8")),
    (b"[-128,127]", "INT8", np.array([-128, 127], "i1")),
    (b"[0,255]", "UINT8", np.array([0, 255], "u1")),
    (b"[[1],[-2]]", "INT16", np.array([[1], [-2]], "i2")),
    (b"7", "INT32", np.array(7, "i4")),
    (b"[4294967295]", "UINT32", np.array([2**32 - 1], "u4")),
    (b"[-9223372036854775808]", "INT64", np.array([-(2**63)], "i8")),
    (b"[18446744073709551615]", "UINT64", np.array([2**64 - 1], "u8")),
    (b"[true,false]", "BOOL", np.array([True, False])),
    (b"true", "BOOL", np.array(1, bool)),
    (b'["foo",""]', "BYTES", np.array([b"foo", b""], object)),
    ('"안녕"'.encode(), "BYTES", np.array("안녕".encode(), object)),
    (b"[]", "FP32", np.zeros(0, "f4")),
    (b"[[],[]]", "INT32", np.zeros((2, 0), "i4")),
    (b"[]", "BYTES", np.zeros(0, object)),
]
IDS = [f"{text.decode()} {datatype}" for text, datatype, _ in CASES]


def value_of(text: bytes):
    return tfs_document.parse_object(b'{"v":' + text + b"}")["v"]


@pytest.mark.parametrize(("text", "datatype", "array"), CASES, ids=IDS)
def test_json_becomes_the_array(text, datatype, array):
    decoded = tfs_values.decode_array(value_of(text), Datatype(datatype))

    assert decoded.dtype == NUMPY_DTYPE[Datatype(datatype)]
    np.testing.assert_array_equal(decoded, array, strict=True)


@pytest.mark.parametrize(("text", "datatype", "array"), CASES, ids=IDS)
def test_the_array_becomes_the_json(text, datatype, array):
    if datatype == "BYTES":
        assert tfs_document.encode_strings(array, binary=False) == text
    else:
        assert tfs_document.encode_numbers(array) == text


@pytest.mark.parametrize(
    "shape", [(32 * 1024,), (40_000,), (40_000, 2), (2, 40_000), (2, 2, 40_000), (2, 3, 4)]
)
def test_an_array_of_any_size_becomes_compact_json(shape):
    array = np.arange(np.prod(shape)).reshape(shape)
    strings = np.array([b"%d" % number for number in array.ravel()], object).reshape(shape)

    for numbers in (array, np.asfortranarray(array)):
        text = json.dumps(numbers.tolist(), separators=(",", ":"))
        assert tfs_document.encode_numbers(numbers) == text.encode()
    texts = np.vectorize(bytes.decode, otypes=[object])(strings).tolist()
    assert tfs_document.encode_strings(strings, binary=False) == (
        json.dumps(texts, separators=(",", ":")).encode()
    )


@pytest.mark.parametrize(
    ("text", "datatype", "array"),
    [
        (b"[1,2.5,1e0,1E+2]", "FP32", np.array([1, 2.5, 1, 100], "f4")),
        (b"[1e400,-1e400]", "FP64", np.array([math.inf, -math.inf])),
        (b"[1e39]", "FP32", np.array([math.inf], "f4")),
        (b"[" + b"9" * 400 + b",-" + b"9" * 400 + b"]", "FP64", np.array([math.inf, -math.inf])),
        (b"[" + b"9" * 400 + b",1e39,-1.5]", "FP32", np.array([math.inf, math.inf, -1.5], "f4")),
        (b"[16777217]", "FP32", np.array([16777216], "f4")),
        (b'[{"b64":"aW1hZ2UgYnl0ZXM="}]', "BYTES", np.array([b"image bytes"], object)),
        (b'{"b64":"/+8="}', "BYTES", np.array(b"\xff\xef", object)),
        (b'["a",{"b64":"Yg"}]', "BYTES", np.array([b"a", b"b"], object)),
    ],
)
def test_input_forms_that_are_not_written_back(text, datatype, array):
    decoded = tfs_values.decode_array(value_of(text), Datatype(datatype))

    np.testing.assert_array_equal(decoded, array, strict=True)


@pytest.mark.parametrize(
    ("text", "datatype", "message"),
    [
        (b"[1.5]", "INT32", "JSON Value: 1.5 Type: Number is not of expected type: int32"),
        (b"[1.0]", "INT64", "JSON Value: 1.0 Type: Number is not of expected type: int64"),
        (b"[1,true]", "FP32", "JSON Value: true Type: True is not of expected type: float"),
        (b"[false]", "INT8", "JSON Value: false Type: False is not of expected type: int8"),
        (b"[0,1]", "BOOL", "JSON Value: 0 Type: Number is not of expected type: bool"),
        (b'["1"]', "FP64", 'JSON Value: "1" Type: String is not of expected type: double'),
        (b"[null]", "FP32", "JSON Value: null Type: Null is not of expected type: float"),
        (b"[1]", "BYTES", "JSON Value: 1 Type: Number is not of expected type: string"),
        (
            b'{"b64":"YQ=="}',
            "FP32",
            'JSON Value: {"b64":"YQ=="} Type: Object is not of expected type: float',
        ),
        (b"[128]", "INT8", "JSON Value: 128 Type: Number is not of expected type: int8"),
        (
            b"[-128,127,300,-129]",
            "INT8",
            "JSON Value: 300 Type: Number is not of expected type: int8",
        ),
        (b"[-1]", "UINT64", "JSON Value: -1 Type: Number is not of expected type: uint64"),
        (
            b"[9223372036854775808]",
            "INT64",
            "JSON Value: 9223372036854775808 Type: Number is not of expected type: int64",
        ),
        (
            b"[18446744073709551616]",
            "UINT64",
            "JSON Value: 18446744073709551616 Type: Number is not of expected type: uint64",
        ),
        (
            b"[[1,2],[3]]",
            "FP32",
            "Encountered list at unexpected size: 1 at level: 1 expected size: 2",
        ),
        (
            b"[[1],2]",
            "FP32",
            "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
        ),
        (
            b"[[[1]],2]",
            "FP32",
            "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 3",
        ),
        (
            b"[[],2]",
            "FP32",
            "JSON Value: 2 found at incorrect level: 2 in the JSON DOM. Expected at level: 2",
        ),
        (b"[1,[2]]", "FP32", "Encountered list at unexpected level: 1 expected < 1"),
        (
            b"[[],[1]]",
            "FP32",
            "Encountered list at unexpected size: 1 at level: 1 expected size: 0",
        ),
        (b'{"a":"b"}', "BYTES", 'JSON Value: {"a":"b"} not formatted correctly for base64 data'),
        (b'{"b64":1}', "BYTES", 'JSON Value: {"b64":1} not formatted correctly for base64 data'),
        (
            b'{"b64":"YQ==","x":1}',
            "BYTES",
            'JSON Value: {"b64":"YQ==","x":1} not formatted correctly for base64 data',
        ),
        (
            b'{"b64":"Y"}',
            "BYTES",
            (
                'Unable to base64 decode {"b64":"Y"}: Invalid base64-encoded string: number of '
                "data characters (1) cannot be 1 more than a multiple of 4"
            ),
        ),
        (
            b'{"b64":"Y-_="}',
            "BYTES",
            'Unable to base64 decode {"b64":"Y-_="}: Only base64 data is allowed',
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(text, datatype, message):
    with pytest.raises(InvalidRequest) as caught:
        tfs_values.decode_array(value_of(text), Datatype(datatype))

    assert caught.value.message == message


@pytest.mark.parametrize("text", ["YQ", "YQ==", " Y\nQ = = ", "YQ =="])
def test_base64_may_lack_padding_and_contain_whitespace(text):
    assert tfs_values.decode_string({"b64": text}) == b"a"


@pytest.mark.parametrize(("text", "element"), [("", b""), ("YWI", b"ab"), ("YWJj", b"abc")])
def test_base64_of_any_length_may_lack_padding(text, element):
    assert tfs_values.decode_string({"b64": text}) == element


@pytest.mark.parametrize("text", ["YQ=", "YQ===", "=", "Y=Q=", "YQ\u00e9="])
def test_base64_with_wrong_padding_is_refused(text):
    with pytest.raises(InvalidRequest) as error:
        tfs_values.decode_string({"b64": text})
    assert error.value.message.startswith(f'Unable to base64 decode {{"b64":"{text}"}}: ')


@pytest.mark.parametrize("name", ["FP16", "BF16", "UINT16"])
def test_a_datatype_without_a_json_form_is_unsupported(name):
    with pytest.raises(UnsupportedDatatype) as error:
        tfs_values.decode_array([1], Datatype(name))
    shown = {"FP16": "half", "BF16": "bfloat16", "UINT16": "uint16"}[name]
    assert error.value.message == f"Conversion of JSON Value: [1] to type: {shown}"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([1, [], {}, "é", None, 0.5, math.nan], '[1,[],{},"é",null,0.5,NaN]'),
        ({"a": [1, 2], "b": {"c": True}}, '{"a":[1,2],"b":{"c":true}}'),
        (number_list.decode(b"[[1,2],[3,4]]", 0, 13), "[[1,2],[3,4]]"),
        ("x" * 118, f'"{"x" * 118}"'),
        ("x" * 119, f'"{"x" * 119}...'),
        ([1] * 100, "[" + "1," * 59 + "1..."),
    ],
)
def test_a_value_is_shown_as_json_of_at_most_120_characters(value, shown):
    assert tfs_values.show(value) == shown


def test_deeper_nesting_than_an_array_can_have_is_refused():
    assert tfs_values.decode_array(json.loads("[" * 64 + "]" * 64), Datatype.FP32).ndim == 64
    with pytest.raises(InvalidRequest) as error:
        tfs_values.decode_array(json.loads("[" * 65 + "]" * 65), Datatype.FP32)
    assert error.value.message == "JSON lists are nested deeper than 64 levels"


@given(st.data())
def test_every_array_survives_a_round_trip_through_json(data):
    datatype = data.draw(st.sampled_from(NUMBERS))
    array = data.draw(hnp.arrays(NUMPY_DTYPE[datatype], hnp.array_shapes(min_dims=1, min_side=1)))

    text = tfs_document.encode_numbers(array)

    decoded = tfs_values.decode_array(value_of(text), datatype)
    np.testing.assert_array_equal(decoded, array, strict=True)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    ),
    st.sampled_from(list(Datatype)),
)
def test_any_json_value_gives_an_array_or_a_known_error(value, datatype):
    try:
        array = tfs_values.decode_array(value, datatype)
    except (InvalidRequest, UnsupportedDatatype):
        return
    assert array.dtype == NUMPY_DTYPE[datatype]
    assert array.shape == np.array(value, object).shape
