"""OIP's JSON: tensor data and other members of responses."""

import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from moorage_runtime.codec.arrays import json_data
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.oip import response as oip_response
from moorage_runtime.codec.oip.request import ALL_JSON, OutputForm
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import (
    InferResponse,
    ModelMetadata,
    ModelStatus,
    ServerMetadata,
)
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec


def encode(*tensors, **members):
    response = InferResponse("m", "1", tensors, **members)
    text = oip_response.encode(response, ALL_JSON, "id").text
    return text if isinstance(text, bytes) else b"".join(text)


def tensor(datatype, values, name="y"):
    dtype = NUMPY_DTYPE[Datatype(datatype)]
    if datatype == "BYTES":
        array = np.empty(len(values), object)
        array[:] = values
    else:
        array = np.array(values, dtype)
    return Tensor(name, Datatype(datatype), array)


@pytest.mark.parametrize(
    ("datatype", "values", "text"),
    [
        ("BOOL", [True, False], b"[true,false]"),
        ("UINT64", [2**64 - 1], b"[18446744073709551615]"),
        ("INT64", [-(2**63)], b"[-9223372036854775808]"),
        ("FP32", [1.1, 1e20, 16777216], b"[1.1,1e+20,16777216.0]"),
        ("FP16", [0.1], b"[0.0999755859375]"),
        ("FP64", [0.1], b"[0.1]"),
        ("FP32", [math.nan, 1, math.inf, -math.inf], b"[NaN,1.0,Infinity,-Infinity]"),
        ("FP16", [math.inf], b"[Infinity]"),
        ("BYTES", ["é\n".encode(), b""], '["é\\n",""]'.encode()),
        ("FP32", [], b"[]"),
    ],
)
def test_elements_are_printed_flat(datatype, values, text):
    assert b'"data":' + text + b"}" in encode(tensor(datatype, values))


def test_a_tensor_is_printed_flat_with_its_shape():
    array = np.arange(6, dtype="<i4").reshape(2, 3).T
    document = json.loads(encode(Tensor("y", Datatype.INT32, array)))
    assert document["outputs"] == [
        {"name": "y", "datatype": "INT32", "shape": [3, 2], "data": [0, 3, 1, 4, 2, 5]}
    ]


def test_the_members_of_a_response_have_this_order():
    output = Tensor("y", Datatype.INT8, np.array([1], "<i1"), {"k": "v"})
    assert encode(output, parameters={"p": 1}) == (
        b'{"model_name":"m","model_version":"1","id":"id","parameters":{"p":1},"outputs":['
        b'{"name":"y","datatype":"INT8","shape":[1],"parameters":{"k":"v"},"data":[1]}]}'
    )


def test_a_response_without_a_version_has_no_such_member():
    response = InferResponse("m", "", ())
    text = oip_response.encode(response, ALL_JSON, "id").text
    assert text == b'{"model_name":"m","id":"id","outputs":[]}'


@pytest.mark.parametrize("datatype", ["INT32", "FP32", "FP16", "BYTES"])
@pytest.mark.parametrize("count", [32 * 1024, 32 * 1024 + 1, 70_000])
def test_long_outputs_are_printed_as_short_ones(datatype, count):
    numbers = [index % 100 for index in range(count)]
    long = tensor(datatype, [b"%d" % x for x in numbers] if datatype == "BYTES" else numbers)
    encoded = encode(long, tensor("INT8", [7], "z"), long)
    first, second, third = json.loads(encoded)["outputs"]
    assert first["shape"] == third["shape"] == [count]
    assert first["data"] == third["data"]
    assert first["data"] == (list(map(str, numbers)) if datatype == "BYTES" else numbers)
    assert second["data"] == [7]
    assert b" " not in encoded


def test_long_outputs_have_tokens_for_numbers_that_are_not_finite():
    values = np.zeros(70_000, "<f4")
    values[[1, 40_000, 69_999]] = [math.nan, math.inf, -math.inf]
    (output,) = json.loads(encode(tensor("FP32", values)))["outputs"]
    np.testing.assert_array_equal(np.array(output["data"], "<f4"), values)


def test_a_name_with_the_word_null_is_unchanged_beside_nan():
    outputs = tensor("FP32", [math.nan], "null"), tensor("BYTES", [b"null"], "s")
    text = encode(*outputs, tensor("INT8", [1], "z"))
    assert text.count(b"null") == 2
    assert b"[NaN]" in text
    assert b'"data":[1]' in text


