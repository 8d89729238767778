"""GRPS over HTTP and gRPC on a fake dataplane: routes, models, streams, statuses."""

import asyncio
import inspect
import json

import grpc
import pytest
import yaml

from moorage_runtime.codec._generated import grps_pb2 as pb
from moorage_runtime.frontends.grps import calls as grps_calls
from moorage_runtime.frontends.grps import grpc as grps_grpc
from moorage_runtime.frontends.grps.rest import GrpsRestFrontend, fault
from moorage_runtime.frontends.http.message import (
    OCTET_STREAM,
    HttpRequest,
    StreamingResponse,
)
from moorage_runtime.frontends.status_codes import HTTP_STATUS
from moorage_runtime.values import errors
from moorage_runtime.values.inference import InferResponse, ModelMetadata
from unit.runtime.grpc_fixtures import TRANSPORTS, serving
from unit.runtime.oip_fixtures import FakeDataplane, FakeModel, identity

DEADLINE_SECONDS = 10
PREDICT = "/grps/v1/infer/predict"
SUCCESS = {"code": 200, "msg": "OK", "status": "SUCCESS"}


def echo(name, version="1.0.0"):
    """A model that accepts any tensors and returns them."""
    metadata = ModelMetadata(name, version, (version,), "python_callable", (), (), dynamic=True)
    return FakeModel(metadata, dict)


class StreamingDataplane(FakeDataplane):
    """Returns the request's tensors in a number of parts, then fails on request."""

    def __init__(self, *models, default=None):
        super().__init__(*models)
        self.parts = 1
        self.failure = None
        self.closed = asyncio.Event()
        self._default = default

    async def online(self):
        self.is_online = True

    async def offline(self):
        self.is_online = False

    def default_model(self):
        return self._default

    def _answer(self, request):
        if not self.model_metadata(request.model_name, request.model_version).dynamic:
            return super()._answer(request)
        self.requests.append(request)
        if self.failure is not None:
            raise self.failure
        return InferResponse(request.model_name, "1.0.0", request.inputs)

    async def infer_stream(self, request):
        try:
            for _ in range(self.parts):
                yield InferResponse(request.model_name, "1.0.0", request.inputs)
            if self.failure is not None:
                raise self.failure
        finally:
            self.closed.set()


@pytest.fixture(params=[True, False], ids=["at once", "later"])
async def dataplane(request):
    models = echo("your-model"), echo("other", "2"), identity("floats", "FP32", -1)
    fake = StreamingDataplane(*models, default="your-model")
    fake.is_quick = request.param
    return fake


async def ask(dataplane, path, body=None, method=None, **headers):
    path, _, query = path.partition("?")
    content = json.dumps(body).encode() if isinstance(body, dict) else body or b""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    if isinstance(body, dict):
        headers.setdefault("content-type", "application/json")
    method = method or ("GET" if body is None else "POST")
    answer = GrpsRestFrontend(dataplane).handle(HttpRequest(method, path, query, headers, content))
    return await answer if inspect.isawaitable(answer) else answer


def failed(answer, code):
    status = json.loads(answer.body)["status"]
    assert (answer.status, status["code"], status["status"]) == (code, code, "FAILURE")
    return status["msg"]


@pytest.mark.parametrize("body", [None, {}, b"anything"])
async def test_online_and_offline_turn_readiness(dataplane, body):
    for path, code in [
        ("online", 200),
        ("offline", 200),
        ("ready", 503),
        ("live", 200),
        ("offline", 200),
        ("online", 200),
        ("ready", 200),
    ]:
        answer = await ask(dataplane, f"/grps/v1/health/{path}", body)
        assert answer.status == code
        if code == 200:
            assert json.loads(answer.body) == {"status": SUCCESS}
        else:
            assert failed(answer, 503) == "Service Unavailable"


@pytest.mark.parametrize("path", ["online", "offline"])
async def test_a_client_without_permission_changes_nothing(dataplane, path):
    dataplane.is_online = before = path == "offline"
    frontend = GrpsRestFrontend(dataplane, may_switch=False)
    answer = await frontend.handle(HttpRequest("POST", f"/grps/v1/health/{path}", "", {}, b""))

    assert "--grps-traffic-control=true" in failed(answer, 403)
    assert dataplane.is_online == before


