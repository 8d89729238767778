import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from moorage_operator.probe.protocols._generated import oip_pb2, repository_pb2
from moorage_operator.probe.protocols.oip_grpc import SERVICE, OipGrpc
from moorage_operator.probe.transport.grpc_channels import GrpcChannels
from moorage_operator.values.answers import Answer, AnswerReason, ModelInfo, ServerInfo, TensorInfo
from support.probe_targets import byte_server, target

Method = Callable[[Any, Any], Awaitable[Any]]


@asynccontextmanager
async def grpc_server(methods: Mapping[str, Method], service: str = SERVICE) -> AsyncIterator[str]:
    """The address of a real gRPC server with these methods of the service."""
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=_message(f"{name}Request").FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )
        for name, method in methods.items()
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await server.stop(None)


def _message(name: str) -> Any:
    return getattr(repository_pb2 if name.startswith("Repository") else oip_pb2, name)


def replies(message: Any) -> Method:
    async def method(_: Any, __: Any) -> Any:
        return message

    return method


def refuses(code: grpc.StatusCode, text: str = "because") -> Method:
    async def method(_: Any, context: Any) -> Any:
        await context.abort(code, text)

    return method


async def model_ready(methods: Mapping[str, Method], **fields: Any) -> Answer:
    async with grpc_server(methods) as server:
        channels = GrpcChannels()
        driver = OipGrpc(channels, channels)
        try:
            return await driver.model_ready(target(server, transport="GRPC", **fields))
        finally:
            await channels.close()


READY = replies(oip_pb2.ModelReadyResponse(ready=True))
NOT_READY = replies(oip_pb2.ModelReadyResponse(ready=False))
CODES = [
    (grpc.StatusCode.NOT_FOUND, False, AnswerReason.MODEL_NOT_FOUND),
    (grpc.StatusCode.UNIMPLEMENTED, None, AnswerReason.WRONG_PROTOCOL),
    (grpc.StatusCode.UNAVAILABLE, None, AnswerReason.REFUSED),
    (grpc.StatusCode.INTERNAL, None, AnswerReason.MALFORMED),
    (grpc.StatusCode.FAILED_PRECONDITION, False, AnswerReason.NOT_READY),
    (grpc.StatusCode.INVALID_ARGUMENT, False, AnswerReason.NOT_READY),
    (grpc.StatusCode.UNAUTHENTICATED, False, AnswerReason.NOT_READY),
]


async def test_ready_true_is_ready() -> None:
    assert await model_ready({"ModelReady": READY}) == Answer(
        verdict=True, reason=AnswerReason.READY
    )


async def test_ready_false_is_not_ready() -> None:
    answer = await model_ready({"ModelReady": NOT_READY})

    assert (answer.verdict, answer.reason) == (False, AnswerReason.NOT_READY)


def index(*models: tuple[str, str, str, str]) -> Method:
    response = repository_pb2.RepositoryIndexResponse()
    for name, version, state, reason in models:
        response.models.add(name=name, version=version, state=state, reason=reason)
    return replies(response)


# Triton answers false for all models that are not ready, MLServer UNKNOWN for a missing one.
MLSERVERS_NO = refuses(grpc.StatusCode.UNKNOWN, "Model iris with version  not found")


@pytest.mark.parametrize("no", [NOT_READY, MLSERVERS_NO], ids=["Triton", "MLServer"])
async def test_a_model_missing_from_the_index_is_not_found_and_the_others_are_listed(
    no: Method,
) -> None:
    methods = {"ModelReady": no, "RepositoryIndex": index(("wine", "1", "READY", ""))}

    answer = await model_ready(methods)

    assert (answer.reason, answer.message) == (AnswerReason.MODEL_NOT_FOUND, "it has wine")


async def test_a_failed_load_is_found_in_the_index() -> None:
    failed = index(("iris", "1", "UNAVAILABLE", "no weights"))

    answer = await model_ready({"ModelReady": NOT_READY, "RepositoryIndex": failed})

    assert (answer.reason, answer.message) == (AnswerReason.LOAD_FAILED, "no weights")


async def test_the_metadata_call_explains_why_a_model_is_not_ready() -> None:
    methods = {
        "ModelReady": NOT_READY,
        "ModelMetadata": refuses(grpc.StatusCode.UNAVAILABLE, "not an ONNX model"),
    }

    answer = await model_ready(methods)

    assert (answer.verdict, answer.reason) == (False, AnswerReason.NOT_READY)
    assert "not an ONNX model" in answer.message


