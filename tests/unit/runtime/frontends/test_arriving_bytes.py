"""Bodies and messages count against the server's budget while they arrive."""

import asyncio
import contextlib

import pytest

from moorage_runtime.frontends.grpc.nghttp2.limits import Limits as GrpcLimits
from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.values.budget import ByteBudget
from unit.runtime.grpc_methods import Methods
from unit.runtime.http2_client import connected, message
from unit.runtime.http_fixtures import Application, chunked, listening, post
from unit.runtime.http_fixtures import connected as http_connected

OK = ("0", "")
LIMIT = 1000
BODY = post("/", b"x" * 900)
CHUNKED_HEAD = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


async def until_held(budget: ByteBudget, size: int) -> None:
    async with asyncio.timeout(10):
        while budget.taken != size:  # noqa: ASYNC110 - the budget tells nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "begin", [BODY[:-1], CHUNKED_HEAD + chunked(b"x" * 899)[:-5]], ids=["length", "chunks"]
)
async def test_a_body_that_would_exceed_the_budget_is_refused_until_another_is_gone(begin):
    budget = ByteBudget(LIMIT)
    async with listening(Application(), budget=budget) as (_, port):
        async with http_connected(port) as first:
            first.send(begin)
            await until_held(budget, 899)
            async with http_connected(port) as second:
                second.send(BODY[:-1])
                status, headers, body = await second.answer()
                assert (status, headers["retry-after"]) == (503, "1")
                assert b"--max-inflight-bytes" in body
        async with http_connected(port) as third:
            third.send(BODY[:-700])
            await until_held(budget, 200)
            third.send(BODY[-700:])
            assert (await third.answer())[0] == 200
        assert budget.taken == 0


async def test_bodies_that_wait_for_an_earlier_answer_are_counted():
    budget, application = ByteBudget(LIMIT), Application()
    async with listening(application, budget=budget) as (_, port), http_connected(port) as client:
        client.send(post("/later", b"a"))
        await asyncio.wait_for(application.started.wait(), 10)
        client.send(post("/", b"x" * 500)[:-1])
        await until_held(budget, 499)
        client.send(b"x" + post("/", b"y" * 200)[:-1])
        await until_held(budget, 699)
        application.release.set()
        client.send(b"y")
        assert [(await client.answer())[0] for _ in range(3)] == [200, 200, 200]
        assert budget.taken == 0


async def test_a_body_that_stalls_after_a_quick_start_is_given_up():
    limits = Limits(body_grace_seconds=0.2, body_bytes_per_second=1)
    async with (
        listening(Application(), limits) as (_, port),
        http_connected(port) as client,
    ):
        client.send(post("/", b"x" * 1_000_000)[:-1])
        assert (await client.answer())[0] == 408


@contextlib.asynccontextmanager
async def grpc_serving(budget: ByteBudget, **limits):
    methods = Methods().service()
    server = Nghttp2Server([methods], "127.0.0.1", 0, limits=GrpcLimits(**limits), budget=budget)
    port = await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


@pytest.mark.parametrize("path", ["/s/Echo", "/s/Mirror"])
async def test_a_message_that_would_exceed_the_budget_is_refused(path):
    budget = ByteBudget(LIMIT)
    async with grpc_serving(budget) as port, connected(port) as client:
        async with connected(port) as other:
            other.call(path, message(b"x" * 900)[:-1], end_stream=False, headers={})
            other.flush()
            await until_held(budget, 899)
            refused = client.call(path, message(b"x" * 900)[:-1], end_stream=False, headers={})
            answer = await client.answer(refused)
            assert answer.status[0] == "8"
            assert "--max-inflight-bytes" in answer.status[1]
        call = client.call(path, message(b"x" * 900), headers={})
        assert (await client.answer(call)).status == OK
        assert budget.taken == 0


async def test_a_message_that_stalls_after_a_quick_start_is_given_up():
    limits = {"message_grace_seconds": 0.2, "message_bytes_per_second": 1}
    async with grpc_serving(ByteBudget(), **limits) as port, connected(port) as client:
        begun = message(b"x" * 100_000)[:-1]
        stream_id = client.call("/s/Echo", begun, end_stream=False, headers={})
        assert (await client.answer(stream_id)).status[0] == "4"
