"""Requests of smoke tests in JSON: what is sent, and what counts as an answer."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.api.json_tests import Expectation, JsonRequest, Method
from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import INFERENCE_LIMIT_BYTES
from moorage_operator.probe.protocols.drivers import Drivers
from moorage_operator.probe.schedule.smoke_runner import run_tests
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.smoke import SmokeTask
from support.api_server import serving
from support.probe_targets import byte_server, grps_target, openai_target, plain_target, target

WANTED = (Expectation("a", value=1),)


def test_of(*expect: Expectation, **request: Any) -> SmokeTest:
    return SmokeTest("one", request=JsonRequest(**request), expect=expect)


test_of.__test__ = False  # type: ignore[attr-defined]  # a builder, not a test


async def sent(
    test: SmokeTest, answer: Callable[[web.Request], Any], make: Any = openai_target
) -> Any:
    async with serving(answer) as server:
        drivers = Drivers()
        of = make(server)
        try:
            return await drivers[of.way.protocol, "HTTP"].send(of, test)
        finally:
            await drivers.close()


@pytest.mark.parametrize("make", [target, openai_target, plain_target, grps_target])
async def test_a_request_is_the_same_for_every_protocol(make: Any) -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path_qs, request.content_type, await request.json()))
        return web.json_response([1, {"a": None}])

    test = test_of(*WANTED, path="/p?x=1", body={"é": [1, 2.5, {"b": None}]})

    found = await sent(test, answer, make)

    assert found.document == [1, {"a": None}]
    assert seen == [("POST", "/p?x=1", "application/json", {"é": [1, 2.5, {"b": None}]})]


async def test_openai_has_a_path_of_its_own_and_get_has_no_body() -> None:
    seen: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append((request.method, request.path, await request.text()))
        return web.json_response({})

    await sent(test_of(body={}), answer)
    await sent(test_of(path="/v1/models", method=Method.GET), answer)

    assert seen == [("POST", "/v1/chat/completions", "{}"), ("GET", "/v1/models", "")]


@pytest.mark.parametrize("code", [200, 201, 204])
async def test_any_success_passes_without_expectations(code: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=code, text="" if code == 204 else "not JSON")

    assert isinstance(await sent(test_of(body={}), answer), JsonAnswer)


@pytest.mark.parametrize("code", [302, 400, 404, 500])
async def test_a_rejection_is_quoted(code: int) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "model not loaded"}}, status=code)

    found = await sent(test_of(body={}), answer)

    assert isinstance(found, Answer)
    assert f"HTTP {code} from /v1/chat/completions" in found.message
    assert "model not loaded" in found.message


@pytest.mark.parametrize(
    "text", ["", "not JSON", 'data: {"a":1}\n\ndata: [DONE]\n\n', "[" * 5000, '{"a":1}{"b":2}']
)
async def test_expectations_need_json(text: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=text)

    found = await sent(test_of(*WANTED, body={}), answer)

    assert isinstance(found, Answer)
    assert found.reason is AnswerReason.MALFORMED
    assert "/v1/chat/completions" in found.message


async def test_an_answer_is_limited_in_size() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (INFERENCE_LIMIT_BYTES + 1)
    async with byte_server(head, hold=True) as server:
        drivers = Drivers()
        found = await drivers["OpenAI", "HTTP"].send(openai_target(server), test_of(body={}))
        await drivers.close()

    assert isinstance(found, Answer)
    assert str(INFERENCE_LIMIT_BYTES) in found.message


async def test_an_answer_is_limited_in_time() -> None:
    async with byte_server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", hold=True) as server:
        drivers = Drivers()
        of = openai_target(server, timeout_seconds=0.2)
        found = await drivers["OpenAI", "HTTP"].send(of, test_of(body={}))
        await drivers.close()

    assert isinstance(found, Answer)
    assert found.reason is AnswerReason.TIMED_OUT


@pytest.mark.parametrize("protocol", ["OpenInference", "GRPS"])
async def test_a_request_is_refused_over_grpc(protocol: str) -> None:
    drivers = Drivers()
    found = await drivers[protocol, "GRPC"].send(target(), test_of(path="/p", body={}))
    await drivers.close()

    assert isinstance(found, Answer)
    assert "transport HTTP" in found.message


CHAT = {"choices": [{"message": {"content": "Paris."}}], "usage": {"total_tokens": 9}}
EXPECT = Expectation("choices[0].message.content", pattern="(?i)paris")


@pytest.mark.parametrize(
    ("expect", "bound", "verdict", "facts"),
    [
        ((EXPECT,), None, "Passed", []),
        ((EXPECT, Expectation("usage.total_tokens", value=9)), 60_000, "Passed", []),
        ((Expectation("choices[0].text", value="Rome"),), None, "OutputMismatch",
         ["smoke test one: choices[0].text", "message"]),
        ((Expectation("usage.total_tokens", value=8),), None, "OutputMismatch", ["8", "9"]),
    ],
)  # fmt: skip
async def test_the_runner_compares_the_answer(
    expect: Any, bound: int | None, verdict: str, facts: list[str]
) -> None:
    async def answer(request: web.Request) -> web.Response:
        assert await request.json() == {"max_tokens": 4}
        return web.json_response(CHAT)

    request = JsonRequest(body={"max_tokens": 4})
    test = SmokeTest("one", request=request, expect=expect, max_latency_milliseconds=bound)
    async with serving(answer) as server:
        drivers = Drivers()
        found = await run_tests(
            drivers["OpenAI", "HTTP"], openai_target(server), SmokeTask("d", (test,)), lambda: 0.0
        )
        await drivers.close()

    assert found.verdict == verdict
    assert all(fact in found.message for fact in facts)
    assert json.dumps(found.message).isascii()
