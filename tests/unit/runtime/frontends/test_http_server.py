"""The HTTP listener on real sockets: order, framing, codings, deadlines, shutdown."""

import asyncio
import json
import socket
import ssl
import zlib

import pytest
import uvloop

from moorage_runtime.frontends.http.authorization import BearerToken
from moorage_runtime.frontends.http.limits import Limits
from unit.runtime.http_fixtures import (
    DEADLINE_SECONDS,
    Application,
    chunked,
    connected,
    get,
    listening,
    post,
    zipped,
)

CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
async def application():
    return Application()


async def ask(port, data, *, has_body=True):
    async with connected(port) as client:
        client.send(data)
        return await client.answer(has_body=has_body)


async def test_pipelined_requests_are_answered_in_order(application):
    async with listening(application) as (_, port), connected(port) as client:
        application.release.set()
        client.send(
            post("/", b"1") + post("/later", b"2") + post("/", b"3") + post("/later", b"4")
        )
        assert [(await client.answer())[2] for _ in range(4)] == [b"1", b"2", b"3", b"4"]


async def test_more_pipelined_requests_than_may_wait_are_all_answered(application):
    async with (
        listening(application, Limits(pipelined_requests=2)) as (_, port),
        connected(port) as client,
    ):
        client.send(post("/later", b"0") + b"".join(post("/", b"%d" % i) for i in range(1, 50)))
        await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        application.release.set()
        assert [int((await client.answer())[2]) for _ in range(50)] == list(range(50))
        client.send(post("/", b"more"))
        assert (await client.answer())[2] == b"more"


async def test_a_connection_serves_several_requests_in_turn(application):
    async with listening(application) as (_, port), connected(port) as client:
        for index in range(3):
            client.send(post("/", b"%d" % index))
            status, headers, body = await client.answer()
            assert (status, body, headers["content-length"]) == (200, b"%d" % index, "1")
            assert "connection" not in headers


async def test_a_large_body_arrives_whole(application):
    body = bytes(range(256)) * (64 * 1024 * 1024 // 256)
    async with listening(application) as (_, port), connected(port) as client:
        client.send(post("/parts", body))
        assert (await client.answer())[2] == b"onetwo"
        assert application.requests[0].body == body
        client.send(post("/", b"next"))
        assert (await client.answer())[2] == b"next"


async def test_a_body_above_the_limit_is_413_and_closes_the_connection(application):
    limits = Limits(body_bytes=100_000)
    async with listening(application, limits) as (_, port):
        assert (await ask(port, post("/", b"x" * 100_000)))[0] == 200
        async with connected(port) as client:
            client.send(post("/", b"x" * 100_001))
            status, headers, body = await client.answer()
            assert (status, headers["connection"]) == (413, "close")
            assert "100000 bytes" in json.loads(body)["error"]
            assert await client.ends() == b""
    assert len(application.requests) == 1


@pytest.mark.parametrize("pieces", [(b"abc",), (b"a", b"bc"), tuple([b"x" * 999] * 99), ()])
async def test_chunked_bodies_are_read(application, pieces):
    async with listening(application) as (_, port):
        assert (await ask(port, CHUNKED + chunked(*pieces)))[2] == b"".join(pieces)


async def test_expect_gets_continue_before_the_body(application):
    async with listening(application) as (_, port), connected(port) as client:
        whole = post("/", b"body", b"Expect: 100-continue")
        client.send(whole[:-4])
        assert (await client.answer(has_body=False))[0] == 100
        client.send(whole[-4:])
        assert (await client.answer())[2] == b"body"


async def test_expect_of_a_too_large_body_gets_the_refusal_instead(application):
    async with listening(application, Limits(body_bytes=3)) as (_, port):
        whole = post("/", b"body", b"Expect: 100-continue")
        assert (await ask(port, whole[:-4]))[0] == 413


async def test_continue_waits_for_its_turn(application):
    async with listening(application) as (_, port), connected(port) as client:
        whole = post("/", b"body", b"Expect: 100-continue")
        client.send(post("/later", b"first") + whole[:-4])
        await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        application.release.set()
        assert (await client.answer())[2] == b"first"
        assert (await client.answer(has_body=False))[0] == 100
        client.send(whole[-4:])
        assert (await client.answer())[2] == b"body"


async def test_head_has_the_headers_of_get_and_no_body(application):
    async with listening(application) as (_, port), connected(port) as client:
        client.send(get("/parts", method=b"HEAD") + get("/parts"))
        status, headers, _ = await client.answer(has_body=False)
        assert (status, headers["content-length"]) == (200, "6")
        assert (await client.answer())[2] == b"onetwo"


@pytest.mark.parametrize(
    ("request_bytes", "connection"),
    [
        (get("/", b"Connection: close"), "close"),
        (b"GET / HTTP/1.0\r\n\r\n", "close"),
    ],
)
async def test_the_connection_closes_when_asked(application, request_bytes, connection):
    async with listening(application) as (_, port), connected(port) as client:
        client.send(request_bytes)
        assert (await client.answer())[1]["connection"] == connection
        assert await client.ends() == b""


async def test_http10_supports_keep_alive(application):
    async with listening(application) as (_, port), connected(port) as client:
        for _ in range(2):
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.answer())[1]["connection"] == "keep-alive"


