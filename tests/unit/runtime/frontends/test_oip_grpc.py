"""OIP and health over real gRPC connections: methods, statuses, watches, the listener itself."""

import asyncio
import functools

import grpc
import numpy as np
import pytest

from moorage_runtime.codec._generated import health_pb2, oip_pb2
from moorage_runtime.frontends.grpc import health as health_grpc
from moorage_runtime.frontends.grpc import status
from moorage_runtime.frontends.grpc.grpcio_server import GrpcioServer
from moorage_runtime.frontends.grpc.methods import GrpcFault, GrpcService
from moorage_runtime.frontends.oip import grpc as oip_grpc
from moorage_runtime.values import errors
from unit.runtime import grpc_fixtures
from unit.runtime.grpc_fixtures import TRANSPORTS
from unit.runtime.oip_fixtures import FakeDataplane, identity, model, seed_models, spec

DEADLINE_SECONDS = 10
OIP = "/inference.GRPCInferenceService/"
HEALTH = "/grpc.health.v1.Health/"


@pytest.fixture
def dataplane():
    return FakeDataplane(*seed_models())


@pytest.fixture(params=TRANSPORTS)
def serving(request):
    """Creates a channel to a server with each transport."""
    return functools.partial(grpc_fixtures.serving, request.param)


@pytest.fixture(params=TRANSPORTS)
def listener(request):
    """Creates a server with each transport."""
    return functools.partial(grpc_fixtures.listener, request.param)


@pytest.fixture
async def channel(dataplane, serving):
    services = oip_grpc.service(dataplane), health_grpc.service(dataplane, [oip_grpc.NAME])
    async with serving(*services) as channel:
        yield channel


async def call(channel, path, data=b"", **options):
    message = data if isinstance(data, bytes) else data.SerializeToString()
    return await channel.unary_unary(path)(message, timeout=DEADLINE_SECONDS, **options)


async def failure(channel, path, data=b"", **options):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(channel, path, data, **options)
    return caught.value.code().name, caught.value.details()


def x_of(values, name="identity_fp32", **members):
    request = oip_pb2.ModelInferRequest(model_name=name, **members)
    item = request.inputs.add(name="x", datatype="FP32", shape=[len(values)])
    item.contents.fp32_contents.extend(values)
    return request


async def test_live_and_ready_are_responses_not_errors(channel, dataplane):
    assert await call(channel, OIP + "ServerLive") == b"\x08\x01"
    assert await call(channel, OIP + "ServerReady") == b"\x08\x01"
    dataplane.models[0].state = "LOADING"
    assert await call(channel, OIP + "ServerLive") == b"\x08\x01"
    assert await call(channel, OIP + "ServerReady") == b""


@pytest.mark.parametrize(
    ("name", "version", "state", "answer"),
    [
        ("my_model", "", "READY", b"\x08\x01"),
        ("my_model", "v10", "READY", b"\x08\x01"),
        ("my_model", "", "LOADING", b""),
        ("my_model", "", "FAILED", b""),
    ],
)
async def test_model_ready_reports_the_state_of_the_model(
    channel, dataplane, name, version, state, answer
):
    dataplane.models[1].state = state
    request = oip_pb2.ModelReadyRequest(name=name, version=version)
    assert await call(channel, OIP + "ModelReady", request) == answer


async def test_metadata_is_the_servers_and_the_models(channel):
    server = await call(channel, OIP + "ServerMetadata")
    assert "binary_tensor_data" in oip_pb2.ServerMetadataResponse.FromString(server).extensions
    asked = oip_pb2.ModelMetadataRequest(name="my_model", version="v10")
    read = oip_pb2.ModelMetadataResponse.FromString(
        await call(channel, OIP + "ModelMetadata", asked)
    )
    assert (read.name, list(read.versions), list(read.inputs[0].shape)) == (
        "my_model",
        ["v10"],
        [-1, 4],
    )


@pytest.mark.parametrize("given_id", ["", "42"])
async def test_inference_mirrors_the_form_and_the_id(channel, given_id):
    typed = await call(channel, OIP + "ModelInfer", x_of([1, 2.5], id=given_id))
    read = oip_pb2.ModelInferResponse.FromString(typed)
    assert (read.id, read.model_version) == (given_id, "1")
    assert list(read.outputs[0].contents.fp32_contents) == [1, 2.5]

    request = oip_pb2.ModelInferRequest(model_name="identity_fp32", raw_input_contents=[b"\0" * 8])
    request.inputs.add(name="x", datatype="FP32", shape=[2])
    raw = await call(channel, OIP + "ModelInfer", request)
    assert list(oip_pb2.ModelInferResponse.FromString(raw).raw_output_contents) == [b"\0" * 8]


