import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.protocols import grps_metadata
from moorage_operator.probe.protocols._generated import grps_pb2
from moorage_operator.probe.protocols.grps import Grps, Question
from moorage_operator.probe.protocols.grps_grpc import SERVICE, GrpsGrpc
from moorage_operator.probe.protocols.grps_rest import GrpsRest
from moorage_operator.probe.reading import yaml_text
from moorage_operator.probe.transport.grpc_channels import GrpcChannels
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import Answer, AnswerReason, ServerInfo, TensorInfo
from support.api_server import serving
from support.probe_targets import byte_server, grps_target

PATHS = {
    "/grps/v1/health/live": Question.LIVE,
    "/grps/v1/health/ready": Question.READY,
    "/grps/v1/health/online": Question.ONLINE,
    "/grps/v1/metadata/server": Question.SERVER_METADATA,
    "/grps/v1/metadata/model": Question.MODEL_METADATA,
}
MODEL_TEXT = """
name: iris
version: 1.10
ready: true
inferer_type: onnx
inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]
"""
SERVER_TEXT = "name: server\nversion: 2\nmodels: [{name: wine, version: 1.0}, {name: pie}]\n"


class Server:
    """The requests and answers of a GRPS server, over either transport."""

    def __init__(self) -> None:
        self.online = True
        self.models = {"iris": MODEL_TEXT}
        self.text = SERVER_TEXT
        self.asked: list[tuple[Question, str]] = []
        self.unknown_code = 404

    def answer(self, question: Question, text: str) -> tuple[int, str, str]:
        """An answer with code, message and `str_data`."""
        self.asked.append((question, text))
        if question is Question.READY and not self.online:
            return 503, "Service Unavailable", ""
        if question is Question.ONLINE:
            self.online = True
        if question is Question.SERVER_METADATA:
            return 200, "OK", self.text
        if question is Question.MODEL_METADATA and text not in self.models:
            return self.unknown_code, "no such model", ""
        return 200, "OK", self.models.get(text, "")


@asynccontextmanager
async def over_http(server: Server, *, lies: bool = False) -> AsyncIterator[tuple[Grps, Any]]:
    """The driver and a target; a lying server reports failures with HTTP 200."""

    async def answer(request: web.Request) -> web.Response:
        if request.path not in PATHS:
            return web.Response(status=404)
        body = await request.read()
        text = json.loads(body).get("str_data", "") if body else ""
        code, message, data = server.answer(PATHS[request.path], text)
        status = {"code": code, "msg": message, "status": "SUCCESS" if code == 200 else 2}
        document = {"status": status, "str_data": data}
        return web.Response(status=200 if lies else code, text=json.dumps(document))

    async with serving(answer) as address:
        http = HttpClient()
        try:
            yield Grps(GrpsRest(http)), grps_target(address)
        finally:
            await http.close()


@asynccontextmanager
async def over_grpc(server: Server) -> AsyncIterator[tuple[Grps, Any]]:
    def method(question: Question) -> grpc.RpcMethodHandler:
        async def call(request: Any, _: Any) -> Any:
            code, message, data = server.answer(question, request.str_data)
            flag = grps_pb2.Status.SUCCESS if code == 200 else grps_pb2.Status.FAILURE
            status = grps_pb2.Status(code=code, msg=message, status=flag)
            return grps_pb2.GrpsMessage(status=status, str_data=data)

        return grpc.unary_unary_rpc_method_handler(
            call,
            request_deserializer=grps_pb2.GrpsMessage.FromString,
            response_serializer=lambda message: message.SerializeToString(),
        )

    handlers = {str(question): method(question) for question in Question}
    made = grpc.aio.server()
    made.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = made.add_insecure_port("127.0.0.1:0")
    await made.start()
    channels = GrpcChannels()
    try:
        yield (
            Grps(GrpsGrpc(channels, channels)),
            grps_target(f"http://127.0.0.1:{port}", transport="GRPC"),
        )
    finally:
        await channels.close()
        await made.stop(None)


WIRES = pytest.mark.parametrize(
    "over",
    [over_http, lambda server: over_http(server, lies=True), over_grpc],
    ids=["http", "http with failures in a 200", "grpc"],
)
Over = Callable[[Server], Any]


@WIRES
async def test_a_model_is_ready_if_the_server_is_ready_and_has_it(over: Over) -> None:
    server = Server()
    async with over(server) as (driver, target):
        assert (await driver.model_ready(target)).verdict is True
        assert (await driver.live(target)).verdict is True

        server.online = False
        offline = await driver.model_ready(target)

    assert (offline.verdict, offline.reason) == (False, AnswerReason.NOT_READY)
    assert "503 Service Unavailable" in offline.message


@WIRES
async def test_a_model_that_the_server_does_not_have_is_not_found(over: Over) -> None:
    server = Server()
    async with over(server) as (driver, target):
        answer = await driver.model_ready(replace(target, model_name="rose"))

    assert answer == Answer(
        verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message="the server has wine-1.0, pie"
    )


