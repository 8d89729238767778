"""Smoke tests on the wire: the requests of each protocol, and the parsed answers."""

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.protocols import (
    grps_tensors,
    oip_messages,
    oip_tensors,
    tensorflow_tensors,
)
from moorage_operator.probe.protocols._generated import grps_pb2, oip_pb2
from moorage_operator.probe.reading.elements import Unreadable, flat, nested, packed, unpacked
from support.probe_targets import grps_target

X = InputTensor("x", "FP32", (2, 2), (1.0, 2.0, 3.0, 4.0))
N = InputTensor("n", "INT64", (2,), (7, 8))
ALONE = InputTensor("alone", "FP32", (), (0.5,))
EMPTY = InputTensor("empty", "FP32", (0, 2), ())

INTEGERS = {f"{sign}INT{bits}": (sign, bits) for sign in ("", "U") for bits in (8, 16, 32, 64)}


def elements(datatype: str) -> Any:
    if datatype in INTEGERS:
        sign, bits = INTEGERS[datatype]
        return st.integers(0, 2**bits - 1) if sign else st.integers(-(2 ** (bits - 1)), 2**31 - 1)
    if datatype == "BOOL":
        return st.booleans()
    if datatype == "BYTES":
        return st.text()
    return st.floats(width={"FP16": 16, "FP64": 64}.get(datatype, 32), allow_nan=False)


@pytest.mark.parametrize("datatype", [*INTEGERS, "BOOL", "BYTES", "FP16", "FP32", "FP64"])
def test_packed_raw_contents_unpack_to_the_same_elements(datatype):
    small = elements(datatype)
    if datatype == "INT8":
        small = st.integers(-128, 127)
    if datatype == "INT16":
        small = st.integers(-(2**15), 2**15 - 1)

    @given(st.lists(small))
    def holds(data):
        assert unpacked(datatype, packed(datatype, data)) == tuple(data)

    holds()


def test_bf16_is_the_upper_half_of_fp32():
    assert packed("BF16", [1.0, -2.5]) == bytes.fromhex("803f20c0")
    assert unpacked("BF16", bytes.fromhex("803f20c0")) == (1.0, -2.5)


@pytest.mark.parametrize(
    ("datatype", "raw", "said"),
    [
        ("FP32", b"123", "3 bytes are not a multiple of the size of FP32"),
        ("BF16", b"1", "1 bytes are not a multiple of the size of BF16"),
        ("FP33", b"", "unknown datatype 'FP33'"),
        ("", b"1", "unknown datatype ''"),
        ("BYTES", b"\x01\0\0", "a BYTES length is truncated"),
        ("BYTES", b"\x02\0\0\0a", "a BYTES element is truncated"),
        ("BYTES", b"\xff\xff\xff\xffa", "a BYTES element is truncated"),
    ],
)
def test_raw_contents_with_an_incomplete_element_are_unreadable(datatype, raw, said):
    with pytest.raises(Unreadable, match=f"^{said}$"):
        unpacked(datatype, raw)


@pytest.mark.parametrize(("datatype", "size"), [("UINT8", 1), ("BF16", 2)])
def test_raw_contents_have_at_most_half_a_million_elements(datatype, size):
    assert len(unpacked(datatype, bytes(size << 19))) == 1 << 19
    with pytest.raises(
        Unreadable, match=r"^a tensor has 524289 elements, expected at most 524288$"
    ):
        unpacked(datatype, bytes(size * ((1 << 19) + 1)))


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (7, (7,)),
        ([], ()),
        ([True, 1, 0.5, "a"], (True, 1, 0.5, "a")),
        ([[True, 1, 0.5, "a"], 2], (True, 1, 0.5, "a", 2)),
    ],
)
def test_nested_values_become_flat(value, found):
    assert flat(value) == found


def test_values_are_nested_in_at_most_32_lists():
    deepest: Any = {"b64": "YQ=="}
    for _ in range(32):
        deepest = [deepest]

    assert tensorflow_tensors.outputs_of_document({"outputs": deepest}) == {"": ("a",)}
    with pytest.raises(
        Unreadable, match=r"^expected a number, a boolean or a string, got a list$"
    ):
        tensorflow_tensors.outputs_of_document({"outputs": [deepest]})


@pytest.mark.parametrize(("value", "said"), [(None, "null"), ({"a": 1}, "an object")])
def test_a_value_that_is_no_element_is_unreadable(value, said):
    with pytest.raises(
        Unreadable, match=f"^expected a number, a boolean or a string, got {said}$"
    ):
        flat([1, value])