@pytest.mark.parametrize("method", ["Online", "Offline"])
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_grpc_client_without_permission_changes_nothing(dataplane, transport, method):
    dataplane.is_online = before = method == "Offline"
    async with serving(transport, grps_grpc.service(dataplane, may_switch=False)) as channel:
        reply = await call(channel, method)

    assert (reply.status.code, reply.status.status) == (403, pb.Status.FAILURE)
    assert dataplane.is_online == before


async def test_ready_waits_for_every_model(dataplane):
    dataplane.models[1].state = "LOADING"
    failed(await ask(dataplane, "/grps/v1/health/ready"), 503)


@pytest.mark.parametrize(
    ("path", "payload", "asked"),
    [
        ("", {}, "your-model"),
        ("?model=", {"model": ""}, "your-model"),
        ("?model=other-2", {}, "other"),
        ("?model=other", {}, "other"),
        ("", {"model": "your-model-1.0.0"}, "your-model"),
        ("?model=other-2", {"model": "your-model"}, "your-model"),
    ],
)
async def test_the_model_is_taken_from_the_payload_the_query_or_the_default(
    dataplane, path, payload, asked
):
    answer = await ask(dataplane, PREDICT + path, {"str_data": "a", **payload})
    assert json.loads(answer.body) == {"status": SUCCESS, "str_data": "a"}
    assert dataplane.requests[0].model_name == asked


async def test_without_a_default_a_model_must_be_named():
    dataplane = StreamingDataplane(echo("a"), echo("b"))
    assert "no default" in failed(await ask(dataplane, PREDICT, {"str_data": "a"}), 400)


async def test_raw_bytes_are_sent_and_returned(dataplane):
    answer = await ask(
        dataplane, PREDICT + "?model=other-2", b"\0\xff", content_type="application/octet-stream"
    )
    assert (answer.status, answer.content_type, answer.body) == (200, OCTET_STREAM, b"\0\xff")
    assert dataplane.requests[0].model_name == "other"


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
async def test_ndarray_is_returned_on_request(dataplane, value):
    body = {"ndarray": [[1, 2]]}
    tensors = json.loads((await ask(dataplane, PREDICT, body)).body)["gtensors"]["tensors"]
    assert tensors == [{"dtype": "DT_FLOAT32", "shape": [1, 2], "flat_float32": [1.0, 2.0]}]
    answer = await ask(dataplane, f"{PREDICT}?return-ndarray={value}", body)
    assert json.loads(answer.body) == {"status": SUCCESS, "ndarray": [[1.0, 2.0]]}
    text = await ask(dataplane, f"{PREDICT}?return-ndarray={value}", {"str_data": "a"})
    assert "DT_FLOAT32" in failed(text, 400)


async def test_a_large_body_is_read_and_printed_the_same(dataplane):
    values = list(range(100_000))
    item = {"name": "x", "dtype": "DT_INT32", "shape": [len(values)], "flat_int32": values}
    answer = await ask(dataplane, PREDICT, {"gtensors": {"tensors": [item]}})
    assert json.loads(answer.body)["gtensors"]["tensors"] == [item]


@pytest.mark.parametrize(
    ("path", "body", "content_type", "code", "message"),
    [
        (PREDICT, {}, "application/json", 400, "the message has no data"),
        (PREDICT, b"", "application/json", 400, "body is empty"),
        (PREDICT, b"", "application/octet-stream", 400, "body is empty"),
        (PREDICT, b"{", "application/json", 400, "not valid JSON"),
        (PREDICT, {"bin_data": "AA=="}, "application/json", 400, "application/octet-stream"),
        (PREDICT, b"a", "", 400, "Content-Type is ''"),
        (PREDICT, b"a", "text/plain", 400, "Content-Type is 'text/plain'"),
        (PREDICT + "?model=nope-1", {"str_data": "a"}, "application/json", 404, "'nope-1'"),
        (PREDICT + "?model=your", {"str_data": "a"}, "application/json", 404, "'your'"),
        (PREDICT + "?model=floats", {"str_data": "a"}, "application/json", 400, "str_data"),
        (
            PREDICT + "?streaming=true&return-ndarray=true",
            {"ndarray": [1]},
            "application/json",
            400,
            "exclude each other",
        ),
        (PREDICT + "?streaming=true", {}, "application/json", 400, "no data"),
        ("/grps/v1/metadata/model", {}, "application/json", 400, "str_data is missing"),
        ("/grps/v1/metadata/model", {"str_data": ""}, "application/json", 400, "str_data"),
        ("/grps/v1/metadata/model", {"str_data": "nope"}, "application/json", 404, "'nope'"),
        ("/grps/v1/nope", {}, "application/json", 404, "no such path: /grps/v1/nope"),
        ("/grps/v1", {}, "application/json", 404, "no such path"),
    ],
)
async def test_errors_are_failed_messages(dataplane, path, body, content_type, code, message):
    answer = await ask(dataplane, path, body, content_type=content_type)
    assert message in failed(answer, code)