@pytest.mark.parametrize(
    ("coding", "encode"),
    [
        (b"gzip", zipped),
        (b"x-gzip", zipped),
        (b"GZIP", zipped),
        (b"deflate", zlib.compress),
        (b"identity", bytes),
        (b"gzip", lambda data: zipped(data[:3]) + zipped(data[3:])),
    ],
)
@pytest.mark.parametrize("size", [10, 200_000])
async def test_compressed_bodies_are_read(application, coding, encode, size):
    body = bytes(index % 251 for index in range(size))
    async with listening(application) as (_, port), connected(port) as client:
        client.send(post("/", encode(body), b"Content-Encoding: " + coding) + post("/", b"next"))
        assert (await client.answer())[2] == body
        assert (await client.answer())[2] == b"next"


@pytest.mark.parametrize(
    ("coding", "body", "status", "message"),
    [
        (b"br", b"x", 415, "Content-Encoding 'br' is not supported"),
        (b"gzip, gzip", b"x", 415, "gzip, gzip"),
        (b"gzip", b"not gzip", 400, "corrupt"),
        (b"gzip", zipped(b"x" * 100)[:-9], 400, "truncated"),
        (b"gzip", b"", 400, "truncated"),
        (b"deflate", zlib.compress(b"x") + b"y", 400, "1 bytes after its end"),
        (b"deflate", zlib.compress(b"x")[2:], 400, "corrupt"),
        (b"gzip", zipped(b"x" * 1001), 413, "the decompressed body is too large"),
    ],
)
async def test_bodies_that_do_not_decompress_are_refused(
    application, coding, body, status, message
):
    async with (
        listening(application, Limits(body_bytes=1000)) as (_, port),
        connected(port) as client,
    ):
        client.send(post("/", body, b"Content-Encoding: " + coding) + post("/", b"next"))
        got, headers, text = await client.answer()
        assert (got, headers.get("accept-encoding")) == (
            status,
            "gzip, deflate" if status == 415 else None,
        )
        assert message in json.loads(text)["error"]
        # the framing was valid, so the connection stays open
        assert (await client.answer())[2] == b"next"


@pytest.mark.parametrize(
    ("accepted", "coding", "decode"),
    [
        (b"gzip", "gzip", lambda data: zlib.decompress(data, 31)),
        (b"deflate, br", "deflate", zlib.decompress),
        (b"gzip;q=0, deflate;q=0.5", "deflate", zlib.decompress),
        (b"br", None, bytes),
        (b"gzip;q=0.000", None, bytes),
    ],
)
async def test_answers_are_compressed_for_clients_that_accept_it(
    application, accepted, coding, decode
):
    body = b"word " * 100
    async with listening(application, compress_from_bytes=100) as (_, port):
        data = post("/", body, b"Accept-Encoding: " + accepted)
        _, headers, got = await ask(port, data)
        assert headers.get("content-encoding") == coding
        assert decode(got) == body
        small = await ask(port, post("/", b"word", b"Accept-Encoding: " + accepted))
        assert "content-encoding" not in small[1]


