"""Servers of an unknown protocol: only HTTP statuses count."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.driver import Described
from moorage_operator.probe.protocols.plain_http import PlainHttp
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.values.answers import Answer, AnswerReason
from support.api_server import serving
from support.probe_targets import byte_server, plain_target


async def asked(
    routes: Mapping[str, web.Response], ask: Callable[[PlainHttp, Any], Any], **fields: Any
) -> Any:
    """The driver's answer for a server with these paths, and 404 for others."""

    async def answer(request: web.Request) -> web.Response:
        return routes.get(request.path) or web.Response(status=404)

    async with serving(answer) as server:
        http = HttpClient()
        try:
            return await ask(PlainHttp(http), plain_target(server, **fields))
        finally:
            await http.close()


@pytest.mark.parametrize(
    ("code", "verdict"),
    [(200, True), (204, True), (299, True), (302, False), (404, False), (503, False)],
)
async def test_the_status_of_the_ready_path_decides(code: int, verdict: bool) -> None:
    for ask in (lambda d, t: d.ready(t), lambda d, t: d.model_ready(t)):
        answer = await asked({"/readyz": web.Response(status=code)}, ask)

        assert answer.verdict is verdict
        assert verdict or (answer.reason is AnswerReason.NOT_READY and str(code) in answer.message)


async def test_any_answer_means_live_without_a_live_path() -> None:
    routes = {"/readyz": web.Response(status=503), "/livez": web.Response(status=500)}

    assert (await asked(routes, lambda d, t: d.live(t))).verdict is True
    assert (await asked(routes, lambda d, t: d.live(t), live_path="/livez")).verdict is False


async def test_the_servers_own_error_is_quoted() -> None:
    routes = {"/readyz": web.json_response({"error": "warming up"}, status=503)}

    assert (await asked(routes, lambda d, t: d.ready(t))).message == "warming up"


async def test_nothing_is_claimed_that_was_not_observed() -> None:
    routes = {
        "/readyz": web.json_response({"name": "iris", "version": "3"}),
        "/v2": web.json_response({"name": "triton", "version": "2"}),
    }

    assert await asked(routes, lambda d, t: d.describe(t)) == Described()
    assert (await asked(routes, lambda d, t: d.speaks(t))).verdict is None


@pytest.mark.parametrize(
    "reply",
    [
        bytes(range(256)) * 10,
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
    ],
    ids=["not HTTP", "too large", "compressed"],
)
async def test_a_server_that_cannot_be_read_is_not_ready_and_speaks_no_other_protocol(
    reply: bytes,
) -> None:
    async with byte_server(reply, hold=True) as server:
        http = HttpClient()
        driver, of = PlainHttp(http), plain_target(server)

        for answer in (
            await driver.live(of),
            await driver.ready(of),
            await driver.model_ready(of),
        ):
            assert (answer.verdict, answer.reason) == (False, AnswerReason.NOT_READY)
            assert answer.message
        await http.close()


async def test_a_missing_server_is_unknown() -> None:
    http = HttpClient()
    answer = await PlainHttp(http).model_ready(plain_target("http://127.0.0.1:1"))
    await http.close()

    assert (answer.verdict, answer.reason) == (None, AnswerReason.REFUSED)


async def test_tensors_are_refused() -> None:
    tensors = (InputTensor("x", "FP32", (1,), (1.0,)),)

    answer = await asked({}, lambda d, t: d.infer(t, tensors))

    assert isinstance(answer, Answer)
    assert "protocol None has no tensors" in answer.message