async def test_media_type_parameters_do_not_matter(dataplane):
    answer = await ask(
        dataplane, PREDICT, {"str_data": "a"}, content_type="Application/JSON; charset=utf-8"
    )
    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", PREDICT, b"POST"),
        ("GET", "/grps/v1/metadata/model", b"POST"),
        ("PUT", "/grps/v1/health/online", b"GET, POST"),
    ],
)
async def test_a_wrong_method_names_the_right_one(dataplane, method, path, allowed):
    answer = await ask(dataplane, path, method=method)
    failed(answer, 405)
    assert dict(answer.headers) == {b"Allow": allowed}


async def test_server_metadata_is_yaml(dataplane):
    dataplane.models[1].state = "LOADING"
    answer = await ask(dataplane, "/grps/v1/metadata/server")
    text = yaml.safe_load(json.loads(answer.body)["str_data"])
    assert text["models"][:2] == [
        {"name": "your-model", "version": "1.0.0", "ready": True},
        {"name": "other", "version": "2", "ready": False},
    ]
    assert text["dag"]["nodes"][0]["model"] == "your-model"
    assert text["interface"] == {"framework": "http+grpc"}


@pytest.mark.parametrize("asked", ["floats", "floats-1"])
async def test_model_metadata_is_yaml(dataplane, asked):
    answer = await ask(dataplane, "/grps/v1/metadata/model", {"str_data": asked})
    assert yaml.safe_load(json.loads(answer.body)["str_data"]) == {
        "name": "floats",
        "version": "1",
        "ready": True,
        "inferer_type": "onnx_onnxv1",
        "batching": False,
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
    }


async def test_metadata_of_a_loading_model_has_its_state(dataplane):
    dataplane.models[2].state = "LOADING"
    answer = await ask(dataplane, "/grps/v1/metadata/model", {"str_data": "floats"})
    wanted = {"name": "floats", "version": "1", "ready": False}
    assert yaml.safe_load(json.loads(answer.body)["str_data"]) == wanted


async def test_a_stream_is_lines_of_json(dataplane):
    dataplane.parts = 2
    answer = await ask(dataplane, PREDICT + "?streaming=True", {"str_data": "a"})
    assert isinstance(answer, StreamingResponse)
    line = b'{"status":{"code":200,"msg":"OK","status":"SUCCESS"},"str_data":"a"}\n'
    assert [chunk async for chunk in answer.chunks] == [line, line]
    assert answer.content_type == OCTET_STREAM


async def test_a_stream_of_bytes_has_no_envelope(dataplane):
    dataplane.parts = 2
    answer = await ask(
        dataplane, PREDICT + "?streaming=true", b"\0", content_type="application/octet-stream"
    )
    assert [chunk async for chunk in answer.chunks] == [b"\0", b"\0"]


async def test_an_error_before_the_first_part_is_a_usual_response(dataplane):
    dataplane.parts, dataplane.failure = 0, errors.ModelFailed("broken")
    assert (
        failed(await ask(dataplane, PREDICT + "?streaming=true", {"str_data": "a"}), 500)
        == "broken"
    )
    dataplane.failure = None
    assert "the model returned an empty stream" in failed(
        await ask(dataplane, PREDICT + "?streaming=true", {"str_data": "a"}), 500
    )


async def test_an_error_after_it_is_the_last_part(dataplane):
    dataplane.failure = errors.ModelFailed("broken")
    answer = await ask(dataplane, PREDICT + "?streaming=true", {"str_data": "a"})
    *_, last = [json.loads(chunk) async for chunk in answer.chunks]
    assert last == {"status": {"code": 500, "msg": "broken", "status": "FAILURE"}}


async def test_a_client_that_leaves_a_stream_stops_the_generator(dataplane):
    dataplane.parts = 2
    answer = await ask(dataplane, PREDICT + "?streaming=true", {"str_data": "a"})
    await anext(answer.chunks)
    await answer.chunks.aclose()
    assert dataplane.closed.is_set()