@given(st.sampled_from([*INTEGERS, "BOOL", "BYTES", "FP16", "BF16", "FP32", "x"]), st.binary())
def test_arbitrary_raw_contents_are_read_or_unreadable(datatype, raw):
    with suppress(Unreadable):
        assert isinstance(unpacked(datatype, raw), tuple)


@given(st.lists(st.integers(0, 3), max_size=4))
def test_nesting_and_flattening_are_inverse(shape):
    data = tuple(range(math.prod(shape)))

    assert flat(nested(data, shape)) == data


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below),
    max_leaves=8,
)
READERS = [oip_tensors.outputs_of_document, tensorflow_tensors.outputs_of_document]


@pytest.mark.parametrize("read", READERS)
@given(
    st.dictionaries(
        st.sampled_from(["outputs", "predictions", "error"]),
        json_values | st.lists(st.fixed_dictionaries({"name": st.text(), "data": json_values})),
    )
)
def test_an_arbitrary_document_is_read_or_unreadable(read, document):
    with suppress(Unreadable):
        assert all(isinstance(name, str) for name in read(document))


@pytest.mark.parametrize("read", READERS)
def test_a_deeply_nested_document_is_unreadable(read):
    value: Any = 1
    for _ in range(900):
        value = [value]

    for document in ({"outputs": [{"name": "y", "data": value}]}, {"predictions": value}):
        with pytest.raises(Unreadable):
            read(document)


# ---------------------------------------------------------------------- Open Inference


def test_an_open_inference_request_is_the_tensors():
    assert oip_tensors.request_document([N]) == {
        "inputs": [{"name": "n", "datatype": "INT64", "shape": (2,), "data": (7, 8)}]
    }


def test_an_open_inference_answer_is_its_outputs():
    document = {
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [1, 2], "data": [[1, 0.5]]}]
    }

    assert oip_tensors.outputs_of_document(document) == {"y": (1, 0.5)}


NO_LIST = "it has no list of outputs"
NO_DATA = "an output has no name or no data"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, NO_LIST),
        ({"outputs": {}}, NO_LIST),
        ({"outputs": [1]}, NO_DATA),
        ({"outputs": [{"name": "y"}]}, NO_DATA),
        ({"outputs": [{"data": [1]}]}, NO_DATA),
        ({"outputs": [{"name": 1, "data": [1]}]}, NO_DATA),
        ({"outputs": [{"name": "y", "parameters": {"binary_data_size": 4}}]}, NO_DATA),
        (
            {"outputs": [{"name": "y", "data": [None]}]},
            "expected a number, a boolean or a string, got null",
        ),
    ],
)
def test_an_answer_without_outputs_is_unreadable(document, said):
    with pytest.raises(Unreadable, match=f"^{said}$"):
        oip_tensors.outputs_of_document(document)


def test_an_open_inference_message_has_raw_contents():
    message = oip_messages.request_message("m", "3", [N, X])

    assert (message.model_name, message.model_version) == ("m", "3")
    assert [list(each.shape) for each in message.inputs] == [[2], [2, 2]]
    assert message.raw_input_contents[0] == (7).to_bytes(8, "little") + (8).to_bytes(8, "little")


def output(name: str, datatype: str, **contents: Any) -> Any:
    return oip_pb2.ModelInferResponse.InferOutputTensor(
        name=name, datatype=datatype, contents=oip_pb2.InferTensorContents(**contents)
    )


def test_typed_and_raw_contents_are_read():
    typed = oip_pb2.ModelInferResponse(
        outputs=[
            output("a", "INT8", int_contents=[-1]),
            output("b", "BYTES", bytes_contents=[b"x", b"\xff"]),
            output("c", "FP32", fp32_contents=[0.5]),
        ]
    )
    raw = oip_pb2.ModelInferResponse(
        outputs=[output("a", "INT8")], raw_output_contents=[b"\xff\x01"]
    )

    assert oip_messages.outputs_of_message(typed) == {"a": (-1,), "b": ("x", "\\xff"), "c": (0.5,)}
    assert oip_messages.outputs_of_message(raw) == {"a": (-1, 1)}


@pytest.mark.parametrize(
    "message",
    [
        oip_pb2.ModelInferResponse(raw_output_contents=[b"1"]),
        oip_pb2.ModelInferResponse(outputs=[output("a", "FP16")]),
        oip_pb2.ModelInferResponse(outputs=[output("a", "")]),
    ],
)
def test_a_message_with_inconsistent_contents_is_unreadable(message):
    with pytest.raises(Unreadable):
        oip_messages.outputs_of_message(message)


# ---------------------------------------------------------------------- TensorFlow Serving