async def test_a_failed_load_is_distinguished_from_one_in_progress() -> None:
    refusal = refuses(grpc.StatusCode.UNAVAILABLE, "model 'iris' version '1' failed to load: no")

    answer = await model_ready({"ModelReady": NOT_READY, "ModelMetadata": refusal})

    assert (answer.verdict, answer.reason) == (False, AnswerReason.LOAD_FAILED)


@pytest.mark.parametrize(("code", "verdict", "reason"), CODES)
async def test_each_grpc_status_has_a_reason(
    code: grpc.StatusCode, verdict: bool | None, reason: AnswerReason
) -> None:
    answer = await model_ready({"ModelReady": refuses(code)})

    assert (answer.verdict, answer.reason) == (verdict, reason)


async def test_a_missing_version_is_distinguished_from_a_missing_model() -> None:
    async def metadata(request: Any, context: Any) -> Any:
        if request.version:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no")
        return oip_pb2.ModelMetadataResponse(name="iris", versions=["1", "2"])

    methods = {"ModelReady": refuses(grpc.StatusCode.NOT_FOUND), "ModelMetadata": metadata}

    answer = await model_ready(methods, model_version="3")

    assert answer.reason is AnswerReason.VERSION_NOT_FOUND
    assert "1, 2" in answer.message


async def test_an_http_server_is_the_wrong_protocol() -> None:
    reply = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n"
    async with byte_server(reply, hold=True) as server:
        channels = GrpcChannels()
        driver = OipGrpc(channels, channels)
        answer = await driver.model_ready(target(server, transport="GRPC"))
        await channels.close()

    assert (answer.verdict, answer.reason) == (None, AnswerReason.WRONG_PROTOCOL)


async def test_another_service_is_the_wrong_protocol() -> None:
    async with grpc_server({"ModelReady": READY}, service="other.Service") as server:
        channels = GrpcChannels()
        driver = OipGrpc(channels, channels)
        answer = await driver.model_ready(target(server, transport="GRPC"))
        await channels.close()

    assert answer.reason is AnswerReason.WRONG_PROTOCOL


async def test_a_silent_server_times_out() -> None:
    async def silent(_: Any, __: Any) -> Any:
        await asyncio.Event().wait()

    answer = await model_ready({"ModelReady": silent}, timeout_seconds=0.2)

    assert (answer.verdict, answer.reason) == (None, AnswerReason.TIMED_OUT)


async def test_an_answer_above_the_limit_is_malformed() -> None:
    versions = ["x" * 1000] * 2000
    big = replies(oip_pb2.ModelMetadataResponse(name="iris", versions=versions))
    server = replies(oip_pb2.ServerMetadataResponse(name="s", version="1"))
    async with grpc_server({"ModelMetadata": big, "ServerMetadata": server}) as address:
        channels = GrpcChannels()
        driver = OipGrpc(channels, channels)
        described = await driver.describe(target(address, transport="GRPC"))
        await channels.close()

    assert described.model is None
    assert described.server == ServerInfo("s", "1")
    assert described.evidence == "inference.GRPCInferenceService/ServerMetadata answers"


async def test_metadata_is_read() -> None:
    tensor = oip_pb2.ModelMetadataResponse.TensorMetadata(name="x", datatype="FP32", shape=[-1, 4])
    model = oip_pb2.ModelMetadataResponse(name="iris", platform="onnx", inputs=[tensor])
    async with grpc_server({"ModelMetadata": replies(model)}) as address:
        channels = GrpcChannels()
        driver = OipGrpc(channels, channels)
        described = await driver.describe(target(address, transport="GRPC"))
        await channels.close()

    info = TensorInfo("x", "FP32", (-1, 4))
    assert described.model == ModelInfo("iris", (), "onnx", (info,), ())
    assert (described.server, described.evidence) == (None, "")


async def test_a_server_that_starts_is_found_by_the_next_query() -> None:
    """gRPC's own reconnect backoff (1 s and more) must not delay the query."""
    async with grpc_server({"ModelReady": READY}) as server:
        address = server
    channels = GrpcChannels()
    driver = OipGrpc(channels, channels)
    where = target(address, transport="GRPC")
    for _ in range(3):
        assert (await driver.model_ready(where)).reason is AnswerReason.REFUSED

    again = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(
        READY,
        request_deserializer=oip_pb2.ModelReadyRequest.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
    again.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {"ModelReady": handler}),)
    )
    again.add_insecure_port(f"127.0.0.1:{where.way.port}")
    await again.start()

    assert (await driver.model_ready(where)).verdict is True
    await channels.close()
    await again.stop(None)
