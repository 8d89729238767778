"""A repeated head is not parsed again, and nobody can tell but by the clock."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.frontends.http.heads import RecentHead
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Head, Received, Refusal
from unit.runtime.http_fixtures import get, post

LIMITS = Limits(body_bytes=64, head_bytes=512, target_bytes=64, header_count=8)
HEAD = Head(
    "GET",
    "/",
    "",
    {"host": "h"},
    0,
    keep_alive=True,
    is_http10=False,
    is_coded=False,
    is_plain=True,
)
PLAIN = [post("/p?q", b"body"), post("/p", b""), get("/a"), get(method=b"HEAD")]
# What an earlier read has left in the memory behind this one.
LEFT_OVER = b"X: y\r\n\r\nGET / HTTP/1.1\r\n"
OTHER = [
    post("/p", b"body", b"Expect: 100-continue"),
    post("/p", b"body", b"Connection: close"),
    post("/p", b"body", b"Upgrade: h2c", b"Connection: Upgrade"),
    b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
]


def feed(reader, data, pieces=()):
    rest, sizes = memoryview(data), iter(pieces)
    while rest:
        count = min(next(sizes, len(rest)), len(rest))
        if reader.direct is not None:
            count = min(count, len(reader.direct))
            reader.direct[:count] = rest[:count]
            reader.filled(count)
        else:
            scratch = bytearray(rest[:count]) + LEFT_OVER
            whole = reader.read_whole(scratch, count)
            if whole is None:
                reader.feed(memoryview(scratch)[:count])
            else:
                reader.received.append(whole)
            scratch[:] = b"?" * len(scratch)
        rest = rest[count:]


def seen(reader):
    found = [
        (r.head, bytes(r.request.body), r.request.method) if isinstance(r, Received) else r
        for r in reader.received
    ]
    return found, reader.phase, reader.awaits_continue, reader.body_received


def alone(data, pieces=()):
    reader = RequestReader(LIMITS)
    feed(reader, data, pieces)
    return seen(reader)


@pytest.mark.parametrize("request_bytes", PLAIN + OTHER)
def test_a_repeated_request_reads_as_the_first_up_to_any_byte(request_bytes):
    for cut in range(1, len(request_bytes) + 1):
        reader = RequestReader(LIMITS)
        feed(reader, request_bytes)
        if reader.phase is Phase.DONE:
            return
        reader.received.clear()

        feed(reader, request_bytes[:cut])

        assert seen(reader) == alone(request_bytes[:cut])


@given(st.sampled_from(PLAIN + OTHER), st.data())
@settings(max_examples=200)
def test_whatever_follows_a_head_reads_as_if_nothing_came_before(second, data):
    changed = bytearray(second)
    position = data.draw(st.integers(0, len(second) - 1))
    changed[position] = data.draw(st.sampled_from(b"\n\r :aG0") | st.integers(0, 255))
    pieces = data.draw(st.lists(st.integers(1, 80), max_size=4))
    reader = RequestReader(LIMITS)
    feed(reader, second)
    reader.received.clear()
    if reader.phase is Phase.DONE:
        return

    feed(reader, bytes(changed), pieces)

    assert seen(reader) == alone(bytes(changed), pieces)


def test_requests_with_one_head_may_have_different_bodies():
    reader = RequestReader(LIMITS)
    feed(reader, post("/p", b"one") + post("/p", b"two") + post("/p", b"six"))

    assert [bytes(r.request.body) for r in reader.received] == [b"one", b"two", b"six"]


def test_a_known_head_is_not_parsed_again():
    reader = RequestReader(LIMITS)
    for body in (b"one", b"two", b"six"):
        feed(reader, post("/p", body))

    _, second, third = reader.received
    assert second.head is third.head


def test_a_whole_request_with_a_known_head_is_read_at_once():
    reader = RequestReader(LIMITS)
    feed(reader, post("/p", b"one"))
    data = bytearray(post("/p", b"two") + b"left over")
    size = len(data) - len(b"left over")

    assert reader.read_whole(data, size) is None  # the one before waits to be taken
    first = reader.received.popleft()
    second = reader.read_whole(data, size)
    data[:] = b"?" * len(data)

    assert second.head == first.head
    assert second.request.body == b"two"
    assert not reader.received
    assert reader.phase is Phase.IDLE


@pytest.mark.parametrize("change", [-1, 1])
def test_no_more_and_no_less_than_a_whole_request_is_read_at_once(change):
    reader = RequestReader(LIMITS)
    data = bytearray(post("/p", b"two"))
    feed(reader, data)
    reader.received.clear()

    assert reader.read_whole(data + b"GET", len(data) + change) is None
    assert reader.read_whole(data, len(data)) is not None


def test_admission_is_asked_about_every_request():
    answers, refused = iter([None]), Refusal(401, "no longer", "/p")
    reader = RequestReader(LIMITS, lambda _method, _path, _headers: next(answers, refused))
    feed(reader, post("/p", b"one"))
    feed(reader, post("/p", b"two"))

    received, refusal = reader.received
    assert bytes(received.request.body) == b"one"
    assert refusal.status == 401


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\nHost: h\n\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
        b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: h\r\n",
        b"GET / HTTP/1.1\r\nHost: " + b"h" * 4096 + b"\r\n\r\n",
    ],
)
def test_a_head_whose_end_is_in_doubt_is_not_kept(data):
    recent = RecentHead()
    recent.keep(memoryview(data), HEAD, 1)

    assert recent.find(memoryview(data)) is None


def test_a_head_is_known_by_all_of_its_bytes():
    recent = RecentHead()
    data = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    recent.keep(memoryview(data + b"more"), HEAD, 1)

    assert recent.size == len(data)
    assert recent.find(memoryview(data + b"else")) is HEAD
    assert recent.find(memoryview(data[:-1])) is None
    assert recent.find(memoryview(data.replace(b"h\r", b"i\r"))) is None
