"""The libnghttp2 transport over real sockets: requirements of gRPC and HTTP/2, call by call."""

import asyncio
import gc
import gzip

import ngh2
import pytest

from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server
from unit.runtime.grpc_methods import Methods
from unit.runtime.http2_client import connected, message

DEADLINE_SECONDS = 10
OK = ("0", "")


@pytest.fixture
def methods():
    return Methods()


@pytest.fixture
async def serve(methods):
    """Starts the server with these limits and returns its port."""
    servers = []

    async def start(**limits):
        server = Nghttp2Server([methods.service()], "127.0.0.1", 0, limits=Limits(**limits))
        servers.append(server)
        return await server.start()

    yield start
    for server in servers:
        await server.stop(0)


@pytest.fixture
async def client(serve):
    async with connected(await serve()) as client:
        yield client


async def ask(client, path="/s/Echo", *bodies, headers=None, **options):
    bodies = bodies or (message(b"x"),)
    return await client.answer(client.call(path, *bodies, headers=headers or {}, **options))


async def test_an_answer_is_head_message_and_trailers(client):
    answer = await ask(client)
    assert answer.body == message(b"x")
    assert answer.status == OK
    assert answer.headers[b":status"] == b"200"
    assert answer.headers[b"content-type"] == b"application/grpc"
    assert answer.headers[b"grpc-accept-encoding"] == b"identity,deflate,gzip"


async def test_an_error_is_trailers_alone_with_a_quoted_message(client):
    answer = await ask(client, "/s/Fail")
    assert (answer.status, answer.body) == (("5", "100 %25 of %C3%A9 x"), b"")


@pytest.mark.parametrize(
    ("path", "headers", "bodies", "code"),
    [
        ("/s/Nope", {}, [message(b"x")], "12"),
        ("/t/Echo", {}, [message(b"x")], "12"),
        ("/s/Echo", {"grpc-encoding": "br"}, [message(b"x")], "12"),
        ("/s/Echo", {"grpc-timeout": "soon"}, [message(b"x")], "3"),
        ("/s/Echo", {}, [message(b"x") * 2], "12"),
        ("/s/Echo", {}, [b""], "12"),
        ("/s/Echo", {}, [message(b"abc")[:-1]], "13"),
        ("/s/Echo", {}, [b"\x07" + message(b"")[1:]], "13"),
        ("/s/Echo", {}, [message(b"x", 1)], "13"),
        ("/s/Echo", {"grpc-encoding": "gzip"}, [message(b"no gzip", 1)], "13"),
        ("/s/Mirror", {}, [message(b"abc")[:-1]], "13"),
        ("/s/Two", {}, [message(b"x") * 2], "12"),
    ],
)
async def test_a_call_that_cannot_be_served_has_a_status(client, path, headers, bodies, code):
    assert (await ask(client, path, *bodies, headers=headers)).status[0] == code
    assert (await ask(client)).status == OK


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({":method": "GET"}, b"405"),
        ({"content-type": "application/json"}, b"415"),
        ({"content-type": None}, b"415"),
    ],
)
async def test_a_request_that_is_not_grpc_gets_an_http_status(client, headers, status):
    answer = await ask(client, headers=headers)
    assert (answer.headers[b":status"], answer.status) == (status, ("", ""))


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 100_000, 6_000_000])
async def test_messages_of_every_size_pass_both_ways(client, size):
    client.session.set_local_window_size(2**30)
    stream_id = client.call("/s/Echo", message(b"a" * size), headers={})
    client.session.set_local_window_size(2**30, stream_id=stream_id)
    client.flush()
    answer = await client.answer(stream_id)
    assert (answer.status, len(answer.body)) == (OK, size + 5)


async def test_a_message_in_many_frames_is_one(client):
    answer = await ask(client, "/s/Echo", *(bytes((byte,)) for byte in message(b"hello")))
    assert (answer.body, answer.status) == (message(b"hello"), OK)


