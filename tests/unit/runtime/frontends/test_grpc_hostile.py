"""The libnghttp2 transport with clients that violate HTTP/2, flood it or stay silent; shutdown."""

import asyncio
import contextlib
import struct

import ngh2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage_runtime.frontends.grpc.nghttp2.limits import Limits
from moorage_runtime.frontends.grpc.nghttp2.server import Nghttp2Server
from unit.runtime.grpc_methods import Methods
from unit.runtime.http2_client import PREFACE, connected, frame, goaway_code, message

DEADLINE_SECONDS = 10
OK = ("0", "")
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4
OPEN = PREFACE + frame(SETTINGS)
AGREED = frame(SETTINGS, 1)  # the server's settings apply from here on
# From the static table ":method: POST" and ":scheme: http", then names with literal values.
HEAD = b"\x83\x86\x01\x01h\x04\x07/s/Echo\x0f\x10\x10application/grpc"
CALL = frame(HEADERS, END_HEADERS, 1, HEAD)
Code = ngh2.ErrorCode
# Clients of these tests do not disconnect after a GOAWAY.
BRIEF = Limits(linger_seconds=0.2)


@contextlib.asynccontextmanager
async def serving(**limits):
    """The port of a server with these limits, and its methods."""
    methods = Methods()
    server = Nghttp2Server([methods.service()], "127.0.0.1", 0, limits=Limits(**limits))
    port = await server.start()
    try:
        yield port, methods
    finally:
        await server.stop(0)


async def still_serves(port):
    """Another client is answered."""
    async with connected(port) as client:
        answer = await client.answer(client.call("/s/Echo", message(b"x"), headers={}))
        return answer.status == OK


async def test_the_bytes_of_these_tests_are_a_valid_call():
    async with serving() as (port, _), connected(port, is_open=False) as client:
        client.write(OPEN + CALL + frame(DATA, END_STREAM, 1, message(b"x")))
        client.write(frame(GOAWAY, 0, 0, bytes(8)))
        assert message(b"x") in await client.raw_end()


async def test_a_frame_may_have_the_announced_maximum_size():
    large = message(b"x" * (Limits().frame_bytes - len(message(b""))))
    room = 2 * len(large)  # for the response
    client_opens = PREFACE + frame(SETTINGS, payload=struct.pack(">HI", 4, room))
    client_opens += frame(WINDOW, payload=struct.pack(">I", room))
    async with serving() as (port, _), connected(port, is_open=False) as client:
        client.write(client_opens + AGREED + CALL + frame(DATA, END_STREAM, 1, large))
        client.write(frame(GOAWAY, 0, 0, bytes(8)))
        assert b"x" * 1000 in await client.raw_end()


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", Code.PROTOCOL_ERROR),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32), Code.PROTOCOL_ERROR),
        (PREFACE + frame(PING, payload=bytes(8)), Code.PROTOCOL_ERROR),
        (OPEN + frame(DATA, 0, 1, b"idle"), Code.PROTOCOL_ERROR),
        (OPEN + frame(DATA, 0, 0, b"no stream"), Code.PROTOCOL_ERROR),
        (OPEN + frame(HEADERS, END_HEADERS, 2, HEAD), Code.PROTOCOL_ERROR),
        (OPEN + frame(HEADERS, END_HEADERS, 1, b"\xff" * 20), Code.COMPRESSION_ERROR),
        (OPEN + frame(HEADERS, 0, 1, HEAD) + frame(PING, payload=bytes(8)), Code.PROTOCOL_ERROR),
        (OPEN + frame(CONTINUATION, END_HEADERS, 1, HEAD), Code.PROTOCOL_ERROR),
        (OPEN + frame(PING, payload=bytes(7)), Code.FRAME_SIZE_ERROR),
        (OPEN + frame(SETTINGS, payload=bytes(5)), Code.FRAME_SIZE_ERROR),
        (OPEN + frame(SETTINGS, 1, payload=bytes(6)), Code.FRAME_SIZE_ERROR),
        (OPEN + frame(SETTINGS, 0, 1), Code.PROTOCOL_ERROR),
        (OPEN + struct.pack(">I", 0xFFFFFF00) + bytes(20), Code.FRAME_SIZE_ERROR),
        (
            OPEN + AGREED + CALL + frame(DATA, 0, 1, bytes(Limits().frame_bytes + 1)),
            Code.FRAME_SIZE_ERROR,
        ),
        (OPEN + frame(PUSH, END_HEADERS, 1, bytes(4) + HEAD), Code.PROTOCOL_ERROR),
        (OPEN + frame(RST_STREAM, 0, 5, bytes(4)), Code.PROTOCOL_ERROR),
        (OPEN + frame(WINDOW, 0, 0, bytes(4)), Code.PROTOCOL_ERROR),
        (OPEN + frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") * 2, Code.FLOW_CONTROL_ERROR),
        (
            OPEN + frame(SETTINGS, payload=struct.pack(">HI", 4, 2**31)),
            Code.FLOW_CONTROL_ERROR,
        ),
        (OPEN + frame(SETTINGS, payload=struct.pack(">HI", 5, 1)), Code.PROTOCOL_ERROR),
    ],
)
async def test_invalid_http2_gets_an_error_and_the_connection_closes(data, code):
    async with serving() as (port, _), connected(port, is_open=False) as client:
        client.write(data)
        assert goaway_code(await client.raw_end()) == code
        assert await still_serves(port)