@pytest.mark.parametrize(("name", "values"), [("y", [math.nan]), ("null", [1.0])])
def test_a_long_output_may_be_beside_nan_or_the_word_null(name, values):
    long = tensor("INT32", np.arange(70_000), "long")
    first, short, last = json.loads(encode(long, tensor("FP32", values, name), long))["outputs"]
    assert first["data"] == last["data"] == list(range(70_000))
    np.testing.assert_array_equal(short["data"], values)
    assert short["name"] == name


def test_a_binary_output_has_no_data_in_the_text_beside_nan():
    outputs = tensor("FP32", [math.nan], "y"), tensor("FP32", [1.0], "b")
    form = OutputForm(overrides={"b": True})
    text = oip_response.encode(InferResponse("m", "1", outputs), form, "id").text
    first, second = json.loads(text)["outputs"]
    assert math.isnan(first["data"][0])
    assert second.keys() == {"name", "datatype", "shape", "parameters"}


@pytest.mark.parametrize(
    ("given_tensor", "message"),
    [
        (
            tensor("BYTES", [b"\xff"]),
            "output 'y' contains bytes that are not UTF-8: request binary output",
        ),
        (tensor("BF16", [1]), "output 'y' is BF16, which has no JSON form: request binary output"),
    ],
)
def test_an_output_without_json_form_asks_for_binary(given_tensor, message):
    with pytest.raises(InvalidRequest) as error:
        encode(given_tensor)
    assert error.value.message == message


NUMERIC = [d for d in Datatype if d not in (Datatype.BYTES, Datatype.BF16)]


@given(
    st.sampled_from(NUMERIC).flatmap(
        lambda d: st.tuples(st.just(d), hnp.arrays(NUMPY_DTYPE[d], hnp.array_shapes(min_side=0)))
    )
)
def test_numbers_survive_a_round_trip(case):
    datatype, array = case
    body = encode(Tensor("x", datatype, array))
    output = json_text.parse(body)["outputs"][0]
    again = json_data.decode_array(output["data"], datatype, array.shape, "data")
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_the_metadata_of_a_server_and_of_a_model():
    server = ServerMetadata("n", "1", ("a", "b"))
    assert oip_response.encode_server_metadata(server) == (
        b'{"name":"n","version":"1","extensions":["a","b"]}'
    )
    x = TensorSpec("x", Datatype.FP32, (-1, 2))
    y = TensorSpec("y", Datatype.INT8, ())
    model = ModelMetadata("m", "2", ("1", "2"), "p", (x,), (y,))
    described = (
        b'"platform":"p","inputs":[{"name":"x","datatype":"FP32","shape":[-1,2]}],'
        b'"outputs":[{"name":"y","datatype":"INT8","shape":[]}]}'
    )
    assert oip_response.encode_model_metadata(model, "2") == (
        b'{"name":"m","versions":["2"],' + described
    )
    assert oip_response.encode_model_metadata(model, "") == (
        b'{"name":"m","versions":["1","2"],' + described
    )
    unversioned = ModelMetadata("m", "", (), "p", (x,), (y,))
    assert oip_response.encode_model_metadata(unversioned, "") == b'{"name":"m",' + described


@pytest.mark.parametrize(
    ("state", "message", "text"),
    [
        ("READY", "", b'{"name":"m","ready":true}'),
        ("LOADING", "", b'{"name":"m","ready":false,"state":"LOADING"}'),
        ("LOADING", "why", b'{"name":"m","ready":false,"state":"LOADING","error":"why"}'),
        ("FAILED", "\udcff", b'{"name":"m","ready":false,"state":"FAILED","error":"\\\\udcff"}'),
    ],
)
def test_the_readiness_of_a_model(state, message, text):
    status = ModelStatus("m", "1", state, message)
    assert oip_response.encode_model_ready("m", status) == text


def test_a_problem_of_the_repository_is_in_the_readiness_of_the_server():
    assert oip_response.encode_server_ready("why", is_ready=False) == (
        b'{"live":false,"ready":false,"message":"why"}'
    )


def test_an_error_text_that_is_not_unicode_is_escaped():
    assert oip_response.encode_error("bad \udcff") == b'{"error":"bad \\\\udcff"}'


def test_a_float_is_written_in_its_shortest_exact_form():
    value = struct.unpack("<f", struct.pack("<f", 3.1))[0]
    assert b"[3.1]" in encode(tensor("FP32", [value]))
