"""The binary tensor extension: literal bytes in both directions, sizes of parts, raw requests."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from moorage_runtime.codec.arrays import binary_data
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.oip import response as oip_response
from moorage_runtime.codec.oip.request import ALL_BINARY, OutputForm
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import InferResponse, ModelMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec


def of_bytes(*elements):
    array = np.empty(len(elements), object)
    array[:] = elements
    return array


# (datatype, array, wire)
FORMS = [
    ("BOOL", np.array([True, False]), "0100"),
    ("INT8", np.array([-1, 1], "<i1"), "ff01"),
    ("UINT16", np.array([1, 65535], "<u2"), "0100ffff"),
    ("INT32", np.array([[1], [-2]], "<i4"), "01000000feffffff"),
    ("UINT64", np.array([2**64 - 1], "<u8"), "ffffffffffffffff"),
    ("FP16", np.array([1.0], "<f2"), "003c"),
    ("BF16", np.array([0x3F80], "<u2"), "803f"),
    ("FP32", np.array([1.1], "<f4"), "cdcc8c3f"),
    ("FP64", np.array(2.0, "<f8"), "0000000000000040"),
    ("BYTES", of_bytes(b"ab", b"", b"\xff"), "02000000616200000000" + "01000000ff"),
    ("BYTES", of_bytes(), ""),
    ("BYTES", of_bytes(b"a", b"b").reshape(2, 1), "01000000610100000062"),
    ("BOOL", np.array([[True], [False]]), "0100"),
    ("FP32", np.zeros((0, 3), "<f4"), ""),
]


@pytest.mark.parametrize(("datatype", "array", "wire"), FORMS)
def test_a_tensor_and_its_bytes(datatype, array, wire):
    tensor = Tensor("x", Datatype(datatype), array)
    assert bytes(binary_data.encode_array(tensor)).hex() == wire
    again = binary_data.decode_array(bytes.fromhex(wire), Datatype(datatype), array.shape, "x")
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize(("datatype", "array", "wire"), FORMS)
def test_too_few_and_too_many_bytes_are_refused(datatype, array, wire):
    whole = bytes.fromhex(wire)
    for part in [whole[:size] for size in range(len(whole))] + [whole + b"\0"]:
        with pytest.raises(InvalidRequest, match="s of binary data"):
            binary_data.decode_array(part, Datatype(datatype), array.shape, "x")


def test_any_nonzero_byte_is_true():
    array = binary_data.decode_array(b"\x02\x00\xff", Datatype.BOOL, (3,), "x")
    assert array.tolist() == [True, False, True]


def test_an_aligned_part_is_not_copied():
    body = np.arange(4, dtype="<f4").tobytes()
    array = binary_data.decode_array(body, Datatype.FP32, (4,), "x")
    assert np.shares_memory(array, np.frombuffer(body, np.uint8))


def test_a_misaligned_part_is_copied_to_where_the_processor_reads_it():
    body = memoryview(b"\0" + np.arange(4, dtype="<f4").tobytes())
    array = binary_data.decode_array(body[1:], Datatype.FP32, (4,), "x")
    assert array.flags.aligned
    assert array.tolist() == [0, 1, 2, 3]


def test_a_non_contiguous_array_is_written_in_row_major_order():
    tensor = Tensor("x", Datatype.INT8, np.array([[1, 2], [3, 4]], "<i1").T)
    assert bytes(binary_data.encode_array(tensor)) == b"\x01\x03\x02\x04"


@given(
    st.sampled_from([d for d in Datatype if d is not Datatype.BYTES]).flatmap(
        lambda d: st.tuples(st.just(d), hnp.arrays(NUMPY_DTYPE[d], hnp.array_shapes(min_side=0)))
    )
)
def test_numbers_survive_bit_by_bit(case):
    datatype, array = case
    wire = bytes(binary_data.encode_array(Tensor("x", datatype, array)))
    again = binary_data.decode_array(wire, datatype, array.shape, "x")
    assert again.tobytes() == array.tobytes()


def test_many_bytes_elements_are_written_in_order():
    elements = [b"%d" % index for index in range(70_000)]
    wire = bytes(binary_data.encode_array(Tensor("x", Datatype.BYTES, of_bytes(*elements))))
    assert wire == b"".join(struct.pack("<I", len(each)) + each for each in elements)


@pytest.mark.parametrize(
    "array", [np.arange(6, dtype="<i2").reshape(2, 3).T, np.arange(6, dtype="<i2")[::2]]
)
def test_elements_are_written_in_row_major_order(array):
    wire = binary_data.encode_array(Tensor("x", Datatype.INT16, array))
    assert bytes(wire) == np.array(array.tolist(), "<i2").tobytes()


@given(st.lists(st.binary(max_size=9), max_size=9))
def test_bytes_elements_round_trip(elements):
    wire = bytes(binary_data.encode_array(Tensor("x", Datatype.BYTES, of_bytes(*elements))))
    assert (
        binary_data.decode_array(wire, Datatype.BYTES, (len(elements),), "x").tolist() == elements
    )


@given(st.binary(max_size=24), st.integers(0, 4))
def test_arbitrary_bytes_are_elements_or_a_refusal(part, count):
    try:
        array = binary_data.decode_array(part, Datatype.BYTES, (count,), "x")
    except InvalidRequest:
        return
    assert bytes(binary_data.encode_array(Tensor("x", Datatype.BYTES, array))) == part


def body_of(inputs, tail=b"", **members):
    head = json.dumps({"inputs": inputs, **members}).encode()
    return head + tail, len(head)


def binary(name, datatype, shape, size):
    parameters = {"binary_data_size": size, "kept": 1}
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}


def test_binary_and_json_inputs_may_be_mixed():
    inputs = [
        binary("a", "INT16", [2], 4),
        {"name": "b", "datatype": "BOOL", "shape": [1], "data": [True]},
        binary("c", "BYTES", [1], 5),
    ]
    body, json_bytes = body_of(inputs, bytes.fromhex("01000200" + "0100000041"))

    decoded = oip_request.decode(body, json_bytes, "m", "").request

    assert [(t.name, t.datatype, t.array.tolist()) for t in decoded.inputs] == [
        ("a", "INT16", [1, 2]),
        ("b", "BOOL", [True]),
        ("c", "BYTES", [b"A"]),
    ]
    assert dict(decoded.inputs[0].parameters) == {"kept": 1}


def test_an_input_without_elements_may_be_binary():
    body, json_bytes = body_of([binary("a", "INT16", [0], 0)])

    (tensor,) = oip_request.decode(body, json_bytes, "m", "").request.inputs

    assert tensor.array.shape == (0,)


@pytest.mark.parametrize(
    ("inputs", "tail", "message"),
    [
        (
            [binary("a", "INT16", [2], 4)],
            b"\0\0\0",
            "inputs[0].parameters.binary_data_size is 4: the body has only 3 bytes left",
        ),
        (
            [binary("a", "INT16", [1], 2), binary("b", "INT16", [2], 4)],
            b"\0\0\0\0",
            "inputs[1].parameters.binary_data_size is 4: the body has only 2 bytes left",
        ),
        (
            [binary("a", "INT16", [2], 4)],
            b"\0" * 5,
            "the body has 1 more bytes after the JSON than the inputs' binary_data_size",
        ),
        (
            [binary("a", "INT16", [2], 3)],
            b"\0" * 3,
            "inputs[0] has 3 bytes of binary data: shape [2] of INT16 requires 4",
        ),
        (
            [binary("a", "INT16", [2], -1)],
            b"",
            (
                "inputs[0].parameters.binary_data_size: -1 is invalid: must be an integer of 0 "
                "or more"
            ),
        ),
        (
            [binary("a", "INT16", [2], size=True)],
            b"",
            (
                "inputs[0].parameters.binary_data_size: true is invalid: must be an integer of "
                "0 or more"
            ),
        ),
        (
            [binary("a", "INT16", [2], 4.0)],
            b"",
            (
                "inputs[0].parameters.binary_data_size: 4.0 is invalid: must be an integer of "
                "0 or more"
            ),
        ),
        (
            [binary("a", "INT16", [2], "4")],
            b"",
            (
                'inputs[0].parameters.binary_data_size: "4" is invalid: must be an integer of '
                "0 or more"
            ),
        ),
        (
            [{**binary("a", "INT16", [1], 2), "data": [1]}],
            b"\0\0",
            "inputs[0]: data and parameters.binary_data_size are both set: set only one",
        ),
        (
            [binary("a", "BYTES", [3], 12)],
            b"\1\0\0\0A" + b"\0\0\0\0" + b"\0\0\0",
            "inputs[0]: BYTES element 2 exceeds the 12 bytes of binary data",
        ),
        (
            [binary("a", "BYTES", [2], 5)],
            b"\1\0\0\0A",
            "inputs[0] has 1 BYTES elements of binary data: its shape requires 2",
        ),
    ],
)
def test_binary_inputs_with_a_wrong_size_are_refused(inputs, tail, message):
    body, json_bytes = body_of(inputs, tail)
    with pytest.raises(InvalidRequest) as error:
        oip_request.decode(body, json_bytes, "m", "")
    assert error.value.message == message


def test_binary_inputs_need_the_header():
    body, _ = body_of([binary("a", "INT16", [1], 2)])
    with pytest.raises(InvalidRequest) as error:
        oip_request.decode(body, None, "m", "")
    assert error.value.message == (
        "inputs[0].parameters.binary_data_size is 2: requires the header "
        "Inference-Header-Content-Length"
    )


@pytest.mark.parametrize(
    "value",
    ["-1", "x", "", "1.0", "11", "9" * 30, "0" * 20, "0x1", "²", "1 2", "2147483648"],
)
def test_an_invalid_header_length_is_refused(value):
    with pytest.raises(InvalidRequest) as error:
        oip_request.parse_header_length(value, 10)
    assert error.value.message == (
        f'Inference-Header-Content-Length: "{value}" is invalid: must be an integer from 0 to 10, '
        "the size of the body"
    )


def test_a_header_length_has_at_most_31_bits():
    assert oip_request.parse_header_length("2147483647", 2**40) == 2**31 - 1
    with pytest.raises(InvalidRequest):
        oip_request.parse_header_length("2147483648", 2**40)


@pytest.mark.parametrize(("value", "length"), [("0", 0), (" 10 ", 10), ("007", 7), ("0" * 19, 0)])
def test_a_header_is_the_size_of_the_json(value, length):
    assert oip_request.parse_header_length(value, 10) == length


@pytest.mark.parametrize(
    ("parameters", "outputs", "binary_names"),
    [
        ({}, [], set()),
        ({"binary_data_output": True}, [], {"a", "b"}),
        ({"binary_data_output": False}, [], set()),
        ({}, [("a", True), ("b", None)], {"a"}),
        ({"binary_data_output": True}, [("a", False), ("b", None)], {"b"}),
        ({"binary_data_output": False}, [("a", True), ("b", False)], {"a"}),
    ],
)
def test_outputs_are_binary_where_asked(parameters, outputs, binary_names):
    listed = [
        {"name": name, **({} if flag is None else {"parameters": {"binary_data": flag}})}
        for name, flag in outputs
    ]
    body, _ = body_of([], parameters=parameters, outputs=listed)
    form = oip_request.decode(body, None, "m", "").form
    tensors = tuple(Tensor(n, Datatype.INT8, np.array([1], "<i1")) for n in "ab")

    encoded = oip_response.encode(InferResponse("m", "1", tensors), form, "i")

    described = json.loads(encoded.text)["outputs"]
    assert {o["name"] for o in described if "data" not in o} == binary_names
    assert len(encoded.parts) == len(binary_names)
    assert encoded.is_binary == bool(binary_names)


def test_binary_answer_is_json_then_parts_in_output_order():
    tensors = (
        Tensor("b", Datatype.INT16, np.array([1, 2], "<i2"), {"k": "v"}),
        Tensor("a", Datatype.BYTES, of_bytes(b"x")),
    )
    encoded = oip_response.encode(InferResponse("m", "7", tensors), ALL_BINARY, "i")
    assert b"".join(encoded.parts).hex() == "01000200" + "0100000078"
    assert json.loads(encoded.text) == {
        "model_name": "m",
        "model_version": "7",
        "id": "i",
        "outputs": [
            {
                "name": "b",
                "datatype": "INT16",
                "shape": [2],
                "parameters": {"k": "v", "binary_data_size": 4},
            },
            {
                "name": "a",
                "datatype": "BYTES",
                "shape": [1],
                "parameters": {"binary_data_size": 5},
            },
        ],
    }


def test_an_empty_binary_output_still_makes_a_binary_answer():
    empty = Tensor("y", Datatype.FP32, np.zeros(0, "<f4"))
    encoded = oip_response.encode(InferResponse("m", "1", (empty,)), OutputForm(binary=True), "i")
    assert encoded.is_binary
    assert encoded.parts == (b"",)


def metadata(*inputs, batching=False):
    specs = tuple(TensorSpec(f"x{i}", Datatype(d), shape) for i, (d, shape) in enumerate(inputs))
    return ModelMetadata("m", "1", ("1",), "onnx_onnxv1", specs, (), batching=batching)


@pytest.mark.parametrize(
    ("inputs", "batching", "body", "shape"),
    [
        ([("FP32", (-1,))], False, bytes(16), (4,)),
        ([("FP32", (-1, 2))], False, bytes(16), (2, 2)),
        ([("FP32", (-1, 2))], False, bytes(24), (3, 2)),
        ([("FP32", (-1, 0))], False, b"", (0, 0)),
        ([("FP32", (2, 2))], False, bytes(16), (2, 2)),
        ([("FP32", (-1,))], False, b"", (0,)),
        ([("FP32", (-1, 4))], True, bytes(16), (1, 4)),
        ([("FP32", (-1, -1))], True, bytes(16), (1, 4)),
        ([("BYTES", (1,))], False, b"abc", (1,)),
        ([("BYTES", (1,))], False, b"", (1,)),
        ([("BYTES", (-1, 1))], True, b"abc", (1, 1)),
        ([("BOOL", (-1,))], False, b"\1\0", (2,)),
    ],
)
def test_a_raw_request_gets_its_shape_from_the_model(inputs, batching, body, shape):
    decoded = oip_request.decode_raw(body, "3", metadata(*inputs, batching=batching))
    assert (decoded.request.model_name, decoded.request.model_version) == ("m", "3")
    (tensor,) = decoded.request.inputs
    assert (tensor.name, tensor.datatype, tensor.array.shape) == ("x0", inputs[0][0], shape)
    assert decoded.form == ALL_BINARY


def test_a_raw_bytes_element_is_the_body_itself():
    decoded = oip_request.decode_raw(b"\5\0\0\0a", "", metadata(("BYTES", (1,))))
    assert decoded.request.inputs[0].array.tolist() == [b"\5\0\0\0a"]


@pytest.mark.parametrize(
    ("inputs", "batching", "body", "message"),
    [
        (
            [],
            False,
            b"",
            "a raw binary request requires a model with exactly one input: 'm' has 0",
        ),
        (
            [("FP32", (-1,))] * 2,
            False,
            b"",
            "a raw binary request requires a model with exactly one input: 'm' has 2",
        ),
        (
            [("FP32", (-1, -1))],
            False,
            bytes(4),
            "input 'x0' has 2 variable dimensions in [-1, -1]: a raw binary request allows one",
        ),
        (
            [("FP32", (-1, 2))],
            False,
            bytes(12),
            (
                "input 'x0' has 12 bytes: must be a multiple of 8, the size of one step of the "
                "variable dimension in [-1, 2]"
            ),
        ),
        (
            [("FP32", (2, 2))],
            False,
            bytes(12),
            "input 'x0' has 12 bytes of binary data: shape [2, 2] of FP32 requires 16",
        ),
        (
            [("FP32", (-1, 0))],
            False,
            bytes(4),
            (
                "input 'x0' has 4 bytes: must be a multiple of 0, the size of one step of the "
                "variable dimension in [-1, 0]"
            ),
        ),
        (
            [("BYTES", (-1,))],
            False,
            b"a",
            "input 'x0' has shape [-1]: a raw binary request of BYTES requires shape [1]",
        ),
        (
            [("BYTES", (1, 1))],
            False,
            b"a",
            "input 'x0' has shape [1, 1]: a raw binary request of BYTES requires shape [1]",
        ),
        (
            [("FP32", (-1, 4))],
            True,
            bytes(32),
            "input 'x0' has 32 bytes of binary data: shape [4] of FP32 requires 16",
        ),
    ],
)
def test_a_raw_request_that_the_model_does_not_allow_is_refused(inputs, batching, body, message):
    with pytest.raises(InvalidRequest) as error:
        oip_request.decode_raw(body, "", metadata(*inputs, batching=batching))
    assert error.value.message == message
