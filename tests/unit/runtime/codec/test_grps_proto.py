"""GRPS's protobuf messages: kinds, tensors, refusals and limits."""

import math

import numpy as np
import pytest

from moorage_runtime.codec._generated import grps_pb2 as pb
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.grps.message import (
    OK,
    Blob,
    Message,
    NestedArray,
    Table,
    Tensors,
    Text,
)
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor


def as_array(values, datatype):
    array = np.empty(len(values), NUMPY_DTYPE[Datatype(datatype)])
    array[:] = values
    return array


def tensor(datatype, values, name="", shape=None):
    array = as_array(values, datatype)
    return Tensor(name, Datatype(datatype), array if shape is None else array.reshape(shape))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            pb.GenericTensor(shape=[1]),
            (
                "gtensors.tensors[0].dtype: 0 is invalid: must be the number of one of "
                "DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, DT_FLOAT32, "
                "DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            pb.GenericTensor(dtype=99, shape=[1]),
            (
                "gtensors.tensors[0].dtype: 99 is invalid: must be the number of one of "
                "DT_UINT8, DT_INT8, DT_INT16, DT_INT32, DT_INT64, DT_FLOAT16, DT_FLOAT32, "
                "DT_FLOAT64, DT_STRING"
            ),
        ),
        (
            pb.GenericTensor(dtype="DT_INT32", shape=[2], flat_int32=[1]),
            "gtensors.tensors[0].flat_int32 has 1 elements: shape [2] requires 2",
        ),
        (
            pb.GenericTensor(dtype="DT_INT32", shape=[2**31, 2**31], flat_int32=[1]),
            (
                "gtensors.tensors[0].shape: the product of dimensions 0 to 1 is too large for a "
                "tensor"
            ),
        ),
        (
            pb.GenericTensor(dtype="DT_INT32", flat_int8=[1]),
            "gtensors.tensors[0].flat_int8 has values: DT_INT32 requires flat_int32",
        ),
        (
            pb.GenericTensor(dtype="DT_UINT8", flat_uint8=[256]),
            (
                "gtensors.tensors[0].flat_uint8[0]: 256 is invalid: must be from 0 to 255, the "
                "range of UINT8"
            ),
        ),
        (
            pb.GenericTensor(dtype="DT_INT8", flat_int8=[-129]),
            (
                "gtensors.tensors[0].flat_int8[0]: -129 is invalid: must be from -128 to 127, "
                "the range of INT8"
            ),
        ),
    ],
)
def test_invalid_protobuf_tensors_are_refused(item, message):
    with pytest.raises(InvalidRequest) as error:
        grps_proto.decode(pb.GrpsMessage(gtensors=pb.GenericTensorData(tensors=[item])))
    assert error.value.message == message


def test_protobuf_kinds_are_read_and_ndarray_is_not():
    assert grps_proto.decode(pb.GrpsMessage(model="m", str_data="")) == Message("m", Text(""))
    assert grps_proto.decode(pb.GrpsMessage(bin_data=b"\0")) == Message("", Blob(b"\0"))
    assert grps_proto.decode(pb.GrpsMessage()) == Message("", None)
    table = pb.GenericMapData(s_b={"k": b"\xff"}, s_i64={"l": 2})
    wanted = Table({"s_b": {"k": b"\xff"}, "s_i64": {"l": 2}})
    assert grps_proto.decode(pb.GrpsMessage(gmap=table)).data == wanted
    with pytest.raises(InvalidRequest) as error:
        grps_proto.decode(pb.GrpsMessage(ndarray=pb.NDArrayData()))
    assert error.value.message == "ndarray is supported only in JSON: use gtensors"
    with pytest.raises(InvalidRequest) as error:
        grps_proto.parse(b"\xff")
    assert error.value.message == (
        "the 1 received bytes are not a valid grps.protos.v1.GrpsMessage"
    )


def test_a_nested_array_has_no_protobuf_form():
    with pytest.raises(InvalidRequest) as error:
        grps_proto.encode(OK, NestedArray(np.zeros(1, np.float32)))
    assert error.value.message == "ndarray is supported only in JSON"


@pytest.mark.parametrize(
    ("data", "wire"),
    [
        (None, ""),
        (Text("hello grps"), "220a68656c6c6f2067727073"),
        (Blob(b"\0\xff"), "1a0200ff"),
        (Table({"s_b": {"k": b"\0\xff"}}), "3a0912070a016b120200ff"),
        (
            Tensors((tensor("INT32", [1, 2, 3, 4, 5, 6], "in1", (3, 2)),)),
            "2a150a130a03696e3110041a0203023a06010203040506",
        ),
    ],
)
def test_protobuf_answers_byte_by_byte(data, wire):
    assert grps_proto.encode(OK, data).hex() == "0a0908c80112024f4b1801" + wire


def test_a_message_with_a_name_is_small():
    message = pb.GrpsMessage(str_data="m")
    assert grps_proto.parse_small(memoryview(message.SerializeToString())) == message
    with pytest.raises(PayloadTooLarge) as error:
        grps_proto.parse_small(bytes(65_537))
    assert error.value.message == (
        "the grps.protos.v1.GrpsMessage has 65537 bytes: must have 65536 or fewer"
    )


def test_a_large_message_is_parsed():
    message = pb.GrpsMessage(bin_data=bytes(5000))
    assert grps_proto.parse(memoryview(message.SerializeToString())) == message


def test_a_half_precision_number_overflows_to_infinity():
    item = pb.GenericTensor(dtype="DT_FLOAT16", shape=[2], flat_float16=[70_000, -1.5])
    data = pb.GenericTensorData(tensors=[item])
    (tensor,) = grps_proto.decode(pb.GrpsMessage(gtensors=data)).data.tensors
    assert tensor.array.tolist() == [math.inf, -1.5]


def test_a_message_of_many_fields_is_not_quick():
    def message(count):
        item = pb.GenericTensor(flat_string=["abc"] * count)
        data = pb.GenericTensorData(tensors=[item])
        return pb.GrpsMessage(gtensors=data).SerializeToString()

    assert grps_proto.is_quick(message(2000))
    assert not grps_proto.is_quick(message(3000))