FLOODS = {
    "ping": (frame(PING, payload=bytes(8)) * 5000, Code.ENHANCE_YOUR_CALM),
    "settings": (frame(SETTINGS) * 5000, Code.ENHANCE_YOUR_CALM),
    "empty data": (CALL + frame(DATA, 0, 1) * 5000, Code.ENHANCE_YOUR_CALM),
    # the code that libnghttp2 uses
    "rapid reset": (
        b"".join(
            frame(HEADERS, END_HEADERS, stream, HEAD) + frame(RST_STREAM, 0, stream, bytes(4))
            for stream in range(1, 6001, 2)
        ),
        Code.INTERNAL_ERROR,
    ),
    "continuation": (
        frame(HEADERS, 0, 1, HEAD) + frame(CONTINUATION, 0, 1, b"\0\1a\1b") * 9000,
        Code.ENHANCE_YOUR_CALM,
    ),
    "empty continuation": (
        frame(HEADERS, 0, 1, HEAD) + frame(CONTINUATION, 0, 1) * 9000,
        Code.ENHANCE_YOUR_CALM,
    ),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_a_flood_is_ended(name):
    flood, code = FLOODS[name]
    async with serving(control_frames=1000) as (port, _), connected(port, is_open=False) as client:
        client.write(OPEN + flood)
        assert goaway_code(await client.raw_end()) == code
        assert await still_serves(port)


async def test_data_beyond_the_window_is_a_flow_control_error():
    limits = {"stream_window_bytes": 65_535, "connection_window_bytes": 65_535}
    async with serving(**limits) as (port, _), connected(port, is_open=False) as client:
        path = HEAD.replace(b"/s/Echo", b"/s/Slow")
        call = frame(HEADERS, END_HEADERS, 1, path)
        # beyond the limit, data that the method has not read is not acknowledged
        chunk = frame(DATA, 0, 1, message(b"x" * 16_000))
        client.write(OPEN + call + chunk * 300)
        assert goaway_code(await client.raw_end()) == Code.FLOW_CONTROL_ERROR
        assert await still_serves(port)


async def test_too_large_headers_end_only_their_call():
    async with serving(header_list_bytes=2000) as (port, _), connected(port) as client:
        large = client.call("/s/Echo", message(b"x"), headers={"a": "b" * 3000})
        assert (await client.answer(large)).status[0] == "8"
        ordinary = client.call("/s/Echo", message(b"x"), headers={})
        assert (await client.answer(ordinary)).status == OK


@pytest.mark.parametrize("count", [129, 1000])
async def test_too_many_headers_end_only_their_call(count):
    async with serving() as (port, methods), connected(port) as client:
        running = client.call("/s/Wait", message(b"x"), headers={})
        many = client.call(
            "/s/Echo", message(b"x"), headers={f"a{number}": "" for number in range(count)}
        )
        assert (await client.answer(many)).status[0] == "8"
        methods.release.set()
        assert (await client.answer(running)).status == OK


async def test_an_idle_connection_gets_a_goaway():
    async with (
        serving(idle_seconds=0.2, linger_seconds=0.1) as (port, _),
        connected(port) as client,
    ):
        assert (
            await client.answer(client.call("/s/Echo", message(b"x"), headers={}))
        ).status == OK
        await client.read_until(lambda: client.seen(ngh2.GoAwayReceived))
        assert client.seen(ngh2.GoAwayReceived)[0].error_code == Code.NO_ERROR


async def test_a_connection_with_a_call_is_not_idle():
    async with serving(idle_seconds=0.05) as (port, methods), connected(port) as client:
        running = client.call("/s/Wait", message(b"x"), headers={})
        await asyncio.sleep(0.3)  # several times the limit
        methods.release.set()
        assert (await client.answer(running)).status == OK


async def test_an_idle_connection_is_evicted_for_a_new_one():
    async with (
        serving(connections=3, evict_seconds=0, linger_seconds=0.2) as (port, _),
        connected(port) as first,
        connected(port),
        connected(port),
    ):
        answer = await first.answer(first.call("/s/Echo", message(b"x"), headers={}))
        assert answer.status == OK
        await asyncio.sleep(0.2)  # one tick of the server's clock
        assert await still_serves(port)
        await first.raw_end()


async def test_a_connection_with_a_call_is_not_evicted():
    async with (
        serving(connections=1, evict_seconds=0) as (port, methods),
        connected(port) as first,
    ):
        running = first.call("/s/Wait", message(b"x"), headers={})
        await methods.begun.wait()
        async with connected(port) as second:
            assert await second.raw_end() == b""
        methods.release.set()
        assert (await first.answer(running)).status == OK


@pytest.mark.parametrize("limit", ["blocked_bytes", "blocked_total_bytes"])
async def test_unread_responses_are_limited(limit):
    async with serving(**{limit: 500_000}) as (port, _), connected(port) as client:
        calls = [client.call("/s/Large", message(b"x"), headers={}) for _ in range(10)]
        answers = [client.answers[each] for each in calls]
        await client.read_until(lambda: sum(each.is_closed for each in answers) >= 7)
        refused = [each for each in answers if each.status[0] == "8"]
        assert 7 <= len(refused) <= 9


async def test_a_client_that_opens_no_window_is_disconnected():
    async with serving(write_seconds=0.2) as (port, _), connected(port) as client:
        client.call("/s/Large", message(b"x"), headers={})
        await client.raw_end()
        assert await still_serves(port)


async def test_much_too_large_headers_end_the_connection():
    async with serving(header_list_end_bytes=2000) as (port, _), connected(port) as client:
        client.call("/s/Echo", headers={f"a{number}": "b" * 100 for number in range(20)})
        await client.read_until(lambda: client.seen(ngh2.GoAwayReceived))
        assert client.seen(ngh2.GoAwayReceived)[0].error_code == Code.ENHANCE_YOUR_CALM
        assert await still_serves(port)


async def test_more_calls_than_allowed_are_refused_unprocessed():
    async with serving(streams=3) as (port, methods), connected(port) as client:
        calls = [client.call("/s/Wait", message(b"x"), headers={}) for _ in range(5)]
        refused = [client.answers[stream_id] for stream_id in calls]
        await client.read_until(lambda: sum(answer.is_closed for answer in refused) == 2)
        assert {answer.reset for answer in refused} == {None, Code.REFUSED_STREAM}
        methods.release.set()
        for stream_id in calls[:3]:
            assert (await client.answer(stream_id)).status == OK


async def test_more_connections_than_allowed_are_closed():
    async with serving(connections=1) as (port, _), connected(port) as first:
        await first.read_until(lambda: first.seen(ngh2.SettingsReceived))
        async with connected(port) as second:
            assert await second.raw_end() == b""
        assert (await first.answer(first.call("/s/Echo", message(b"x"), headers={}))).status == OK


@pytest.mark.parametrize("data", [b"", PREFACE[:10], PREFACE])
async def test_a_client_without_settings_is_disconnected(data):
    async with serving(open_seconds=0.05) as (port, _), connected(port, is_open=False) as client:
        client.write(data)
        assert goaway_code(await client.raw_end()) in {Code.SETTINGS_TIMEOUT, Code.PROTOCOL_ERROR}


@pytest.mark.parametrize("path", ["/s/Echo", "/s/Mirror"])
async def test_a_message_that_arrives_too_slowly_is_cancelled(path):
    limits = {"message_grace_seconds": 0.05, "message_bytes_per_second": 10_000}
    async with serving(**limits) as (port, _), connected(port) as client:
        stream_id = client.call(path, message(b"abc")[:6], end_stream=False, headers={})
        assert (await client.answer(stream_id)).status[0] == "4"


async def test_a_stream_may_pause_between_two_messages():
    async with serving(message_grace_seconds=0.05) as (port, _), connected(port) as client:
        stream_id = client.call("/s/Mirror", message(b"a"), end_stream=False, headers={})
        trickle = client.call("/s/Echo", b"\0", end_stream=False, headers={})
        assert (await client.answer(trickle)).status[0] == "4"
        client.session.send_data(stream_id, message(b"b"), end_stream=True)
        client.flush()
        answer = await client.answer(stream_id)
        assert (answer.body, answer.status) == (message(b"a") + message(b"b"), OK)


# Arbitrary bytes.

FRAMES = st.builds(
    frame,
    st.integers(0, 12),
    st.integers(0, 255),
    st.integers(0, 7),
    st.one_of(
        st.binary(max_size=40),
        st.sampled_from([HEAD, bytes(4), bytes(8), message(b"x"), b"\0\0\0\x02"]),
    ),
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(FRAMES, st.just(CALL), st.binary(max_size=20)), max_size=12))
def test_any_sequence_of_frames_affects_only_its_connection(frames):
    async def send():
        async with serving() as (port, _), connected(port, is_open=False) as client:
            client.write(OPEN + b"".join(frames))
            client.end()
            await client.raw_end()
            return await still_serves(port)

    assert asyncio.run(send())