async def test_a_too_large_message_is_refused_at_its_prefix(serve):
    async with connected(await serve(message_bytes=100)) as client:
        stream_id = client.call("/s/Echo", message(b"a" * 101)[:5], end_stream=False, headers={})
        answer = await client.answer(stream_id)
        code, details = answer.status
        assert code == "8"
        assert "101 bytes" in details
        assert "100 or fewer" in details
        # the client is also told to stop, which is not an error (RFC 9113, 8.1)
        assert answer.reset == ngh2.ErrorCode.NO_ERROR
        assert (await ask(client, "/s/Echo", message(b"a" * 100))).status == OK


async def test_a_compressed_message_gets_a_compressed_answer(client):
    data = b"text " * 50_000
    headers = {"grpc-encoding": "gzip"}
    for answer in (
        await ask(client, "/s/Echo", message(gzip.compress(data), 1), headers=headers),
        await ask(client, "/s/Mirror", message(gzip.compress(data), 1), headers=headers),
    ):
        assert answer.headers[b"grpc-encoding"] == b"gzip"
        assert answer.status == OK
        assert answer.body[:1] == b"\1"
        assert gzip.decompress(answer.body[5:]) == data
    # the coding alone has no effect
    plain = await ask(client, "/s/Echo", message(b"a" * 2000), headers=headers)
    assert plain.body == message(b"a" * 2000)


async def test_a_bomb_is_not_unpacked(serve):
    async with connected(await serve(message_bytes=10_000)) as client:
        bomb = message(gzip.compress(bytes(10_001)), 1)
        assert (await ask(client, "/s/Echo", bomb, headers={"grpc-encoding": "gzip"})).status[
            0
        ] == "8"


async def test_a_deadline_ends_the_call_and_its_method(client, methods):
    answer = await ask(client, "/s/Wait", headers={"grpc-timeout": "20m"})
    assert answer.status == ("4", "not answered within 0.02 s")
    await asyncio.wait_for(methods.ended.wait(), DEADLINE_SECONDS)


async def test_a_deadline_counts_while_the_message_is_awaited(client):
    options = {"end_stream": False, "headers": {"grpc-timeout": "20m"}}
    assert (await ask(client, "/s/Echo", b"\0", **options)).status[0] == "4"


async def test_an_answer_in_time_is_not_disturbed_by_its_deadline(client, methods):
    methods.release.set()
    assert (await ask(client, "/s/Wait", headers={"grpc-timeout": "10S"})).status == OK


async def test_a_cancelled_call_ends_its_method(client, methods):
    stream_id = client.call("/s/Wait", message(b"x"), headers={})
    await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
    client.session.reset_stream(stream_id)
    client.flush()
    await asyncio.wait_for(methods.ended.wait(), DEADLINE_SECONDS)
    assert (await ask(client)).status == OK


@pytest.mark.parametrize("ending", ["reset", "deadline", "disconnect"])
async def test_a_call_that_ends_early_frees_its_request_at_once(client, methods, ending):
    # Without the collector, which hardly ever runs for few large requests.
    await ask(client)  # from now on the server's windows are known
    gc.collect()
    gc.disable()
    try:
        headers = {"grpc-timeout": "500m"} if ending == "deadline" else {}
        stream_id = client.call("/s/Wait", message(b"x" * 200_000), headers=headers)
        await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
        assert methods.request() is not None
        if ending == "reset":
            client.session.reset_stream(stream_id)
            client.flush()
        elif ending == "disconnect":
            client.hang_up()
        async with asyncio.timeout(DEADLINE_SECONDS):
            while methods.request() is not None:  # noqa: ASYNC110 -- freeing sets no event
                await asyncio.sleep(0.01)
    finally:
        gc.enable()


