"""The limits of a reader of requests, reached and exceeded, at any cut of the bytes."""

import pytest

from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Received
from unit.runtime.http_fixtures import chunked, get, post
from unit.runtime.http_reading import GET, SMALL, read, seen

CHUNKED = b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


def head_of(size: int, lines: int = 1) -> bytes:
    """A request whose target, names and values have this size."""
    names = [b"%d" % number for number in range(lines)]
    rest = size - len("/?query" + "Host" + "h") - lines
    return get("/?query", b"0: " + b"x" * rest, *(name + b":" for name in names[1:]))


@pytest.mark.parametrize(
    "data",
    [
        get("/" + "a" * 63),
        get("/", *[b"A%d: x" % i for i in range(7)]),
        head_of(512),
        head_of(512, lines=7),
        post("/", b"x" * 64),
        CHUNKED + chunked(b"x" * 60, b"x" * 4),
        CHUNKED + chunked(*[b"x"] * 64),
        CHUNKED + b"40\r\n" + b"x" * 64 + b"\r\n0\r\nA: " + b"x" * 509 + b"\r\n\r\n",
    ],
    ids=["target", "count", "head", "lines", "body", "chunks", "bytes", "trailers"],
)
def test_a_request_may_reach_each_limit(data):
    for sizes in (None, [1] * len(data)):
        (got,) = read(data, sizes=sizes).received
        assert isinstance(got, Received)


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (get("/" + "a" * 64), 414, "the URL is too long: must have 64 bytes or fewer"),
        (
            get("/", *[b"A%d: x" % i for i in range(8)]),
            431,
            "too many header lines: must be 8 or fewer",
        ),
        (head_of(513), 431, "the headers are too large: must have 512 bytes or fewer"),
        (head_of(513, lines=7), 431, "the headers are too large: must have 512 bytes or fewer"),
        (post("/", b"x" * 65), 413, "the body is too large: must have 64 bytes or fewer"),
        (
            CHUNKED + chunked(*[b"x" * 20] * 3, b"x" * 5),
            413,
            "the body is too large: must have 64 bytes or fewer",
        ),
    ],
    ids=["target", "count", "head", "lines", "body", "chunks"],
)
def test_a_request_that_exceeds_a_limit_is_refused(data, status, message):
    for sizes in (None, [1] * len(data)):
        reader = read(data + get(), sizes=sizes)
        (refusal,) = reader.received
        assert (refusal.status, refusal.message) == (status, message)
        assert reader.phase is Phase.DONE


def test_every_request_of_a_connection_may_reach_the_limits():
    data = (head_of(512) + CHUNKED + chunked(*[b"x"] * 64)) * 3
    for sizes in (None, [1] * len(data), [100] * len(data)):
        received = read(data, sizes=sizes).received
        assert [type(each) for each in received] == [Received] * 6


@pytest.mark.parametrize("line", [b"A: ", b"A:", b"A"], ids=["value", "blanks", "name"])
def test_half_a_header_line_cannot_grow_without_end(line):
    endless = line + line[-1:] * 2000

    for size in (1, 30):
        reader = read(get()[:-2] + endless, sizes=[size] * 2000)
        assert seen(reader) == [431]


@pytest.mark.parametrize("endless", [b"1;" + b"x" * 4000, b"0" * 4000, b"0\r\nA: " + b"x" * 4000])
def test_framing_of_chunks_cannot_grow_without_end(endless):
    reader = read(CHUNKED + endless, sizes=[len(CHUNKED), *[50] * 100])
    assert seen(reader) == [400]


def test_an_unfinished_head_may_have_twice_its_limit():
    reader = RequestReader(SMALL)
    reader.feed(memoryview(b"GET / HTTP/1.1\r\nHost: h\r\nA: "))
    reader.feed(memoryview(b"x" * 1024))
    assert (reader.phase, len(reader.received)) == (Phase.HEAD, 0)
    reader.feed(memoryview(b"x"))
    (refusal,) = reader.received
    assert (refusal.status, refusal.path) == (431, "/")
    assert refusal.message == "the headers are too large: must have 512 bytes or fewer"


def test_framing_of_a_chunked_body_may_reach_its_limit():
    reader = RequestReader(SMALL)
    reader.feed(memoryview(CHUNKED))
    reader.feed(memoryview(b"1;" + b"x" * 1022))
    assert (reader.phase, len(reader.received)) == (Phase.BODY, 0)
    reader.feed(memoryview(b"x"))
    (refusal,) = reader.received
    assert (refusal.status, refusal.path) == (400, "/p")
    assert refusal.message == "the chunked body has too many framing bytes: use larger chunks"


def test_every_byte_of_content_allows_eight_of_framing():
    reader = RequestReader(SMALL)
    reader.feed(memoryview(CHUNKED))
    reader.feed(memoryview(b"2\r\nab\r\n1;" + b"x" * (1024 + 2 * 8 - 9)))
    assert (reader.phase, len(reader.received)) == (Phase.BODY, 0)
    reader.feed(memoryview(b"x"))
    assert seen(reader) == [400]


def test_a_request_that_has_come_to_its_end_is_not_refused_for_its_framing():
    end = b"1\r\nx\r\n0\r\nA: " + b"x" * 2000 + b"\r\n\r\n"
    reader = read(CHUNKED + end + get(), sizes=[len(CHUNKED), len(end), 1000])
    assert seen(reader) == [("POST", "/p", b"x", True), GET]


def test_one_byte_chunks_are_not_too_much_framing():
    limits = Limits(body_bytes=100_000)
    body = chunked(*[b"x"] * 20_000)
    (got,) = seen(read(CHUNKED + body, limits, sizes=[1000] * 200))
    assert got[2] == b"x" * 20_000