# Shutdown.


async def test_a_stopping_server_finishes_calls_and_accepts_no_new_ones():
    methods = Methods()
    server = Nghttp2Server([methods.service()], "127.0.0.1", 0, limits=BRIEF)
    port = await server.start()
    async with connected(port) as client, connected(port) as idle:
        await idle.read_until(lambda: idle.seen(ngh2.SettingsReceived))
        running = client.call("/s/Wait", message(b"x"), headers={})
        await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
        stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
        await idle.read_until(lambda: False)  # the server disconnects
        await client.read_until(lambda: len(client.seen(ngh2.GoAwayReceived)) == 2)
        notice, last = client.seen(ngh2.GoAwayReceived)
        assert (notice.last_stream_id, last.last_stream_id) == (2**31 - 1, running)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        assert not stopping.done()
        methods.release.set()
        assert (await client.answer(running)).status == OK
        await stopping


async def test_a_call_that_was_sent_before_the_client_knew_is_served():
    methods = Methods()
    server = Nghttp2Server([methods.service()], "127.0.0.1", 0, limits=BRIEF)
    port = await server.start()
    async with connected(port) as client:
        await client.read_until(lambda: client.seen(ngh2.SettingsReceived))
        stopping = asyncio.ensure_future(server.stop(DEADLINE_SECONDS))
        await asyncio.sleep(0)
        answer = await client.answer(client.call("/s/Echo", message(b"x"), headers={}))
        assert answer.status == OK
        await stopping


async def test_calls_that_exceed_the_grace_period_are_unavailable():
    methods = Methods()
    server = Nghttp2Server([methods.service()], "127.0.0.1", 0, limits=BRIEF)
    port = await server.start()
    async with connected(port) as client:
        running = client.call("/s/Wait", message(b"x"), headers={})
        await asyncio.wait_for(methods.begun.wait(), DEADLINE_SECONDS)
        await server.stop(0.05)
        answer = await client.answer(running)
        assert answer.status == ("14", "the server is shutting down")
        await asyncio.wait_for(methods.ended.wait(), DEADLINE_SECONDS)
