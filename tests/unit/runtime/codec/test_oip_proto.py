"""OIP's protobuf messages: literal bytes, typed and raw tensors, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from moorage_runtime.codec._generated import oip_pb2 as pb
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.oip import proto_contents as oip_proto_contents
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge
from moorage_runtime.values.inference import InferResponse, ModelMetadata, ServerMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

# The specification's own example, typed and raw.
TYPED = (
    "0a076d796d6f64656c1a0234322a1c0a06696e70757430120655494e5433321a0202022a06220401020304"
    "2a180a06696e707574311204424f4f4c1a01032a050a0301000132090a076f757470757430"
)
RAW = (
    "0a076d796d6f64656c1a0234322a140a06696e70757430120655494e5433321a0202022a110a06696e70757431"
    "1204424f4f4c1a01033a10010000000200000003000000040000003a03010001"
)
# (datatype, field, values)
TYPED_FORMS = [
    ("BOOL", "bool_contents", [True, False]),
    ("INT8", "int_contents", [-128, 127]),
    ("INT16", "int_contents", [-(2**15), 2**15 - 1]),
    ("INT32", "int_contents", [-(2**31), 2**31 - 1]),
    ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
    ("UINT8", "uint_contents", [0, 255]),
    ("UINT16", "uint_contents", [0, 2**16 - 1]),
    ("UINT32", "uint_contents", [0, 2**32 - 1]),
    ("UINT64", "uint64_contents", [0, 2**64 - 1]),
    ("FP32", "fp32_contents", [1.5, math.inf]),
    ("FP64", "fp64_contents", [0.1, -math.inf]),
    ("BYTES", "bytes_contents", [b"", b"\xff\0"]),
]
FIELDS = {field for _, field, _ in TYPED_FORMS}


def request(*inputs, raw=(), **members):
    message = pb.ModelInferRequest(model_name="m", raw_input_contents=raw, **members)
    for item in inputs:
        message.inputs.append(item)
    return message.SerializeToString()


def tensor(datatype, shape, name="x", **contents):
    item = pb.ModelInferRequest.InferInputTensor(name=name, datatype=datatype, shape=shape)
    if contents:
        item.contents.SetInParent()
    for field, values in contents.items():
        getattr(item.contents, field).extend(values)
    return item


def as_array(values, datatype):
    array = np.empty(len(values), NUMPY_DTYPE[datatype])
    array[:] = values
    return array


@pytest.mark.parametrize("wire", [TYPED, RAW])
def test_the_request_example_of_the_specification_is_read(wire):
    decoded = oip_proto.decode_infer(bytes.fromhex(wire))
    request = decoded.request
    assert (request.model_name, request.model_version, request.id) == ("mymodel", "", "42")
    assert [(t.name, t.datatype, t.array.tolist()) for t in request.inputs] == [
        ("input0", "UINT32", [[1, 2], [3, 4]]),
        ("input1", "BOOL", [True, False, True]),
    ]
    assert decoded.wants_raw == (wire == RAW)


@pytest.mark.parametrize(
    ("wants_raw", "wire"),
    [
        (
            False,
            (
                "0a076d796d6f64656c1201311a0234322a2f0a076f7574707574301204465033321a0203022a1a3218"
                "0000803fcdcc8c3f00000040666606400000404066664640"
            ),
        ),
        (
            True,
            (
                "0a076d796d6f64656c1201311a0234322a130a076f7574707574301204465033321a02030232180000"
                "803fcdcc8c3f00000040666606400000404066664640"
            ),
        ),
    ],
)
def test_the_response_example_of_the_specification_is_written(wants_raw, wire):
    output = np.array([[1.0, 1.1], [2.0, 2.1], [3.0, 3.1]], "<f4")
    tensors = (Tensor("output0", Datatype.FP32, output),)
    response = InferResponse("mymodel", "1", tensors, "42")
    assert oip_proto.encode_infer(response, wants_raw=wants_raw).hex() == wire


@pytest.mark.parametrize(("datatype", "field", "values"), TYPED_FORMS)
def test_typed_values_survive_a_round_trip(datatype, field, values):
    decoded = oip_proto.decode_infer(request(tensor(datatype, [2], **{field: values})))
    (read,) = decoded.request.inputs
    assert read.array.dtype == NUMPY_DTYPE[Datatype(datatype)]
    assert read.array.tolist() == values

    response = InferResponse("m", "1", (read,))
    message = pb.ModelInferResponse.FromString(oip_proto.encode_infer(response, wants_raw=False))
    assert list(getattr(message.outputs[0].contents, field)) == values
    assert not message.raw_output_contents


@pytest.mark.parametrize(("datatype", "field", "values"), TYPED_FORMS)
def test_values_in_any_other_field_are_refused(datatype, field, values):
    for other in FIELDS - {field}:
        wrong = [b"a"] if other == "bytes_contents" else [1]
        for contents in ({other: wrong}, {field: values[:1], other: wrong}):
            with pytest.raises(InvalidRequest, match=rf"inputs\[0\].contents.{other} has"):
                oip_proto.decode_infer(request(tensor(datatype, [1], **contents)))


@pytest.mark.parametrize(
    ("datatype", "field", "value", "limits"),
    [
        ("INT8", "int_contents", 128, "-128 to 127"),
        ("INT8", "int_contents", -129, "-128 to 127"),
        ("INT16", "int_contents", 2**15, "-32768 to 32767"),
        ("UINT8", "uint_contents", 256, "0 to 255"),
        ("UINT16", "uint_contents", 2**16, "0 to 65535"),
    ],
)
def test_a_value_outside_the_range_of_a_narrow_datatype_is_named(datatype, field, value, limits):
    with pytest.raises(InvalidRequest, match=rf"{field}\[1\]: {value} .*{limits}"):
        oip_proto.decode_infer(request(tensor(datatype, [2], **{field: [0, value]})))


def parameters(**values):
    return {key: pb.InferParameter(**value) for key, value in values.items()}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\xff", "the 1 received bytes are not a valid inference.ModelInferRequest"),
        (
            b"\x0a\x02\xff\xfe",
            "the 4 received bytes are not a valid inference.ModelInferRequest",
        ),
        (b"", "model_name is empty: must be the name of a model"),
        (
            request(tensor("fp32", [1])),
            (
                "inputs[0].datatype: 'fp32' is invalid: must be one of BOOL, UINT8, UINT16, "
                "UINT32, UINT64, INT8, INT16, INT32, INT64, FP16, BF16, FP32, FP64, BYTES"
            ),
        ),
        (
            request(tensor("FP32", [-1])),
            "inputs[0].shape[0]: -1 is invalid: must be an integer of 0 or more",
        ),
        (
            request(tensor("FP32", [2**62, 2**62])),
            "inputs[0].shape: the product of dimensions 0 to 0 is too large for a tensor",
        ),
        (
            request(tensor("FP32", [1] * 65)),
            "inputs[0].shape has 65 dimensions: must have 64 or fewer",
        ),
        (
            request(tensor("FP32", [1])),
            "inputs[0].contents has 0 values in fp32_contents: shape [1] requires 1",
        ),
        (
            request(tensor("FP32", [2], fp32_contents=[1])),
            "inputs[0].contents has 1 values in fp32_contents: shape [2] requires 2",
        ),
        (
            request(tensor("FP16", [1], fp32_contents=[1])),
            (
                "inputs[0].contents.fp32_contents: FP16 has no typed form: send it in "
                "raw_input_contents"
            ),
        ),
        (
            request(tensor("BF16", [1], uint_contents=[1])),
            (
                "inputs[0].contents.uint_contents: BF16 has no typed form: send it in "
                "raw_input_contents"
            ),
        ),
        (
            request(tensor("FP16", [1])),
            "inputs[0].contents has 0 values in no field: shape [1] requires 1",
        ),
        (
            request(tensor("FP32", [1]), raw=[b"\0" * 4] * 2),
            "raw_input_contents has 2 entries for 1 inputs: must have one per input",
        ),
        (
            request(tensor("FP32", [1]), tensor("FP32", [1]), raw=[b"\0" * 4]),
            "raw_input_contents has 1 entries for 2 inputs: must have one per input",
        ),
        (
            request(raw=[b""]),
            "raw_input_contents has 1 entries for 0 inputs: must have one per input",
        ),
        (
            request(tensor("FP32", [1], fp32_contents=[1]), raw=[b"\0" * 4]),
            "inputs[0].contents has values, and raw_input_contents is set: set only one of them",
        ),
        (
            request(tensor("FP32", [2]), raw=[b"\0" * 4]),
            "raw_input_contents[0] has 4 bytes of binary data: shape [2] of FP32 requires 8",
        ),
        (
            request(tensor("BYTES", [1]), raw=[b"\5\0\0\0ab"]),
            "raw_input_contents[0]: BYTES element 0 exceeds the 6 bytes of binary data",
        ),
        (
            request(tensor("BYTES", [2]), raw=[b"\0\0\0\0"]),
            "raw_input_contents[0] has 1 BYTES elements of binary data: its shape requires 2",
        ),
        (
            request(tensor("BYTES", [1]), raw=[b"\0\0\0\0\0"]),
            "raw_input_contents[0]: BYTES element 1 exceeds the 5 bytes of binary data",
        ),
    ],
)
def test_an_invalid_request_is_refused_with_the_field(data, message):
    with pytest.raises(InvalidRequest) as error:
        oip_proto.decode_infer(data)
    assert error.value.message == message


@pytest.mark.parametrize("datatype", list(Datatype))
def test_an_empty_tensor_needs_no_contents(datatype):
    for data in (request(tensor(datatype, [0, 3])), request(tensor(datatype, [0, 3]), raw=[b""])):
        (read,) = oip_proto.decode_infer(data).request.inputs
        assert (read.array.shape, read.array.dtype) == ((0, 3), NUMPY_DTYPE[datatype])


def test_empty_contents_beside_raw_are_tolerated():
    data = request(tensor("FP32", [1], fp32_contents=[]), raw=[b"\0\0\x80\x3f"])
    assert oip_proto.decode_infer(data).request.inputs[0].array.tolist() == [1.0]


def test_a_large_raw_tensor_shares_the_memory_of_the_message():
    values = np.arange(20_000).astype("<i1")
    data = request(tensor("INT8", [20_000]), raw=[values.tobytes()])
    (read,) = oip_proto.decode_infer(data).request.inputs
    np.testing.assert_array_equal(read.array, values)
    assert np.shares_memory(read.array, np.frombuffer(data, np.uint8))


def test_any_nonzero_raw_byte_is_true():
    (read,) = oip_proto.decode_infer(request(tensor("BOOL", [2]), raw=[b"\2\0"])).request.inputs
    assert read.array.tolist() == [True, False]


def test_parameters_of_every_kind_are_read_and_one_without_a_value_is_not():
    given_ones = parameters(
        a={"bool_param": False},
        b={"int64_param": 0},
        c={"string_param": ""},
        d={"double_param": 0.5},
        e={"uint64_param": 2**64 - 1},
        f={},
    )
    item = tensor("FP32", [1], fp32_contents=[1])
    for key, value in given_ones.items():
        item.parameters[key].CopyFrom(value)
    output = pb.ModelInferRequest.InferRequestedOutputTensor(name="y", parameters=given_ones)
    decoded = oip_proto.decode_infer(request(item, parameters=given_ones, outputs=[output]))
    wanted = {"a": False, "b": 0, "c": "", "d": 0.5, "e": 2**64 - 1}
    for read in (decoded.request, decoded.request.inputs[0], decoded.request.outputs[0]):
        assert dict(read.parameters) == wanted
    assert decoded.request.outputs[0].name == "y"


def test_parameters_of_an_answer_keep_their_kind():
    values = {"a": True, "b": -1, "c": "s", "d": 1.0, "e": 2**63}
    output = Tensor("y", Datatype.FP32, np.zeros(1, "<f4"), {"k": 1})
    response = InferResponse("m", "1", (output,), parameters=values)
    message = pb.ModelInferResponse.FromString(oip_proto.encode_infer(response, wants_raw=True))
    kinds = {
        key: value.WhichOneof("parameter_choice") for key, value in message.parameters.items()
    }
    assert kinds == {
        "a": "bool_param",
        "b": "int64_param",
        "c": "string_param",
        "d": "double_param",
        "e": "uint64_param",
    }
    assert message.outputs[0].parameters["k"].int64_param == 1


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_an_output_without_typed_form_makes_all_raw(datatype):
    half = Tensor("h", Datatype(datatype), np.array([1], NUMPY_DTYPE[Datatype(datatype)]))
    full = Tensor("f", Datatype.FP32, np.array([1], "<f4"))
    data = oip_proto.encode_infer(InferResponse("m", "1", (full, half)), wants_raw=False)
    message = pb.ModelInferResponse.FromString(data)
    assert [len(part) for part in message.raw_output_contents] == [4, 2]
    assert not any(output.HasField("contents") for output in message.outputs)


def test_a_request_without_inputs_gets_a_raw_response():
    assert oip_proto.decode_infer(request()).wants_raw


@given(
    st.sampled_from([d for d in Datatype if d is not Datatype.BYTES]).flatmap(
        lambda d: st.tuples(st.just(d), hnp.arrays(NUMPY_DTYPE[d], hnp.array_shapes(min_side=0)))
    ),
    st.booleans(),
)
def test_numbers_survive_a_round_trip(case, wants_raw):
    datatype, array = case
    response = InferResponse("m", "1", (Tensor("x", datatype, array),))
    answer = pb.ModelInferResponse.FromString(
        oip_proto.encode_infer(response, wants_raw=wants_raw)
    )
    # a response tensor has the fields and numbers of a request tensor
    (output,) = answer.outputs
    item = pb.ModelInferRequest.InferInputTensor.FromString(output.SerializeToString())
    data = request(item, raw=answer.raw_output_contents)
    (again,) = oip_proto.decode_infer(data).request.inputs
    np.testing.assert_array_equal(again.array, array)
    assert again.array.dtype == array.dtype


@given(st.binary(max_size=80))
def test_arbitrary_bytes_are_a_request_or_a_refusal(data):
    try:
        decoded = oip_proto.decode_infer(data)
    except InvalidRequest:
        return
    assert decoded.request.model_name


def test_every_truncation_is_a_request_or_a_refusal():
    whole = bytes.fromhex(TYPED)
    for size in range(len(whole)):
        try:
            oip_proto.decode_infer(whole[:size])
        except InvalidRequest as error:
            assert error.message  # noqa: PT017 - a cut between fields is a valid message


def test_metadata_is_written_with_negative_dimensions():
    metadata = ModelMetadata(
        "my_model",
        "v10",
        ("v9", "v10"),
        "onnx_onnxv1",
        (TensorSpec("x", Datatype.FP32, (-1, 4)),),
        (TensorSpec("y", Datatype.FP32, (-1, 4)),),
    )
    tail = (
        "1a0b6f6e6e785f6f6e6e78763122160a01781204465033321a0bffffffffffffffffff01042a160a0179120446"
        "5033321a0bffffffffffffffffff0104"
    )
    name = "0a086d795f6d6f64656c"
    assert oip_proto.encode_model_metadata(metadata, "v10").hex() == name + "1203763130" + tail
    assert (
        oip_proto.encode_model_metadata(metadata, "").hex()
        == name + "12027639" + "1203763130" + tail
    )


@pytest.mark.parametrize("is_true", [True, False])
def test_small_answers_are_written(is_true):
    wire = "0801" if is_true else ""
    assert oip_proto.encode_server_live(is_live=is_true).hex() == wire
    assert oip_proto.encode_server_ready(is_ready=is_true).hex() == wire
    assert oip_proto.encode_model_ready(is_ready=is_true).hex() == wire


def test_the_metadata_of_the_server_is_written():
    metadata = ServerMetadata("n", "1", ("a", "b"))
    assert oip_proto.encode_server_metadata(metadata).hex() == "0a016e1201311a01611a0162"


@pytest.mark.parametrize("decode", [oip_proto.decode_model_ready, oip_proto.decode_model_metadata])
def test_a_model_is_addressed_by_name_and_version(decode):
    assert decode(b"\x0a\x01m\x12\x012") == oip_proto.ModelName("m", "2")
    with pytest.raises(InvalidRequest) as error:
        decode(b"\x12\x012")
    assert error.value.message == "name is empty: must be the name of a model"
    with pytest.raises(
        InvalidRequest, match=r"^the 3 received bytes are not a valid inference\.M"
    ):
        decode(b"\x0a\x05m")


def test_a_request_without_members_is_a_message():
    oip_proto.check_empty(b"")
    oip_proto.check_empty(b"\x78\x01")  # an unknown field
    with pytest.raises(InvalidRequest) as error:
        oip_proto.check_empty(b"\xff")
    assert error.value.message == (
        "the 1 received bytes are not a valid inference.ServerLiveRequest"
    )


def test_a_message_with_a_name_has_at_most_64_kib():
    oip_proto.check_empty(b"\x78\x01" * 32 * 1024)
    with pytest.raises(PayloadTooLarge) as error:
        oip_proto.check_empty(b"\x78\x01" * 32 * 1024 + b"\x78\x01")
    assert error.value.message == (
        "the inference.ServerLiveRequest has 65538 bytes: must have 65536 or fewer"
    )


def test_a_request_of_many_fields_is_not_quick():
    assert oip_proto.is_quick(request(tensor("BYTES", [2000], bytes_contents=[b"abc"] * 2000)))
    assert not oip_proto.is_quick(request(tensor("BYTES", [3000], bytes_contents=[b"abc"] * 3000)))


def test_an_answer_of_a_stream_wraps_the_answer():
    answer = InferResponse("m", "1", (Tensor("y", Datatype.FP32, np.zeros(100, "<f4")),))
    data = oip_proto.encode_infer(answer, wants_raw=True)
    message = pb.ModelStreamInferResponse.FromString(oip_proto.encode_stream_answer(data))
    assert message.infer_response == pb.ModelInferResponse.FromString(data)
    assert not message.infer_response.id
    assert not message.error_message


@pytest.mark.parametrize("request_id", ["7", "", None])
def test_a_fault_of_a_stream_names_its_request(request_id):
    data = oip_proto.encode_stream_fault("bad \udcff é", request_id)
    message = pb.ModelStreamInferResponse.FromString(data)
    assert message.error_message == "bad \\udcff é"
    assert message.infer_response.id == (request_id or "")
    assert message.HasField("infer_response") == bool(request_id)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (pb.ModelInferRequest(model_name="m", id="é").SerializeToString(), "é"),
        (
            pb.ModelInferRequest(id="a" * 200, raw_input_contents=[b"1"]).SerializeToString(),
            "a" * 200,
        ),
        (b"\x1a\x01a\x1a\x01b", "b"),  # the last of repeated fields counts
        (pb.ModelInferRequest(model_name="m").SerializeToString(), ""),
        (b"", ""),
        (b"\x1a\x01\xff", ""),
        (b"\x1a\x05a", ""),
        (b"\x1a\x01a\xff", ""),
    ],
)
def test_the_id_of_a_request_that_cannot_be_decoded(data, found):
    assert oip_proto.id_of(data) == found


def test_every_datatype_except_two_has_a_contents_field():
    without = {d for d in Datatype if not oip_proto_contents.has_field(d)}
    assert without == {Datatype.FP16, Datatype.BF16}
