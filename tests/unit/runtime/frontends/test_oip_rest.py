"""The OIP frontend over a fake dataplane: routes, statuses, headers, bodies."""

import inspect
import json
import uuid

import numpy as np
import pytest

from moorage_runtime.frontends.http.message import JSON, OCTET_STREAM, HttpRequest, HttpResponse
from moorage_runtime.frontends.oip import rest as oip_rest
from moorage_runtime.frontends.oip.rest import OipRestFrontend
from moorage_runtime.frontends.status_codes import HTTP_STATUS
from moorage_runtime.values import errors
from unit.runtime.oip_fixtures import FakeDataplane, model, seed_models, spec


async def ask(dataplane, path, body=None, method=None, **headers):
    frontend = OipRestFrontend(dataplane, new_id=lambda: "new-id")
    content = json.dumps(body).encode() if isinstance(body, dict) else body or b""
    request = HttpRequest(
        method or ("GET" if body is None else "POST"),
        path,
        "",
        {name.replace("_", "-"): value for name, value in headers.items()},
        content,
    )
    answer = frontend.handle(request)
    return await answer if inspect.isawaitable(answer) else answer


def x_of(values, datatype="FP32", **members):
    item = {"name": "x", "datatype": datatype, "shape": [len(values)], "data": values}
    return {"inputs": [item], **members}


@pytest.fixture
def dataplane():
    return FakeDataplane(*seed_models())


async def test_live_does_not_depend_on_readiness(dataplane):
    dataplane.models[0].state = "LOADING"
    answer = await ask(dataplane, "/v2/health/live")
    assert (answer.status, json.loads(answer.body)) == (200, {"live": True})


@pytest.mark.parametrize(
    ("state", "is_draining", "status", "truth"),
    [("READY", False, 200, True), ("LOADING", False, 503, False), ("READY", True, 503, False)],
)
async def test_ready_requires_every_model(dataplane, state, is_draining, status, truth):
    dataplane.models[0].state = state
    dataplane.is_draining = is_draining
    answer = await ask(dataplane, "/v2/health/ready")
    assert (answer.status, json.loads(answer.body)) == (status, {"live": truth, "ready": truth})


NOT_READY = {"name": "my_model", "ready": False}


@pytest.mark.parametrize(
    ("state", "message", "is_draining", "status", "body"),
    [
        ("READY", "", False, 200, {"name": "my_model", "ready": True}),
        ("LOADING", "", False, 503, {**NOT_READY, "state": "LOADING"}),
        ("LOADING", "why", False, 503, {**NOT_READY, "state": "LOADING", "error": "why"}),
        ("FAILED", "no", False, 503, {**NOT_READY, "state": "FAILED", "error": "no"}),
        (
            "READY",
            "",
            True,
            503,
            {**NOT_READY, "state": "UNLOADED", "error": "the server is shutting down"},
        ),
    ],
)
async def test_model_ready_has_the_state(dataplane, state, message, is_draining, status, body):
    my_model = dataplane.models[1]
    my_model.state, my_model.message = state, message
    dataplane.is_draining = is_draining
    answer = await ask(dataplane, "/v2/models/my_model/versions/v10/ready")
    assert (answer.status, json.loads(answer.body)) == (status, body)


async def test_server_metadata_lists_the_extension(dataplane):
    answer = await ask(dataplane, "/v2")
    assert json.loads(answer.body) == {
        "name": "moorage-runtime",
        "version": "0.1.0",
        "extensions": ["binary_tensor_data"],
    }


@pytest.mark.parametrize("path", ["/v2/models/my_model", "/v2/models/my_model/versions/v10"])
async def test_model_metadata_names_variable_dimensions(dataplane, path):
    answer = await ask(dataplane, path)
    assert answer.status == 200
    assert json.loads(answer.body) == {
        "name": "my_model",
        "versions": ["v10"],
        "platform": "onnx_onnxv1",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}],
    }


async def test_inference_returns_the_id_and_the_version_used(dataplane):
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    answer = await ask(dataplane, "/v2/models/my_model/infer", {**body, "id": ""})
    assert (answer.status, answer.content_type) == (200, JSON)
    assert json.loads(answer.body) == {
        "model_name": "my_model",
        "model_version": "v10",
        "id": "",
        "outputs": [
            {"name": "y", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2.0, 3.0, 4.0]}
        ],
    }


@pytest.mark.parametrize("body", [x_of([1]), x_of([1], id=None)])
async def test_inference_without_an_id_gets_a_new_one(dataplane, body):
    answer = await ask(dataplane, "/v2/models/identity_fp32/infer", body)
    assert json.loads(answer.body)["id"] == "new-id"


def test_new_ids_are_unique_uuids():
    servers = [oip_rest.answer_ids() for _ in range(20)]
    ids = {new_id() for new_id in servers for _ in range(100)}

    parsed = [uuid.UUID(new_id) for new_id in ids]

    assert len(ids) == 2000
    assert {each.version for each in parsed} == {4}
    assert {each.variant for each in parsed} == {uuid.RFC_4122}
    assert {str(each) for each in parsed} == ids


