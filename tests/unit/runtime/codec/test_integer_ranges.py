"""An integer outside its datatype's range is refused in every protocol and never truncated."""

import json

import numpy as np
import pytest

from moorage_runtime.backends import returned
from moorage_runtime.codec._generated import grps_pb2, oip_pb2
from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.grps import proto as grps_proto
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs import predict_request as tfs_predict_request
from moorage_runtime.codec.tfs import signatures as tfs_signatures
from moorage_runtime.codec.tfs.dtypes import JSON_DATATYPES
from moorage_runtime.values.errors import InvalidRequest, ModelFailed
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, TensorSpec

PADDING = {"short": [], "long": [0] * 20_000}
SMALL = [Datatype.INT8, Datatype.UINT8, Datatype.INT16, Datatype.UINT16]
INTEGERS = [*SMALL, Datatype.INT32, Datatype.UINT32, Datatype.INT64, Datatype.UINT64]


def outside(datatype):
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    return [int(limits.min) - 1, int(limits.max) + 1]


def cases(datatypes):
    return [
        pytest.param(datatype, value, id=f"{datatype} {value}")
        for datatype in datatypes
        for value in outside(datatype)
    ]


def check_message(caught, index, value, datatype=None):
    text = caught.value.message
    assert f"[{index}]" in text
    assert str(value) in text or "e+" in text  # JSON numbers beyond 64 bits are floats
    if datatype is not None:
        limits = np.iinfo(NUMPY_DTYPE[datatype])
        assert f"from {limits.min} to {limits.max}" in text


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(("datatype", "value"), cases(INTEGERS))
def test_oip_json(datatype, value, padding):
    data = [*PADDING[padding], value]
    item = {"name": "x", "datatype": datatype, "shape": [len(data)], "data": data}
    with pytest.raises(InvalidRequest) as caught:
        oip_request.decode(json.dumps({"inputs": [item]}).encode(), None, "m", "")
    check_message(caught, len(data) - 1, value, datatype)


@pytest.mark.parametrize(("datatype", "value"), cases([Datatype.INT8, Datatype.INT16]))
def test_oip_proto_signed(datatype, value):
    with pytest.raises(InvalidRequest) as caught:
        oip_proto.decode_infer(oip_message(datatype, "int_contents", [0, value]))
    check_message(caught, 1, value, datatype)


@pytest.mark.parametrize("datatype", [Datatype.UINT8, Datatype.UINT16])
def test_oip_proto_unsigned(datatype):
    value = outside(datatype)[1]
    with pytest.raises(InvalidRequest) as caught:
        oip_proto.decode_infer(oip_message(datatype, "uint_contents", [0, value]))
    check_message(caught, 1, value, datatype)


@pytest.mark.parametrize("datatype", SMALL)
def test_oip_proto_in_the_contents_of_a_wider_type(datatype):
    with pytest.raises(InvalidRequest, match=r"inputs\[0\]\.contents\.int64_contents has values:"):
        oip_proto.decode_infer(oip_message(datatype, "int64_contents", [300]))


def oip_message(datatype, field, values):
    tensor = oip_pb2.ModelInferRequest.InferInputTensor(
        name="x", datatype=datatype, shape=[len(values)]
    )
    getattr(tensor.contents, field).extend(values)
    return oip_pb2.ModelInferRequest(model_name="m", inputs=[tensor]).SerializeToString()


def declared(datatype):
    metadata = ModelMetadata("m", "1", ("1",), "p", (TensorSpec("x", datatype, (-1,)),), ())
    return tfs_signatures.signatures_of(metadata)["serving_default"]


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("form", ["instances", "inputs"])
@pytest.mark.parametrize(
    ("datatype", "value"), cases([each for each in INTEGERS if each in JSON_DATATYPES])
)
def test_tensorflow_serving(datatype, value, form, padding):
    document = tfs_document.parse_object(json.dumps({form: [*PADDING[padding], value]}).encode())
    with pytest.raises(InvalidRequest, match="is not of expected type: "):
        tfs_predict_request.decode_predict(document, declared(datatype))


GRPS = [datatype for datatype in INTEGERS if datatype in grps_tensors.NAMES]


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize(("datatype", "value"), cases(GRPS))
def test_grps_json(datatype, value, padding, quoted):
    values = [*PADDING[padding], str(value) if quoted else value]
    tensor = {"dtype": grps_tensors.NAMES[datatype], "shape": [len(values)]}
    tensor[grps_tensors.FIELDS[datatype]] = values
    with pytest.raises(InvalidRequest) as caught:
        grps_json.decode(json.dumps({"gtensors": {"tensors": [tensor]}}).encode())
    check_message(caught, len(values) - 1, value, datatype)


@pytest.mark.parametrize(
    ("datatype", "value"),
    [(Datatype.INT8, -129), (Datatype.INT8, 128), (Datatype.UINT8, 256),
     (Datatype.INT16, -32769), (Datatype.INT16, 32768)],
)  # fmt: skip
def test_grps_proto(datatype, value):
    message = grps_pb2.GrpsMessage()
    tensor = message.gtensors.tensors.add(dtype=grps_tensors.NAMES[datatype], shape=[1])
    getattr(tensor, grps_tensors.FIELDS[datatype]).append(value)
    with pytest.raises(InvalidRequest) as caught:
        grps_proto.decode(message)
    check_message(caught, 0, value, datatype)


def signed_like(datatype):
    return np.uint64 if NUMPY_DTYPE[datatype].kind == "u" else np.int64


@pytest.mark.parametrize(("datatype", "value"), cases(SMALL))
def test_what_a_python_model_returns(datatype, value):
    assert returned.tensor_of(
        "y", np.array([1], signed_like(datatype)), datatype
    ).array.tolist() == [1]
    if value < 0 and datatype in (Datatype.UINT8, Datatype.UINT16):
        return  # an array of signed integers is refused because of its type
    with pytest.raises(ModelFailed, match=f"output 'y' of the model contains {value}"):
        returned.tensor_of("y", np.array([0, value], signed_like(datatype)), datatype)