async def test_parts_of_a_stream_are_sent_immediately(application):
    async with listening(application) as (_, port), connected(port) as client:
        client.send(get("/stream") + get("/parts"))
        status, headers, _ = await client.answer(has_body=False)
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        chunks = client.chunks()
        assert await anext(chunks) == b"first"
        application.release.set()
        assert [chunk async for chunk in chunks] == [b"second"]
        assert (await client.answer())[2] == b"onetwo"


async def test_a_stream_to_http10_ends_with_the_connection(application):
    application.release.set()
    async with listening(application) as (_, port), connected(port) as client:
        client.send(b"GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        status, headers, _ = await client.answer(has_body=False)
        assert (status, headers["connection"]) == (200, "close")
        assert await client.ends() == b"firstsecond"


@pytest.mark.parametrize("path", ["/later", "/stream"])
async def test_a_disconnect_cancels_only_the_clients_own_request(application, path):
    async with listening(application) as (_, port):
        async with connected(port) as client:
            client.send(post(path, b"x"))
            await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        await asyncio.wait_for(application.cancelled.wait(), DEADLINE_SECONDS)
        assert (await ask(port, post("/", b"other")))[2] == b"other"


@pytest.mark.parametrize("path", ["/explode", "/explode-later"])
async def test_an_exception_becomes_500_without_its_text(application, path, caplog):
    async with listening(application) as (_, port), connected(port) as client:
        client.send(post(path) + post("/", b"next"))
        status, _, body = await client.answer()
        assert (status, json.loads(body)) == (500, {"error": "internal error"})
        assert (await client.answer())[2] == b"next"
    assert "secret" in caplog.text


async def test_slow_heads_and_bodies_are_ended(application):
    limits = Limits(head_seconds=0.1, body_grace_seconds=0.1, body_bytes_per_second=10**9)
    async with listening(application, limits) as (_, port):
        for data, what in [(b"GET / HT", "headers"), (post("/", b"body")[:-1], "body")]:
            status, headers, body = await ask(port, data)
            assert (status, headers["connection"]) == (408, "close")
            assert what in json.loads(body)["error"]


async def test_an_idle_connection_is_closed_silently(application):
    async with (
        listening(application, Limits(idle_seconds=0.1)) as (_, port),
        connected(port) as client,
    ):
        client.send(post("/", b"x"))
        await client.answer()
        assert await client.ends() == b""


async def test_a_running_request_is_not_idle(application):
    async with (
        listening(application, Limits(idle_seconds=0.05)) as (server, port),
        connected(port) as client,
    ):
        client.send(post("/later", b"x"))
        await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        began = server.now
        while server.now < began + 0.2:  # noqa: ASYNC110 - the server's own clock is the condition
            await asyncio.sleep(0.01)
        application.release.set()
        assert (await client.answer())[2] == b"x"


async def test_a_client_that_does_not_read_is_disconnected(application):
    async with (
        listening(application, Limits(write_seconds=0.1)) as (server, port),
        connected(port) as client,
    ):
        client.writer.transport.pause_reading()
        client.send(post("/large"))
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not application.requests or server._connections:  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)


async def test_connections_beyond_the_limit_get_503(application):
    async with (
        listening(application, Limits(connections=1)) as (_, port),
        connected(port) as first,
    ):
        first.send(post("/", b"1"))
        assert (await first.answer())[2] == b"1"
        async with connected(port) as second:
            assert (await second.answer())[0] == 503
        first.send(post("/", b"2"))
        assert (await first.answer())[2] == b"2"


async def test_idle_and_slow_clients_are_evicted_for_new_ones(application):
    limits = Limits(connections=2, evict_seconds=0, linger_seconds=0.04)
    async with (
        listening(application, limits) as (_, port),
        connected(port),
        connected(port) as slow,
    ):
        slow.send(b"GET / HTTP/1.1\r\nHo")
        await asyncio.sleep(0.1)  # several ticks of the server's clock
        for _ in range(3):
            async with connected(port) as client:
                client.send(post("/", b"x"))
                assert (await client.answer())[0] == 200
            await asyncio.sleep(0.1)


async def test_stop_finishes_current_requests_and_closes_idle_connections(application):
    limits = Limits(stop_idle_seconds=0.05, linger_seconds=0.1)
    async with listening(application, limits) as (server, port):
        async with connected(port) as busy, connected(port) as idle:
            idle.send(post("/", b"x"))
            await idle.answer()
            busy.send(post("/later", b"running"))
            await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
            stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
            assert await idle.ends() == b""
            application.release.set()
            _, headers, body = await busy.answer()
            assert (headers["connection"], body) == ("close", b"running")
            await stopping
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)