@pytest.mark.parametrize("path", ["/s/Wait", "/s/Endless"])
async def test_a_disconnect_ends_the_calls_of_the_client(client, methods, path):
    client.call(path, message(b"x"), headers={})
    await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
    client.hang_up()
    await asyncio.wait_for(methods.ended.wait(), DEADLINE_SECONDS)


async def test_calls_of_one_connection_do_not_wait_for_each_other(client, methods):
    waiting = client.call("/s/Wait", message(b"slow"), headers={})
    assert (await ask(client)).status == OK
    methods.release.set()
    assert (await client.answer(waiting)).body == message(b"slow")


async def test_a_stream_may_fail_after_its_messages(client):
    answer = await ask(client, "/s/Two")
    assert (answer.body, answer.status) == (message(b"x") * 2, ("10", "after two"))


async def test_both_sides_may_stream(client):
    stream_id = client.call("/s/Mirror", message(b"1"), end_stream=False, headers={})
    answer = client.answers[stream_id]
    await client.read_until(lambda: answer.body == message(b"1"))
    client.session.send_data(stream_id, message(b"2") + message(b"3")[:2])
    client.flush()
    await client.read_until(lambda: answer.body == message(b"1") + message(b"2"))
    client.session.send_data(stream_id, message(b"3")[2:], end_stream=True)
    client.flush()
    assert (await client.answer(stream_id)).body == message(b"1") + message(b"2") + message(b"3")
    assert answer.status == OK


# Slow peers.


async def test_a_client_that_does_not_read_stops_the_method(client, methods):
    stream_id = client.call("/s/Endless", message(b"x"), headers={})
    answer = client.answers[stream_id]
    await client.read_until(lambda: len(answer.body) >= 65_535)  # HTTP/2's initial window
    assert (await ask(client, "/s/Fail")).status[0] == "5"
    stopped_at = methods.yielded
    assert stopped_at * 10_000 < 65_535 + Limits().outbox_bytes + 3 * 10_005
    for _ in range(20):
        assert (await ask(client, "/s/Fail")).status[0] == "5"
    assert methods.yielded == stopped_at

    while methods.yielded == stopped_at:
        client.acknowledge(stream_id)
        before = len(answer.body)
        await client.read_until(lambda before=before: len(answer.body) > before)


async def test_a_method_that_does_not_read_stops_the_client(serve, methods):
    limits = {"inbox_bytes": 10_000, "stream_window_bytes": 100_000}
    async with connected(await serve(**limits)) as client:
        await ask(client)  # the server's SETTINGS have arrived
        stream_id = client.call("/s/Slow", *[message(b"x" * 995)] * 500, headers={})
        await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
        assert (await ask(client)).status == OK
        waiting = client.session.queued_body_size(stream_id)
        assert waiting >= 500_000 - 100_000 - 20_000
        assert methods.taken == 1
        methods.release.set()
        answer = await client.answer(stream_id)
        assert (answer.body, answer.status, methods.taken) == (message(b"done"), OK, 500)


async def test_many_large_calls_share_the_connections_window(serve):
    port = await serve(stream_window_bytes=70_000, connection_window_bytes=100_000)
    async with connected(port) as client:
        client.session.set_local_window_size(2**30)
        calls = [
            client.call("/s/Two", message(b"a" * 60_000), end_stream=False, headers={})
            for _ in range(10)
        ]
        for stream_id in calls:
            client.session.reset_stream(stream_id)
        client.flush()
        # data of cancelled calls no longer counts against the connection
        for _ in range(10):
            assert (await ask(client, "/s/Echo", message(b"a" * 60_000))).status == OK


async def test_calls_that_share_a_full_window_all_complete(serve):
    limits = {"streams": 20, "stream_window_bytes": 70_000, "connection_window_bytes": 100_000}
    async with connected(await serve(**limits)) as client:
        client.session.set_local_window_size(2**30)
        calls = [client.call("/s/Echo", message(b"a" * 60_000), headers={}) for _ in range(20)]
        for stream_id in calls:
            assert (await client.answer(stream_id)).status == OK