async def test_a_quick_model_is_answered_without_waiting(dataplane):
    dataplane.is_quick = True
    request = HttpRequest(
        "POST", "/v2/models/identity_fp32/infer", "", {}, json.dumps(x_of([1])).encode()
    )

    answer = OipRestFrontend(dataplane).handle(request)

    assert isinstance(answer, HttpResponse)
    assert len(json.loads(answer.body)["id"]) == 36


@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize(
    ("model", "status"), [("identity_fp32", 200), ("unknown", 404), ("mymodel", 400)]
)
async def test_slow_and_quick_models_give_the_same_responses(dataplane, is_quick, model, status):
    dataplane.is_quick = is_quick
    answer = await ask(dataplane, f"/v2/models/{model}/infer", x_of([1.0]))

    assert answer.status == status
    assert ("error" in json.loads(answer.body)) is (status != 200)


async def test_outputs_come_in_the_order_asked(dataplane):
    body = x_of([1, 2], outputs=[{"name": "b"}, {"name": "a"}])
    answer = await ask(dataplane, "/v2/models/two_out/infer", body)
    assert [output["name"] for output in json.loads(answer.body)["outputs"]] == ["b", "a"]


async def test_a_binary_answer_has_its_header(dataplane):
    body = x_of(
        [1, 2], outputs=[{"name": "b"}, {"name": "a", "parameters": {"binary_data": True}}]
    )
    answer = await ask(dataplane, "/v2/models/two_out/infer", body)
    head, tail = answer.body
    assert answer.content_type == OCTET_STREAM
    assert dict(answer.headers) == {b"Inference-Header-Content-Length": b"%d" % len(head)}
    assert bytes(tail).hex() == "0000803f" + "00000040"
    assert json.loads(head)["outputs"][0]["data"] == [2]


async def test_a_raw_request_gets_a_binary_answer(dataplane):
    answer = await ask(
        dataplane,
        "/v2/models/identity_bytes1/versions/1/infer",
        b"abc",
        inference_header_content_length="0",
    )
    head, tail = answer.body
    assert bytes(tail) == b"\3\0\0\0abc"
    assert json.loads(head)["id"] == "new-id"


async def test_a_large_body_is_read_and_printed_the_same(dataplane):
    values = list(range(100_000))
    answer = await ask(dataplane, "/v2/models/identity_fp32/infer", x_of(values))
    assert json.loads(b"".join(answer.body))["outputs"][0]["data"] == values


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/v2/models/nope", None, 404, "no model 'nope'"),
        ("/v2/models/nope/ready", None, 404, "no model 'nope'"),
        ("/v2/models/nope/infer", x_of([1]), 404, "no model 'nope'"),
        ("/v2/models/mymodel/versions/9", None, 404, "no version '9'"),
        ("/v2/models/mymodel/versions/9/ready", None, 404, "no version '9'"),
        ("/v2/models/mymodel/versions/9/infer", x_of([1]), 404, "no version '9'"),
        ("/v2/model/mymodel", None, 404, "no such path: /v2/model/mymodel"),
        ("/v2/models/mymodel/infer", b"{", 400, "not valid JSON"),
        (
            "/v2/models/identity_fp32/infer",
            x_of([1], "INT32"),
            400,
            "input 'x' has datatype INT32",
        ),
        ("/v2/models/identity_fp32/infer", {"inputs": []}, 400, "'x' is missing"),
    ],
)
async def test_errors_are_json_with_a_status(dataplane, path, body, status, message):
    answer = await ask(dataplane, path, body)
    assert (answer.status, answer.content_type) == (status, JSON)
    assert message in json.loads(answer.body)["error"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("POST", "/v2", b"GET, HEAD"),
        ("PUT", "/v2/health/live", b"GET, HEAD"),
        ("GET", "/v2/models/mymodel/infer", b"POST"),
        ("DELETE", "/v2/models/mymodel", b"GET, HEAD"),
        ("OPTIONS", "/v2/models/mymodel/infer", b"POST"),
    ],
)
async def test_a_wrong_method_names_the_right_one(dataplane, method, path, allow):
    answer = await ask(dataplane, path, method=method)
    assert answer.status == 405
    assert dict(answer.headers) == {b"Allow": allow}
    assert method in json.loads(answer.body)["error"]


async def test_a_loading_model_is_a_503(dataplane):
    dataplane.models[1].state = "LOADING"
    for path, body in [
        ("/v2/models/my_model/infer", {"inputs": []}),
        ("/v2/models/my_model", None),
    ]:
        answer = await ask(dataplane, path, body)
        assert (answer.status, dict(answer.headers)) == (503, {b"Retry-After": b"1"})


async def test_an_output_that_is_not_utf8_is_a_client_error():
    array = np.array([b"\xff"], object)
    binary = model("m", (spec("x", "FP32", -1),), (spec("y", "BYTES", 1),), lambda _: {"y": array})
    answer = await ask(FakeDataplane(binary), "/v2/models/m/infer", x_of([1]))
    assert answer.status == 400
    assert "output 'y' contains bytes that are not UTF-8" in json.loads(answer.body)["error"]


def every_error(base=errors.RuntimeFault):
    yield base
    for sub in base.__subclasses__():
        yield from every_error(sub)


@pytest.mark.parametrize("fault", list(every_error()))
def test_every_error_has_its_own_status(fault):
    assert fault in HTTP_STATUS
    assert oip_rest.error_response(fault("text")).status == HTTP_STATUS[fault]