async def test_requests_that_keep_coming_do_not_keep_the_port_open(application):
    async with listening(application) as (server, port), connected(port) as busy:
        busy.send(post("/later", b"running"))
        await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
        await asyncio.sleep(0)

        with pytest.raises(ConnectionError):
            await ask(port, post("/", b"x"))
        application.release.set()
        assert (await busy.answer())[0] == 200
        await stopping


async def test_queued_clients_are_answered_when_the_port_closes(application):
    async with listening(application) as (server, port):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        for client in clients:
            client.sendall(post("/", b"x"))
        await asyncio.wait_for(server.stop(DEADLINE_SECONDS), DEADLINE_SECONDS)

        for client in clients:
            with client:
                assert client.recv(4096).startswith(b"HTTP/1.1 200")


async def test_a_request_in_transit_is_answered_when_the_port_closes(application):
    async with listening(application) as (server, port), connected(port) as client:
        client.send(post("/", b"first"))
        await client.answer()
        stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
        await asyncio.sleep(0.05)  # the time between a close and a request in transit

        client.send(post("/", b"second"))
        _, headers, body = await client.answer()
        assert (headers["connection"], body) == ("close", b"second")
        await stopping


async def test_a_persistent_connection_closes_after_a_response_during_shutdown(application):
    async with listening(application) as (server, port), connected(port) as client:
        client.send(post("/", b"x"))
        _, headers, _ = await client.answer()
        assert "connection" not in headers

        server.leave()
        client.send(post("/", b"x"))
        status, headers, _ = await client.answer()

        assert (status, headers["connection"]) == (200, "close")
        assert await client.ends() == b""
        assert (await ask(port, post("/", b"x")))[0] == 200  # new connections are still accepted


async def test_stop_cancels_requests_that_exceed_the_grace_period(application):
    async with listening(application) as (server, port), connected(port) as client:
        client.send(post("/later", b"x"))
        await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
        await server.stop(0.05)
        assert await client.ends() == b""
        await asyncio.wait_for(application.cancelled.wait(), DEADLINE_SECONDS)


async def test_a_token_is_checked_before_the_body(application):
    admission = BearerToken(["t1", "t2"], lambda _, path: path == "/parts")
    async with listening(application, admission=admission) as (_, port):
        status, headers, _ = await ask(port, post("/", b"body")[:-4])
        assert (status, headers["www-authenticate"]) == (401, "Bearer")
        for line in (
            b"Authorization: Bearer t3",
            b"Authorization: Basic t1",
            b"Authorization: t1",
        ):
            assert (await ask(port, post("/", b"", line)))[0] == 401
        for line in (b"Authorization: Bearer t1", b"authorization: bearer t2"):
            assert (await ask(port, post("/", b"", line)))[0] == 200
        assert (await ask(port, get("/parts")))[0] == 200


async def test_a_malformed_request_is_answered_in_json(application):
    async with listening(application) as (_, port):
        status, headers, body = await ask(port, b"nonsense\r\n\r\n")
        assert (status, headers["content-type"]) == (400, "application/json")
        assert "malformed" in json.loads(body)["error"]


async def test_invalid_tls_does_not_affect_other_connections(application):
    async with listening(application) as (_, port):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=ssl.create_default_context())
        assert (await ask(port, get("/parts")))[0] == 200


@pytest.mark.parametrize("new_event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_either_event_loop_reads_writes_pauses_and_stops(new_event_loop):
    body = bytes(5 * 1024 * 1024)

    async def exchange():
        application = Application()
        async with listening(application) as (server, port), connected(port) as client:
            client.send(post("/", body) + get("/stream") + get("/large"))
            assert (await client.answer())[2] == body
            await asyncio.wait_for(application.started.wait(), DEADLINE_SECONDS)
            application.release.set()
            assert (await client.answer())[2] == b"firstsecond"
            assert len((await client.answer())[2]) == 32 * 1024 * 1024
            await server.stop(DEADLINE_SECONDS)
            assert await client.ends() == b""

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(exchange())
