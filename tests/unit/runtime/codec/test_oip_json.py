"""OIP's JSON: tensor data and other members of requests, and refusals."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.arrays import json_data
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype


def decode(data, datatype, *shape):
    return json_data.decode_array(data, Datatype(datatype), shape, "data")


@pytest.mark.parametrize(
    ("datatype", "data", "values"),
    [
        ("BOOL", [True, False, 1, 0], [True, False, True, False]),
        ("INT8", [-128, 127, 3.0], [-128, 127, 3]),
        ("INT8", [-128.0, 127.0], [-128, 127]),
        ("UINT8", [0, 255], [0, 255]),
        ("UINT64", [2**64 - 1, 0], [2**64 - 1, 0]),
        ("INT64", [-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
        ("INT64", [2**53 + 1], [2**53 + 1]),
        ("FP32", [1, 1.1, -0.0], [1.0, np.float32(1.1), 0.0]),
        ("FP32", [1e39, -1e39], [math.inf, -math.inf]),
        ("FP16", [70000, 0.1], [math.inf, np.float16(0.1)]),
        ("FP64", [10**400, -(10**400)], [math.inf, -math.inf]),
        ("FP32", [10**400, 1e39, 1], [math.inf, math.inf, 1]),
        ("FP16", [-(10**400), 70000, 1.5], [-math.inf, math.inf, 1.5]),
        ("FP64", [0.1], [0.1]),
        ("BYTES", ["", "é", "a\u0000b"], [b"", "é".encode(), b"a\x00b"]),
    ],
)
def test_elements_become_the_datatype(datatype, data, values):
    array = decode(data, datatype, len(data))
    assert array.dtype == NUMPY_DTYPE[Datatype(datatype)]
    assert array.tolist() == values


@pytest.mark.parametrize(
    "data",
    [
        [1, 2, 3, 4, 5, 6],
        [[1, 2, 3], [4, 5, 6]],
        [[1, 2], [3, 4], [5, 6]],
        [1, [2, [3]], 4, [5, 6]],
    ],
)
def test_any_nesting_with_the_right_number_of_elements_is_read_in_order(data):
    assert decode(data, "INT32", 2, 3).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_scalar_is_a_list_of_one_element():
    array = decode([7], "INT32")
    assert array.shape == ()
    assert array == 7


@pytest.mark.parametrize(
    ("datatype", "data", "message"),
    [
        (
            "INT8",
            [1, 128],
            "data[1]: 128 is invalid: must be an integer from -128 to 127, the range of INT8",
        ),
        (
            "INT8",
            [1, [2, -129]],
            (
                "data[1][1]: -129 is invalid: must be an integer from -128 to 127, the range "
                "of INT8"
            ),
        ),
        (
            "UINT8",
            [-1],
            "data[0]: -1 is invalid: must be an integer from 0 to 255, the range of UINT8",
        ),
        (
            "INT64",
            [2**63],
            (
                "data[0]: 9223372036854775808 is invalid: must be an integer from "
                "-9223372036854775808 to 9223372036854775807, the range of INT64"
            ),
        ),
        (
            "INT64",
            [-(2.0**63)],
            (
                "data[0]: -9.223372036854776e+18 is invalid: must be an integer from "
                "-9223372036854775808 to 9223372036854775807, the range of INT64"
            ),
        ),
        (
            "UINT64",
            [2**64],
            (
                "data[0]: 18446744073709551616 is invalid: must be an integer from 0 to "
                "18446744073709551615, the range of UINT64"
            ),
        ),
        (
            "INT32",
            [1.5],
            (
                "data[0]: 1.5 is invalid: must be an integer from -2147483648 to 2147483647, "
                "the range of INT32"
            ),
        ),
        (
            "INT32",
            [math.nan],
            (
                "data[0]: NaN is invalid: must be an integer from -2147483648 to 2147483647, "
                "the range of INT32"
            ),
        ),
        (
            "INT32",
            [True],
            (
                "data[0]: true is invalid: must be an integer from -2147483648 to 2147483647, "
                "the range of INT32"
            ),
        ),
        (
            "INT32",
            ["1"],
            (
                'data[0]: "1" is invalid: must be an integer from -2147483648 to 2147483647, '
                "the range of INT32"
            ),
        ),
        ("BOOL", [2], "data[0]: 2 is invalid: must be true, false, 0 or 1, as BOOL requires"),
        ("BOOL", [1.0], "data[0]: 1.0 is invalid: must be true, false, 0 or 1, as BOOL requires"),
        (
            "BOOL",
            ["true"],
            'data[0]: "true" is invalid: must be true, false, 0 or 1, as BOOL requires',
        ),
        ("FP32", ["x"], 'data[0]: "x" is invalid: must be a number, as FP32 requires'),
        ("FP32", [True], "data[0]: true is invalid: must be a number, as FP32 requires"),
        ("FP32", [None], "data[0]: null is invalid: must be a number, as FP32 requires"),
        ("FP32", [{}], "data[0]: an object is invalid: must be a number, as FP32 requires"),
        ("BYTES", [1], "data[0]: 1 is invalid: must be a string, as BYTES requires"),
        ("BYTES", ["a", 1], "data[1]: 1 is invalid: must be a string, as BYTES requires"),
        ("BYTES", [None], "data[0]: null is invalid: must be a string, as BYTES requires"),
        ("BF16", [1], "data: BF16 has no JSON form: use binary data"),
    ],
)
def test_an_invalid_element_is_reported(datatype, data, message):
    with pytest.raises(InvalidRequest) as error:
        decode(data, datatype, json.dumps(data).count(",") + 1)
    assert error.value.message == message


@pytest.mark.parametrize(
    ("data", "shape", "message"),
    [
        ([1], (3,), "data has 1 elements: shape [3] requires 3"),
        ([], (1,), "data has 0 elements: shape [1] requires 1"),
        ([1], (0,), "data has 1 elements: shape [0] requires 0"),
        (5, (), "data: 5 is invalid: must be an array"),
        ("abc", (3,), 'data: "abc" is invalid: must be an array'),
        ({"0": 1}, (1,), "data: an object is invalid: must be an array"),
        (None, (1,), "data: null is invalid: must be an array"),
    ],
)
def test_data_of_another_size_or_kind_is_refused(data, shape, message):
    with pytest.raises(InvalidRequest) as error:
        decode(data, "FP32", *shape)
    assert error.value.message == message


def request(**members):
    item = {
        "name": "x",
        "datatype": "FP32",
        "shape": [1],
        "data": [1.5],
        **members.pop("input", {}),
    }
    return json.dumps(
        {"inputs": [{k: v for k, v in item.items() if v is not ...}], **members}
    ).encode()


def test_a_complete_request_is_read():
    body = request(
        id="42",
        parameters={"a": 1},
        input={"parameters": {"d": True}},
        outputs=[{"name": "y", "parameters": {"b": "c"}}],
        model_name="ignored",
        extra=[1],
    )
    decoded = oip_request.decode(body, None, "m", "3").request
    assert (decoded.model_name, decoded.model_version, decoded.id) == ("m", "3", "42")
    assert dict(decoded.parameters) == {"a": 1}
    assert [(o.name, dict(o.parameters)) for o in decoded.outputs] == [("y", {"b": "c"})]
    (tensor,) = decoded.inputs
    assert (tensor.name, tensor.datatype, tensor.array.tolist()) == ("x", "FP32", [1.5])
    assert dict(tensor.parameters) == {"d": True}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request body is empty: must be a JSON object"),
        (b" ", "the body is not valid JSON: Expecting value: line 1 column 2 (char 1)"),
        (b"[]", "the request body is an array: must be a JSON object"),
        (b"{}", "inputs is missing: must be an array"),
        (b'{"inputs":{}}', "inputs: an object is invalid: must be an array"),
        (b'{"inputs":null}', "inputs: null is invalid: must be an array"),
        (b'{"inputs":[1]}', "inputs[0]: 1 is invalid: must be an object"),
        (b'{"inputs":[]} x', "the body is not valid JSON: Extra data: line 1 column 15 (char 14)"),
        (b'{"inputs":[],"id":7}', "id: 7 is invalid: must be a string"),
        (b'{"inputs":[],"outputs":{}}', "outputs: an object is invalid: must be an array"),
        (b'{"inputs":[],"outputs":[{}]}', "outputs[0].name is missing"),
        (
            b'{"inputs":[],"outputs":[{"name":"y"},7]}',
            "outputs[1]: 7 is invalid: must be an object",
        ),
        (
            b'{"inputs":[],"outputs":[{"name":"y","parameters":7}]}',
            "outputs[0].parameters: 7 is invalid: must be an object",
        ),
        (
            b'{"inputs":[],"outputs":[{"name":"y","parameters":{"binary_data":1}}]}',
            "outputs[0].parameters.binary_data: 1 is invalid: must be a boolean",
        ),
        (b'{"inputs":[],"parameters":[]}', "parameters: an array is invalid: must be an object"),
        (
            b'{"inputs":[],"parameters":{"a":null}}',
            "parameters.a: null is invalid: must be a string, number or boolean",
        ),
        (
            b'{"inputs":[],"parameters":{"a":18446744073709551616,"b":NaN}}',
            f"parameters.a: {2**64} is invalid: must be an integer from {-(2**63)} to {2**64 - 1}",
        ),
        (
            b'{"inputs":[],"parameters":{"a":18446744073709551616}}',
            f"parameters.a: {2**64} is invalid: must be an integer from {-(2**63)} to {2**64 - 1}",
        ),
        (
            (
                b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1],"parameters":'
                b'{"a":18446744073709551616}}]}'
            ),
            (
                f"inputs[0].parameters.a: {2**64} is invalid: must be an integer from "
                f"{-(2**63)} to {2**64 - 1}"
            ),
        ),
        (
            b'{"inputs":[],"parameters":{"b":1e30,"a" : -9223372036854775809 }}',
            (
                f"parameters.a: {-(2**63) - 1} is invalid: must be an integer from {-(2**63)} to "
                f"{2**64 - 1}"
            ),
        ),
        (
            b'{"inputs":[],"outputs":[{"name":"x","parameters":{"\xc3\xa9[\\"":1'
            + b"0" * 300
            + b"}}]}",
            (
                f'outputs[0].parameters.\xe9[": 1{"0" * 59}... is invalid: must be an integer '
                f"from {-(2**63)} to {2**64 - 1}"
            ),
        ),
        (
            b'{"inputs":[],"parameters":{"a":{}}}',
            "parameters.a: an object is invalid: must be a string, number or boolean",
        ),
        (
            b'{"inputs":[],"parameters":{"binary_data_output":1}}',
            "parameters.binary_data_output: 1 is invalid: must be a boolean",
        ),
        (b"\xff{}", "the JSON is not UTF-8: byte 0xff at position 0"),
        (b'{"inputs":"\xc3"}', "the JSON is not UTF-8: byte 0xc3 at position 11"),
        (
            b'{"id":"\\ud800"}',
            "the JSON contains an unpaired surrogate, which is not valid Unicode",
        ),
        (b"[" * 101 + b"]" * 101, "the JSON is nested deeper than 100 levels"),
        (b'{"a":' * 50_000, "the JSON is nested deeper than 100 levels"),
        (b'{"a":' + b"9" * 5000 + b"}", "the JSON contains an integer with more than 4300 digits"),
        (request(input={"name": ...}), "inputs[0].name is missing"),
        (
            request(input={"parameters": []}),
            "inputs[0].parameters: an array is invalid: must be an object",
        ),
        (
            request(input={"data": ["x"]}),
            'inputs[0].data[0]: "x" is invalid: must be a number, as FP32 requires',
        ),
        (request(input={"name": 1}), "inputs[0].name: 1 is invalid: must be a string"),
        (request(input={"datatype": ...}), "inputs[0].datatype is missing"),
        (
            request(input={"datatype": "fp32"}),
            (
                'inputs[0].datatype: "fp32" is invalid: must be one of BOOL, UINT8, UINT16, '
                "UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES"
            ),
        ),
        (request(input={"shape": ...}), "inputs[0].shape is missing"),
        (
            request(input={"shape": 1}),
            "inputs[0].shape: 1 is invalid: must be an array of integers of 0 or more",
        ),
        (
            request(input={"shape": [-1]}),
            "inputs[0].shape[0]: -1 is invalid: must be an integer of 0 or more",
        ),
        (
            request(input={"shape": [1.0]}),
            "inputs[0].shape[0]: 1.0 is invalid: must be an integer of 0 or more",
        ),
        (
            request(input={"shape": [True]}),
            "inputs[0].shape[0]: true is invalid: must be an integer of 0 or more",
        ),
        (
            request(input={"shape": ["1"]}),
            'inputs[0].shape[0]: "1" is invalid: must be an integer of 0 or more',
        ),
        (
            request(input={"shape": [2**60]}),
            "inputs[0].shape: the product of dimensions 0 to 0 is too large for a tensor",
        ),
        (
            request(input={"shape": [2**60 - 1]}),
            (
                "inputs[0].data has 1 elements: shape [1152921504606846975] requires "
                "1152921504606846975"
            ),
        ),
        (
            request(input={"shape": [2**63]}),
            "inputs[0].shape: the product of dimensions 0 to 0 is too large for a tensor",
        ),
        (
            request(input={"shape": [2**33, 2**33]}),
            "inputs[0].shape: the product of dimensions 0 to 1 is too large for a tensor",
        ),
        (
            request(input={"shape": [0, 2**62]}),
            "inputs[0].shape: the product of dimensions 0 to 1 is too large for a tensor",
        ),
        (
            request(input={"shape": [1] * 65}),
            "inputs[0].shape has 65 dimensions: must have 64 or fewer",
        ),
        (
            request(input={"data": ...}),
            "inputs[0] has neither data nor parameters.binary_data_size: set one of them",
        ),
    ],
)
def test_an_invalid_request_is_refused_with_the_field(body, message):
    with pytest.raises(InvalidRequest) as error:
        oip_request.decode(body, None, "m", "")
    assert error.value.message == message


def test_the_data_of_an_input_may_be_long():
    (read,) = oip_request.decode(
        request(input={"shape": [10_000], "data": [0.5] * 10_000}), None, "m", ""
    ).request.inputs
    assert read.array.tolist() == [0.5] * 10_000


def test_a_request_has_at_most_16384_inputs():
    item = '{"name":"x","datatype":"INT8","shape":[1],"data":[1]}'

    def decode(count):
        body = f'{{"inputs":[{",".join([item] * count)}]}}'.encode()
        return oip_request.decode(body, None, "m", "").request

    assert len(decode(16_384).inputs) == 16_384
    with pytest.raises(InvalidRequest) as error:
        decode(16_385)
    assert error.value.message == "inputs has 16385 entries: must have 16384 or fewer"


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + request(),
        request() + b" \r\n",
        request(id=None, outputs=None, parameters=None),
        request(input={"data": [[[1.5]]]}),
        request(input={"shape": [1] * 64}),
        request(input={"shape": [0] * 64, "data": []}),
        b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}',
        b'{"inputs":[],"parameters":{"a":-9223372036854775808,"b":NaN}}',
        b'{"inputs":[],"parameters":{"a":18446744073709551615,"b":NaN}}',
        b'{"inputs":[],"parameters":{"a":1e30,"b":-1e19,"c":18446744073709551616.0}}',
        b'{"inputs":[],"parameters":{"a":1e30},"a":18446744073709551616}',
        b'{"inputs":[],"deep":' + b"[" * 99 + b"]" * 99 + b"}",
        b'{"inputs":[],"text":"' + b"[" * 500 + b'"}',
        b'{"inputs":[],"text":"\\"' + b"[" * 500 + b'"}',
    ],
)
def test_unusual_but_valid_requests_are_accepted(body):
    oip_request.decode(body, None, "m", "")


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_arbitrary_bytes_are_a_request_or_a_refusal(body):
    try:
        oip_request.decode(body, None, "m", "")
    except InvalidRequest as error:
        assert error.message  # noqa: PT017 - both outcomes are valid, but a refusal needs a message


def test_every_truncation_of_a_request_is_refused():
    whole = request(id="é", parameters={"a": 1})
    for size in range(len(whole)):
        with pytest.raises(InvalidRequest):
            oip_request.decode(whole[:size], None, "m", "")


@given(st.integers(0, 130), st.sampled_from(["[]", "{}"]))
def test_brackets_in_strings_do_not_count_as_depth(levels, kind):
    opening = b"[" if kind == "[]" else b'{"]}\\"":'
    closing = kind[1].encode()
    assert json_text.depth(opening * levels + b'"[[{"' + closing * levels) == levels