def test_the_listeners_errors_are_failed_messages():
    assert failed(fault(PREDICT, 413, "too large"), 413) == "too large"


def every_error(base=errors.RuntimeFault):
    yield base
    for sub in base.__subclasses__():
        yield from every_error(sub)


@pytest.mark.parametrize("error", list(every_error()))
def test_every_error_has_its_own_code(error):
    assert error in HTTP_STATUS
    assert grps_calls.status_of(error("text")).code == HTTP_STATUS[error]
    assert grps_calls.status_of(error("")).msg


# gRPC.


@pytest.fixture(params=TRANSPORTS)
async def channel(request, dataplane):
    async with serving(request.param, grps_grpc.service(dataplane)) as channel:
        yield channel


async def call(channel, method, message=None):
    data = (
        message
        if isinstance(message, bytes)
        else (message or pb.GrpsMessage()).SerializeToString()
    )
    reply = await channel.unary_unary(f"/{grps_grpc.NAME}/{method}")(
        data, timeout=DEADLINE_SECONDS
    )
    return pb.GrpsMessage.FromString(reply)


async def test_grpc_health_follows_the_online_flag(channel, dataplane):
    assert (await call(channel, "CheckReadiness")).status.code == 200
    assert (await call(channel, "Offline")).status.code == 200
    reply = await call(channel, "CheckReadiness")
    assert (reply.status.code, reply.status.msg) == (503, "Service Unavailable")
    assert (reply.status.status, dataplane.is_online) == (pb.Status.FAILURE, False)
    assert (await call(channel, "CheckLiveness")).status.status == pb.Status.SUCCESS
    await call(channel, "Online")
    assert (await call(channel, "CheckReadiness")).status.code == 200


@pytest.mark.parametrize(
    "message",
    [
        pb.GrpsMessage(str_data="a"),
        pb.GrpsMessage(bin_data=b"\xff", model="other-2"),
        pb.GrpsMessage(gmap=pb.GenericMapData(s_b={"k": b"\xff"}, s_i32={"k": 1})),
        pb.GrpsMessage(
            gtensors=pb.GenericTensorData(
                tensors=[pb.GenericTensor(name="x", dtype="DT_INT8", shape=[1], flat_int8=[-1])]
            )
        ),
    ],
)
async def test_grpc_predict_echoes_every_kind(channel, message):
    message.status.code = 7
    reply = await call(channel, "Predict", message)
    assert (reply.status.code, reply.status.status) == (200, pb.Status.SUCCESS)
    kind = message.WhichOneof("data_oneof")
    assert getattr(reply, kind) == getattr(message, kind)


@pytest.mark.parametrize(
    ("method", "message", "code"),
    [
        ("Predict", pb.GrpsMessage(), 400),
        ("Predict", pb.GrpsMessage(ndarray=pb.NDArrayData()), 400),
        ("Predict", pb.GrpsMessage(str_data="a", model="nope"), 404),
        ("ModelMetadata", pb.GrpsMessage(), 400),
        ("ModelMetadata", pb.GrpsMessage(str_data="nope"), 404),
    ],
)
async def test_grpc_errors_are_failed_messages(channel, method, message, code):
    reply = await call(channel, method, message)
    assert (reply.status.code, reply.status.status) == (code, pb.Status.FAILURE)
    assert reply.status.msg


async def test_grpc_bytes_that_are_no_message_fail_the_call(channel):
    for method in ("Predict", "Online", "CheckLiveness", "ModelMetadata"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(channel, method, b"\xff")
        assert caught.value.code().name == "INVALID_ARGUMENT"


async def test_grpc_metadata_is_yaml(channel):
    server = await call(channel, "ServerMetadata")
    assert "models" in yaml.safe_load(server.str_data)
    reply = await call(channel, "ModelMetadata", pb.GrpsMessage(str_data="floats-1"))
    assert yaml.safe_load(reply.str_data)["name"] == "floats"


async def test_grpc_streams_parts_and_a_last_failure(channel, dataplane):
    dataplane.parts, dataplane.failure = 2, errors.ModelFailed("broken")
    request = pb.GrpsMessage(str_data="a").SerializeToString()
    stream = channel.unary_stream(f"/{grps_grpc.NAME}/PredictStreaming")(
        request, timeout=DEADLINE_SECONDS
    )
    replies = [pb.GrpsMessage.FromString(data) async for data in stream]
    assert [(r.status.code, r.str_data) for r in replies] == [(200, "a"), (200, "a"), (500, "")]
