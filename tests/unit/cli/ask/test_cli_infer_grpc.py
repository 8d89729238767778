"""Inference requests and responses over gRPC."""

import struct
from typing import Any

import pytest

from moorage_cli._generated import grps_pb2, oip_pb2
from moorage_cli.ask.inference.call import CallAnswer, answered_call, make_call
from moorage_cli.ask.inference.request import InferenceProtocol
from moorage_cli.printing.failures import Failure

OIP, TFS, GRPS = InferenceProtocol


def tensor(datatype: str, *data: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [len(data)], "datatype": datatype, "data": list(data)}


@pytest.mark.parametrize(
    ("item", "raw"),
    [
        (tensor("FP32", 1, -0.5), struct.pack("<2f", 1, -0.5)),
        (tensor("FP16", 2), struct.pack("<e", 2)),
        (tensor("INT64", -(2**63)), struct.pack("<q", -(2**63))),
        ({**tensor("BOOL"), "shape": [2], "data": [True, False]}, b"\x01\x00"),
        (tensor("BYTES", "ä", ""), b"\x02\x00\x00\x00\xc3\xa4\x00\x00\x00\x00"),
    ],
)
def test_values_are_sent_as_raw_contents(item, raw):
    call = make_call(OIP, "iris", "3", {"id": "7", "inputs": [item], "outputs": [{"name": "y"}]})

    sent = oip_pb2.ModelInferRequest.FromString(call.body)
    assert call.method == "/inference.GRPCInferenceService/ModelInfer"
    assert (sent.model_name, sent.model_version, sent.id) == ("iris", "3", "7")
    assert (sent.inputs[0].name, list(sent.inputs[0].shape)) == ("x", item["shape"])
    assert list(sent.raw_input_contents) == [raw]
    assert [each.name for each in sent.outputs] == ["y"]


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (tensor("FP8", 1), "x.datatype: 'FP8' is invalid: must be one of BOOL"),
        (tensor("INT8", 300), "x.data contains a value that is not a valid INT8"),
        (tensor("FP32", "a"), "x.data contains a value that is not a valid FP32"),
        ({**tensor("FP32", 1, 2), "shape": [3]}, "data has 2 values"),
    ],
)
def test_an_invalid_tensor_is_refused(item, sentence):
    with pytest.raises(Failure, match=sentence.replace("[", r"\[")):
        make_call(OIP, "iris", "", {"inputs": [item]})


def test_a_grps_message_contains_the_model_and_the_tensors():
    call = make_call(GRPS, "iris", "3", {"inputs": [tensor("FP32", 1, 2)]})

    sent = grps_pb2.GrpsMessage.FromString(call.body)
    assert (call.method, sent.model) == ("/grps.protos.v1.GrpsService/Predict", "iris-3")
    assert list(sent.gtensors.tensors[0].flat_float32) == [1, 2]


def test_an_invalid_grps_document_is_refused():
    with pytest.raises(Failure, match="is not a valid GRPS message"):
        make_call(GRPS, "iris", "", {"gtensors": {"tensor": []}})


def test_tensorflow_serving_over_grpc_is_refused():
    with pytest.raises(Failure, match="TensorFlowServing"):
        make_call(TFS, "iris", "", {"inputs": [tensor("FP32", 1)]})


CALL = make_call(OIP, "iris", "", {"inputs": [tensor("FP32", 1)]})


def oip_answer(datatype: str, raw: bytes | None = None, **contents: Any) -> CallAnswer:
    reply = oip_pb2.ModelInferResponse(model_name="iris", model_version="1", id="7")
    reply.outputs.add(name="y", datatype=datatype, shape=[2]).contents.MergeFrom(
        oip_pb2.InferTensorContents(**contents)
    )
    if raw is not None:
        reply.raw_output_contents.append(raw)
    return CallAnswer("OK", "", reply.SerializeToString())


@pytest.mark.parametrize(
    ("answer", "data"),
    [
        (oip_answer("FP32", struct.pack("<2f", 1, 2.5)), [1.0, 2.5]),
        (oip_answer("BYTES", b"\x01\x00\x00\x00a\x01\x00\x00\x00\xff"), ["a", "\\xff"]),
        (oip_answer("INT64", int64_contents=[1, 2]), [1, 2]),
        (oip_answer("BYTES", bytes_contents=[b"a", b"b"]), ["a", "b"]),
    ],
)
def test_a_response_is_printed_in_its_json_form(answer, data):
    report = answered_call(CALL, answer)

    output = {"name": "y", "datatype": answer_type(answer), "shape": [2], "data": data}
    assert report.ok
    assert report.document == {
        "model_name": "iris",
        "model_version": "1",
        "id": "7",
        "outputs": [output],
    }


def answer_type(answer: CallAnswer) -> str:
    return oip_pb2.ModelInferResponse.FromString(answer.body).outputs[0].datatype


@pytest.mark.parametrize(
    "answer",
    [
        oip_answer("FP32", b"\x00"),
        oip_answer("BYTES", b"\x09\x00\x00\x00a"),
        oip_answer("BYTES", b"\x09"),
        CallAnswer("OK", "", b"\xff"),
    ],
)
def test_a_malformed_response_is_refused(answer):
    with pytest.raises(Failure, match="is malformed"):
        answered_call(CALL, answer)


def test_a_refused_call_shows_the_code_and_the_details():
    report = answered_call(CALL, CallAnswer("NOT_FOUND", "unknown model\x1b[31m 'iris'", b""))

    assert not report.ok
    assert "NOT_FOUND" in report.text
    assert "unknown model" in report.text
    assert "\x1b" not in report.text


def test_a_grps_failure_in_an_ok_call_is_not_ok():
    call = make_call(GRPS, "iris", "", {"inputs": [tensor("FP32", 1)]})
    status = grps_pb2.Status(code=500, msg="broken", status=grps_pb2.Status.FAILURE)
    body = grps_pb2.GrpsMessage(status=status).SerializeToString()

    report = answered_call(call, CallAnswer("OK", "", body))

    assert not report.ok
    assert "broken" in report.text