@WIRES
@pytest.mark.parametrize(
    ("models", "version", "reason"),
    [
        ({"iris": MODEL_TEXT}, "1.10", AnswerReason.READY),
        ({"iris": "a text"}, "1.10", AnswerReason.READY),
        ({"iris-2": "name: iris\nversion: 2"}, "2", AnswerReason.READY),
        ({"iris": MODEL_TEXT, "iris-2": "version: 2"}, "2", AnswerReason.READY),
        ({"iris": MODEL_TEXT}, "3", AnswerReason.VERSION_NOT_FOUND),
        ({"iris": "ready: false"}, "", AnswerReason.NOT_READY),
    ],
)
async def test_a_version_is_queried_by_name_and_by_name_and_version(
    over: Over, models: dict[str, str], version: str, reason: AnswerReason
) -> None:
    server = Server()
    server.models = models
    async with over(server) as (driver, target):
        answer = await driver.model_ready(replace(target, model_version=version))

    assert answer.reason is reason
    assert ("1.10" in answer.message) is (reason is AnswerReason.VERSION_NOT_FOUND)


async def test_an_error_that_is_not_about_the_model_is_reported() -> None:
    server = Server()
    server.unknown_code, server.text = 500, ""
    async with over_http(server) as (driver, target):
        answer = await driver.model_ready(replace(target, model_name="rose"))

    assert answer.reason is AnswerReason.NOT_READY
    assert "500 no such model" in answer.message


@WIRES
async def test_metadata_is_read_from_yaml(over: Over) -> None:
    async with over(Server()) as (driver, target):
        described = await driver.describe(target)
        answer = await driver.speaks(target)

    assert described.evidence == answer.message
    assert described.server == ServerInfo("server", "2")
    assert described.model.versions == ("1.10",)
    assert described.model.platform == "onnx"
    assert described.model.inputs == (TensorInfo("x", "FP32", (-1, 4)),)


@WIRES
async def test_a_server_is_brought_online_once_it_is_live(over: Over) -> None:
    server = Server()
    server.online = False
    async with over(server) as (driver, target):
        assert await driver.bring_online(target)
        assert (await driver.ready(target)).verdict is True

    assert [question for question, _ in server.asked[:2]] == [Question.LIVE, Question.ONLINE]


REPLIES = [
    (404, "", AnswerReason.WRONG_PROTOCOL),
    (200, "OK", AnswerReason.WRONG_PROTOCOL),
    (200, '{"status":"SUCCESS"}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"status":{"status":{}}}', AnswerReason.WRONG_PROTOCOL),
    (200, '{"status":{"status":"SUCCESS","code":503}}', AnswerReason.NOT_READY),
    (200, '{"status":{"status":1,"code":200}}', AnswerReason.READY),
    (401, "", AnswerReason.NOT_READY),
    (502, "", AnswerReason.NOT_READY),
]


@pytest.mark.parametrize(("code", "body", "reason"), REPLIES)
async def test_only_the_status_in_the_body_counts(
    code: int, body: str, reason: AnswerReason
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=code, text=body)

    async with serving(answer) as address:
        http = HttpClient()
        try:
            found = await Grps(GrpsRest(http)).ready(grps_target(address))
        finally:
            await http.close()

    assert found.reason is reason


@pytest.mark.parametrize(("code", "verdict"), [(200, True), (503, False)])
async def test_a_custom_path_is_the_only_query(code: int, verdict: bool) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=code if request.path == "/p" else 404)

    async with serving(answer) as address:
        http = HttpClient()
        target = grps_target(address, model_ready_path="/p")
        try:
            found = await Grps(GrpsRest(http)).model_ready(target)
        finally:
            await http.close()

    assert found.verdict is verdict


async def test_a_server_without_grps_over_grpc_is_the_wrong_protocol() -> None:
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channels = GrpcChannels()
    target = grps_target(f"http://127.0.0.1:{port}", transport="GRPC")
    try:
        answer = await Grps(GrpsGrpc(channels, channels)).ready(target)
    finally:
        await channels.close()
        await server.stop(None)

    assert answer.reason is AnswerReason.WRONG_PROTOCOL
    assert SERVICE in answer.message


async def test_a_silent_server_times_out() -> None:
    async with byte_server(b"", hold=True) as address:
        http = HttpClient()
        try:
            answer = await Grps(GrpsRest(http)).ready(grps_target(address, timeout_seconds=0.2))
        finally:
            await http.close()

    assert answer.reason is AnswerReason.TIMED_OUT


# ---------------------------------------------------------------------- YAML of strangers


HOSTILE: Mapping[str, str] = {
    "too long": "a: " + "x" * yaml_text.TEXT_LIMIT_CHARACTERS,
    "deep": "a: " + "[" * 20000,
    "an object": "!!python/object/apply:os.system ['true']",
    "no YAML": "a: [",
    "a list": "[1, 2]",
    "control characters": "\x00\x01",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_unreadable_metadata_is_ignored(text: str) -> None:
    assert grps_metadata.read_model(text, "iris").info is None
    assert grps_metadata.read_models(text) == ()
    assert grps_metadata.read_server(text) is None


def test_an_alias_bomb_is_cheap_to_reject() -> None:
    lines = ["a0: &a0 [x, x]"]
    lines += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60)]
    text = "\n".join([*lines, "inputs: *a59"])

    assert grps_metadata.read_model(text, "iris").info is None


@given(st.text())
def test_arbitrary_text_never_raises(text: str) -> None:
    assert grps_metadata.read_model(text, "iris").name
    grps_metadata.read_models(text)
    grps_metadata.read_server(text)