async def test_a_message_above_the_default_grpc_limit_is_read(channel):
    data = np.arange(2 * 1024 * 1024, dtype="<f4").tobytes()
    request = oip_pb2.ModelInferRequest(model_name="identity_fp32", raw_input_contents=[data])
    request.inputs.add(name="x", datatype="FP32", shape=[len(data) // 4])
    answer = await call(channel, OIP + "ModelInfer", request)
    assert oip_pb2.ModelInferResponse.FromString(answer).raw_output_contents[0] == data


@pytest.mark.parametrize(
    ("method", "data", "code", "text"),
    [
        ("ModelReady", oip_pb2.ModelReadyRequest(name="nope"), "NOT_FOUND", "no model 'nope'"),
        (
            "ModelReady",
            oip_pb2.ModelReadyRequest(name="mymodel", version="9"),
            "NOT_FOUND",
            "no version '9'",
        ),
        ("ModelReady", b"", "INVALID_ARGUMENT", "name is empty"),
        ("ModelMetadata", oip_pb2.ModelMetadataRequest(name="nope"), "NOT_FOUND", "nope"),
        ("ModelMetadata", b"", "INVALID_ARGUMENT", "name is empty"),
        ("ModelInfer", x_of([1], "nope"), "NOT_FOUND", "nope"),
        ("ModelInfer", x_of([1], model_version="9"), "NOT_FOUND", "no version '9'"),
        ("ModelInfer", b"\xff", "INVALID_ARGUMENT", "ModelInferRequest"),
        ("ModelInfer", x_of([1], "mymodel"), "INVALID_ARGUMENT", "unknown input 'x'"),
        (
            "ServerLive",
            b"\xff",
            "INVALID_ARGUMENT",
            "the 1 received bytes are not a valid inference.ServerLiveRequest",
        ),
        ("RepositoryIndex", b"", "UNIMPLEMENTED", ""),
    ],
)
async def test_errors_are_the_status_of_the_call(channel, method, data, code, text):
    got, details = await failure(channel, OIP + method, data)
    assert got == code
    assert text in details


async def streamed(channel, *requests):
    """The responses to the requests of one stream: error and response each."""
    stream = channel.stream_stream(OIP + "ModelStreamInfer")(timeout=DEADLINE_SECONDS)
    for request in requests:
        data = request if isinstance(request, bytes) else request.SerializeToString()
        await stream.write(data)
    await stream.done_writing()
    found = [oip_pb2.ModelStreamInferResponse.FromString(data) async for data in stream]
    return [(answer.error_message, answer.infer_response) for answer in found]


async def test_a_stream_continues_after_an_error(channel):
    answers = await streamed(
        channel,
        x_of([1, 2.5], id="a"),
        x_of([1], "nope", id="b"),
        b"\xff",
        x_of([3], id="d"),
    )
    by_id = {answer.id: (error, answer) for error, answer in answers}
    assert len(answers) == len(by_id) == 4
    assert {id_: bool(error) for id_, (error, _) in by_id.items()} == {
        "a": False,
        "b": True,
        "": True,
        "d": False,
    }
    assert "no model 'nope'" in by_id["b"][0]
    assert list(by_id["a"][1].outputs[0].contents.fp32_contents) == [1, 2.5]


async def test_a_stream_marks_its_last_response_on_request(channel):
    request = x_of([1], id="a")
    request.parameters["triton_enable_empty_final_response"].bool_param = True

    (_, answer), (_, last) = await streamed(channel, request)

    assert len(answer.outputs) == 1
    assert (last.id, last.model_name, list(last.outputs)) == ("a", "identity_fp32", [])
    assert last.parameters["triton_final_response"].bool_param
    assert "triton_final_response" not in answer.parameters


async def test_a_stream_without_requests_ends(channel):
    assert await streamed(channel) == []


async def test_a_loading_model_is_unavailable(channel, dataplane):
    dataplane.models[2].state = "LOADING"
    assert (await failure(channel, OIP + "ModelInfer", x_of([1])))[0] == "UNAVAILABLE"


async def test_an_unexpected_error_is_internal_without_its_text(caplog, serving):
    def explode(_):
        raise ValueError("secret path")

    broken = model("m", (spec("x", "FP32", -1),), (spec("y", "FP32", -1),), explode)
    async with serving(oip_grpc.service(FakeDataplane(broken))) as channel:
        assert await failure(channel, OIP + "ModelInfer", x_of([1], "m")) == (
            "INTERNAL",
            "internal error",
        )
        assert "secret path" in caplog.text
        # and the server keeps running
        assert await call(channel, OIP + "ServerLive") == b"\x08\x01"


async def test_a_too_large_message_is_refused(serving):
    service = oip_grpc.service(FakeDataplane(identity("identity_fp32", "FP32", -1)))
    async with serving(service, max_message_bytes=1000) as channel:
        got, _ = await failure(channel, OIP + "ModelInfer", x_of([1.0] * 300))
        assert got == "RESOURCE_EXHAUSTED"
        assert await call(channel, OIP + "ModelInfer", x_of([1.0] * 100))


async def test_the_limit_of_a_message_may_be_larger_than_any_message(serving):
    service = oip_grpc.service(FakeDataplane(identity("identity_fp32", "FP32", -1)))
    async with serving(service, max_message_bytes=1 << 32) as channel:
        assert await call(channel, OIP + "ModelInfer", x_of([1.0] * 100))


async def test_compressed_requests_are_read(channel):
    compression = grpc.Compression.Gzip
    assert await call(channel, OIP + "ModelInfer", x_of([0.0] * 1000), compression=compression)


async def test_calls_without_authorization_are_refused(dataplane, serving):
    asked = []

    def authorize(path, metadata):
        asked.append(path)
        return metadata.get("authorization") == "Bearer t"

    async with serving(oip_grpc.service(dataplane), authorize=authorize) as channel:
        assert (await failure(channel, OIP + "ServerLive"))[0] == "UNAUTHENTICATED"
        metadata = (("authorization", "Bearer t"),)
        assert await call(channel, OIP + "ServerLive", metadata=metadata) == b"\x08\x01"
    assert asked == [OIP + "ServerLive"] * 2


async def test_a_port_in_use_is_an_os_error(listener):
    first = listener()
    port = await first.start()
    with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
        await listener(port=port).start()
    await first.stop(0)


async def test_a_long_error_text_arrives_shortened(serving):
    async def fail(_):
        raise GrpcFault("INVALID_ARGUMENT", "é\udcff" * 20_000)

    async with serving(GrpcService("s", {"Fail": fail})) as channel:
        code, details = await failure(channel, "/s/Fail")
    assert code == "INVALID_ARGUMENT"
    assert details.startswith("é\\udcffé")
    assert len(details) < 10_000


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_an_answer_may_be_compressed(channel, compression):
    request = x_of([0.0] * 100_000)
    answer = await call(channel, OIP + "ModelInfer", request, compression=compression)
    assert len(oip_pb2.ModelInferResponse.FromString(answer).outputs) == 1


async def test_stop_lets_a_running_call_finish(listener):
    started, release = asyncio.Event(), asyncio.Event()

    async def slow(data):
        started.set()
        await release.wait()
        return data

    server = listener(GrpcService("s", {"Slow": slow}))
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        running = asyncio.ensure_future(call(channel, "/s/Slow", b"x"))
        await asyncio.wait_for(started.wait(), DEADLINE_SECONDS)
        stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
        await asyncio.sleep(0)
        release.set()
        assert await running == b"x"
        await stopping


async def test_a_disconnect_closes_the_stream(serving):
    closed = asyncio.Event()

    async def endless(_):
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with serving(GrpcService("s", {}, {"Endless": endless})) as channel:
        stream = channel.unary_stream("/s/Endless")(b"", timeout=DEADLINE_SECONDS)
        assert await stream.read() == b"first"
        stream.cancel()
        await asyncio.wait_for(closed.wait(), DEADLINE_SECONDS)


async def test_a_stream_that_is_dropped_between_two_messages_closes_it():
    closed = asyncio.Event()

    async def endless(_):
        try:
            while True:
                yield b"again"
        finally:
            closed.set()

    messages = GrpcioServer([], "127.0.0.1", 0, max_message_bytes=1)._serve_stream(
        "/s/Endless", endless
    )(b"", None)
    assert await anext(messages) == b"again"
    await messages.aclose()
    assert closed.is_set()


def every_error(base=errors.RuntimeFault):
    yield base
    for sub in base.__subclasses__():
        yield from every_error(sub)


@pytest.mark.parametrize("error", list(every_error()))
def test_every_error_has_its_own_code(error):
    assert error in status.CODES
    assert status.fault_of(error("text"), "/s/M").code == status.CODES[error]
    assert hasattr(grpc.StatusCode, status.CODES[error])


# Health.

SERVING, NOT_SERVING = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
)


async def check(channel, service):
    data = await call(channel, HEALTH + "Check", health_pb2.HealthCheckRequest(service=service))
    return health_pb2.HealthCheckResponse.FromString(data).status


@pytest.mark.parametrize(
    ("service", "while_loading", "while_offline", "while_draining"),
    [
        ("", NOT_SERVING, NOT_SERVING, NOT_SERVING),
        ("readiness", NOT_SERVING, NOT_SERVING, NOT_SERVING),
        (oip_grpc.NAME, NOT_SERVING, NOT_SERVING, NOT_SERVING),
        ("liveness", SERVING, SERVING, SERVING),
        ("model:mymodel", NOT_SERVING, SERVING, NOT_SERVING),
        ("model:my_model", SERVING, SERVING, NOT_SERVING),
        ("model:my_model/v10", SERVING, SERVING, NOT_SERVING),
    ],
)
async def test_each_service_has_its_own_status(
    channel, dataplane, service, while_loading, while_offline, while_draining
):
    assert await check(channel, service) == SERVING
    dataplane.models[0].state = "LOADING"
    assert await check(channel, service) == while_loading
    dataplane.models[0].state = "READY"
    dataplane.is_online = False
    assert await check(channel, service) == while_offline
    dataplane.is_online = True
    dataplane.drain()
    assert await check(channel, service) == while_draining


@pytest.mark.parametrize(
    "service", ["nope", "model:", "model:nope", "model:my_model/v9", "model:my_model/", "mymodel"]
)
async def test_an_unknown_service_is_not_found(channel, service):
    request = health_pb2.HealthCheckRequest(service=service)
    code, details = await failure(channel, HEALTH + "Check", request)
    assert code == "NOT_FOUND"
    assert f"{service!r} is unknown" in details


async def test_the_name_of_a_model_may_contain_a_slash(serving):
    dataplane = FakeDataplane(identity("a/b", "FP32", -1))
    async with serving(health_grpc.service(dataplane, [])) as channel:
        assert await check(channel, "model:a/b") == SERVING
        assert await check(channel, "model:a/b/1") == SERVING


async def test_list_has_every_service(channel, dataplane):
    dataplane.models[0].state = "LOADING"
    data = await call(channel, HEALTH + "List")
    listed = health_pb2.HealthListResponse.FromString(data).statuses
    assert listed["liveness"].status == SERVING
    assert listed["model:mymodel"].status == NOT_SERVING
    assert listed["model:my_model"].status == SERVING
    assert listed[""].status == NOT_SERVING


def watching(channel, service):
    request = health_pb2.HealthCheckRequest(service=service).SerializeToString()
    return channel.unary_stream(HEALTH + "Watch")(request, timeout=DEADLINE_SECONDS)


async def next_status(stream):
    return health_pb2.HealthCheckResponse.FromString(await stream.read()).status


async def test_watch_reports_each_change_once(channel, dataplane):
    stream = watching(channel, "")
    assert await next_status(stream) == SERVING
    dataplane.announce()  # nothing has changed
    dataplane.is_online = False
    dataplane.announce()
    assert await next_status(stream) == NOT_SERVING
    dataplane.is_online = True
    dataplane.announce()
    assert await next_status(stream) == SERVING
    stream.cancel()


async def test_watch_of_an_unknown_service_waits_for_it(channel, dataplane):
    stream = watching(channel, "model:new")
    assert await next_status(stream) == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    dataplane.models.append(identity("new", "FP32", -1))
    dataplane.announce()
    assert await next_status(stream) == SERVING
    stream.cancel()


async def test_watch_ends_when_the_server_drains(channel, dataplane):
    stream = watching(channel, "liveness")
    assert await next_status(stream) == SERVING
    dataplane.drain()
    assert await stream.read() is grpc.aio.EOF
    assert (await stream.code()).name == "OK"


async def test_watch_sees_changes_of_other_threads(channel, dataplane):
    stream = watching(channel, "model:mymodel")
    assert await next_status(stream) == SERVING
    dataplane.models[0].state = "FAILED"
    await asyncio.to_thread(dataplane.announce)
    assert await next_status(stream) == NOT_SERVING
    stream.cancel()