@pytest.mark.parametrize(
    ("inputs", "document"),
    [
        ([X], {"instances": [[1.0, 2.0], [3.0, 4.0]]}),
        ([X, N], {"instances": [{"x": [1.0, 2.0], "n": 7}, {"x": [3.0, 4.0], "n": 8}]}),
        ([ALONE], {"inputs": 0.5}),
        ([EMPTY], {"inputs": []}),
        ([X, ALONE], {"inputs": {"x": [[1.0, 2.0], [3.0, 4.0]], "alone": 0.5}}),
    ],
)
def test_a_batch_is_sent_in_rows_and_other_inputs_in_columns(inputs, document):
    assert tensorflow_tensors.request_document(inputs) == document


@pytest.mark.parametrize(
    ("document", "outputs"),
    [
        ({"predictions": [[1, 2], [3, 4]]}, {"": (1, 2, 3, 4)}),
        ({"predictions": []}, {"": ()}),
        ({"predictions": [{"y": 1, "z": [2]}, {"y": 3, "z": [4]}]}, {"y": (1, 3), "z": (2, 4)}),
        ({"predictions": [{"b64": "YQ=="}, {"b64": "Yg=="}]}, {"": ("a", "b")}),
        ({"outputs": [[1], [2]]}, {"": (1, 2)}),
        ({"outputs": {"y": [1], "z": {"b64": "YQ=="}}}, {"y": (1,), "z": ("a",)}),
    ],
)
def test_predictions_are_read(document, outputs):
    assert tensorflow_tensors.outputs_of_document(document) == outputs


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "it has neither predictions nor outputs"),
        ({"predictions": {"y": 1}}, "it has neither predictions nor outputs"),
        ({"predictions": [{"y": 1}, {"z": 1}]}, "its predictions have different outputs"),
        ({"predictions": [{"y": None}]}, "expected a number, a boolean or a string, got null"),
        ({"predictions": [{"b64": "?"}]}, "a b64 value is not valid base64"),
        ({"predictions": [{"b64": "\u00e4"}]}, "a b64 value is not valid base64"),
        (
            {"predictions": [1, {"y": 1}]},
            "expected a number, a boolean or a string, got an object",
        ),
    ],
)
def test_an_answer_without_predictions_is_unreadable(document, said):
    with pytest.raises(Unreadable, match=f"^{said}$"):
        tensorflow_tensors.outputs_of_document(document)


# ---------------------------------------------------------------------- GRPS


def test_grps_sends_missing_datatypes_in_the_next_wider_type():
    inputs = [
        InputTensor("b", "BOOL", (2,), (True, False)),
        InputTensor("u", "UINT32", (1,), (2**32 - 1,)),
        InputTensor("t", "BYTES", (1,), ("ä",)),
    ]

    message = grps_tensors.request_message(grps_target("http://h:1", infer_model="m-1"), inputs)

    flag, wide, text = message.gtensors.tensors
    assert message.model == "m-1"
    assert (flag.dtype, list(flag.flat_uint8)) == (grps_pb2.DT_UINT8, [1, 0])
    assert (wide.dtype, list(wide.flat_int64)) == (grps_pb2.DT_INT64, [2**32 - 1])
    assert (text.dtype, list(text.flat_string)) == (grps_pb2.DT_STRING, ["ä"])
    assert [each.name for each in message.gtensors.tensors] == ["b", "u", "t"]
    assert [list(each.shape) for each in message.gtensors.tensors] == [[2], [1], [1]]


def test_grps_rejects_values_that_fit_no_type():
    inputs = [InputTensor("u", "UINT64", (1,), (2**64 - 1,))]

    with pytest.raises(ValueError, match="out of range"):
        grps_tensors.request_message(grps_target("http://h:1"), inputs)


def test_gtensors_are_read():
    message = grps_pb2.GrpsMessage()
    message.gtensors.tensors.add(name="y", dtype=grps_pb2.DT_FLOAT32, flat_float32=[0.5])

    assert grps_tensors.outputs_of_message(message) == {"y": (0.5,)}


@pytest.mark.parametrize("dtype", [0, 77])
def test_a_message_without_gtensors_or_datatypes_is_unreadable(dtype):
    message = grps_pb2.GrpsMessage(str_data="hello")
    odd = grps_pb2.GrpsMessage()
    odd.gtensors.tensors.add(name="y", dtype=dtype, flat_float32=[0.5])

    with pytest.raises(Unreadable, match=r"^it has no gtensors$"):
        grps_tensors.outputs_of_message(message)
    with pytest.raises(Unreadable, match=r"^tensor 'y' has no datatype$"):
        grps_tensors.outputs_of_message(odd)
