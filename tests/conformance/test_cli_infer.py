"""`moorage infer` over both transports against the server under test."""

import pytest

from moorage_cli.ask import wire
from moorage_cli.ask.inference import call as inference_grpc
from moorage_cli.ask.inference import request as inference
from moorage_cli.ask.inference.request import InferenceProtocol

pytestmark = pytest.mark.conformance

TENSOR = {"name": "x", "shape": [3], "datatype": "FP32", "data": [1.0, -0.5, 3.25]}


@pytest.mark.parametrize("protocol", [InferenceProtocol.OPEN_INFERENCE, InferenceProtocol.GRPS])
def test_both_transports_have_the_same_answer(server, protocol):
    asked = protocol, "identity_fp32", "", {"inputs": [TENSOR]}

    request, call = inference.make_request(*asked), inference_grpc.make_call(*asked)
    http = inference.answered(request, *wire.post(server.http, request, 20))
    grpc = inference_grpc.answered_call(call, wire.infer(server.grpc, call, 20))

    assert (http.ok, grpc.ok) == (True, True)
    assert values(grpc.document) == values(http.document) == TENSOR["data"]


def test_both_transports_send_numbers_that_json_lacks(server):
    tensor = '{"name": "x", "shape": [2], "datatype": "FP32", "data": [NaN, -Infinity]}'
    text = f'{{"inputs": [{tensor}]}}'
    document = inference.read_document(text, "--file")
    asked = InferenceProtocol.OPEN_INFERENCE, "identity_fp32", "", document

    request, call = inference.make_request(*asked), inference_grpc.make_call(*asked)
    http = inference.answered(request, *wire.post(server.http, request, 20))
    grpc = inference_grpc.answered_call(call, wire.infer(server.grpc, call, 20))

    assert [str(values(each.document)) for each in (http, grpc)] == ["[nan, -inf]"] * 2


def values(document):
    if "outputs" in document:
        return document["outputs"][0]["data"]
    return document["gtensors"]["tensors"][0]["flat_float32"]


def test_an_unknown_model_is_reported_over_grpc(server):
    call = inference_grpc.make_call(
        InferenceProtocol.OPEN_INFERENCE, "rose", "", {"inputs": [TENSOR]}
    )

    report = inference_grpc.answered_call(call, wire.infer(server.grpc, call, 20))

    assert not report.ok
    assert report.text.startswith("NOT_FOUND")
