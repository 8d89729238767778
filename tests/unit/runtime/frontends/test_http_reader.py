"""Bytes to requests without a socket: framing, boundaries, limits, refusals."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Received, Refusal
from unit.runtime.http_fixtures import chunked, get, post

SMALL = Limits(body_bytes=64, head_bytes=512, target_bytes=64, header_count=8)


def read(data, limits=SMALL, sizes=None, admission=None):
    """Everything received from the bytes, which are passed whole or in pieces of these sizes."""
    reader = RequestReader(limits, admission)
    rest = memoryview(data)
    pieces = iter(sizes or [len(data)])
    while rest:
        count = min(next(pieces, 1), len(rest))
        if reader.direct is not None:
            count = min(count, len(reader.direct))
            reader.direct[:count] = rest[:count]
            reader.filled(count)
        else:
            # the buffer is reused at once, as in the listener
            scratch = bytearray(rest[:count])
            reader.feed(memoryview(scratch))
            scratch[:] = b"?" * count
        rest = rest[count:]
    return reader


def seen(reader):
    return [
        (r.request.method, r.request.path, bytes(r.request.body), r.keep_alive)
        if isinstance(r, Received)
        else r.status
        for r in reader.received
    ]


GET = ("GET", "/", b"", True)
# Each case is read whole, byte by byte, and followed by another request.
REQUESTS = [
    (get("/a?b=c"), [("GET", "/a", b"", True)]),
    (get(method=b"HEAD"), [GET]),
    (post("/p", b"body"), [("POST", "/p", b"body", True)]),
    (post("/p", b""), [("POST", "/p", b"", True)]),
    (
        b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunked(b"ab", b"c"),
        [("POST", "/p", b"abc", True)],
    ),
    (
        (
            b"POST /p HTTP/1.1\r\nHost: h\r\ntransfer-encoding: Chunked\r\n\r\n"
            b"2;name=value\r\nab\r\n0\r\nTrailer: dropped\r\n\r\n"
        ),
        [("POST", "/p", b"ab", True)],
    ),
    (
        post("/p", b"body", b"Upgrade: h2c", b"Connection: Upgrade"),
        [("POST", "/p", b"body", True)],
    ),
    (get("/", b"Upgrade: websocket", b"Connection: Upgrade"), [GET]),
    (get("http://host:80/abs?q"), [("GET", "/abs", b"", True)]),
    (get("http://host?q"), [GET]),
    (get("*").replace(b"GET *", b"OPTIONS /"), [("OPTIONS", "/", b"", True)]),
]


@pytest.mark.parametrize(("data", "wanted"), REQUESTS)
def test_a_request_is_read_whole_in_pieces_and_before_another(data, wanted):
    assert seen(read(data)) == wanted
    assert seen(read(data, sizes=[1] * len(data))) == wanted
    assert seen(read(data + get())) == [*wanted, GET]


@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=4), st.data())
@settings(max_examples=60)
def test_any_cut_of_any_pipeline_reads_the_same(cases, data):
    stream = b"".join(case[0] for case in cases)
    sizes = data.draw(st.lists(st.integers(1, 80), max_size=20))
    assert seen(read(stream, sizes=sizes)) == [request for case in cases for request in case[1]]


@pytest.mark.parametrize("size", [1, 20, 64])
def test_a_body_of_any_size_is_read_at_any_cut(size):
    data = post("/p", bytes(range(size)))
    for cut in range(1, len(data)):
        (got,) = seen(read(data, sizes=[cut, len(data)]))
        assert got[2] == bytes(range(size))


HOST = b"Host: h\r\n"
MALFORMED = "malformed HTTP request: "


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"nonsense\r\n\r\n", 400, MALFORMED),
        (b"\x16\x03\x01\x02\x00", 400, MALFORMED),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "the header Host is missing"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "duplicate header host"),
        (
            b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
            400,
            "the request target has a fragment (#), which a request must not have",
        ),
        (
            b"GET ftp://h/ HTTP/1.1\r\nHost: h\r\n\r\n",
            400,
            "the request target 'ftp://h/' is invalid: must be a path",
        ),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, "HTTP/2.0 is not supported: use HTTP/1.1"),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Bad Name: x\r\n\r\n", 400, MALFORMED),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A : x\r\n\r\n", 400, MALFORMED),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: x\r\n folded\r\n\r\n", 400, MALFORMED),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n", 400, MALFORMED),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: x\r\n\r\n", 400, MALFORMED),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n", 400, MALFORMED),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\n", 400, MALFORMED),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
            400,
            MALFORMED,
        ),
        (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            MALFORMED,
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
            501,
            "the Transfer-Encoding is not supported: must be chunked",
        ),
        (
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "Transfer-Encoding is not defined for HTTP/1.0",
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nxx\r\n",
            400,
            MALFORMED,
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
            400,
            MALFORMED,
        ),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Expect: wonders\r\nContent-Length: 1\r\n\r\n",
            417,
            "Expect: 'wonders' is not supported: must be 100-continue",
        ),
        (post("/", b"x" * 65), 413, "the body is too large: must have 64 bytes or fewer"),
        (
            b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n",
            400,
            MALFORMED,
        ),
        (
            b"POST / HTTP/1.1\r\n"
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n"
            + chunked(*[b"x" * 20] * 4),
            413,
            "the body is too large: must have 64 bytes or fewer",
        ),
        (get("/" + "a" * 64), 414, "the URL is too long: must have 64 bytes or fewer"),
        (
            get("/", *[b"A%d: x" % i for i in range(8)]),
            431,
            "too many header lines: must be 8 or fewer",
        ),
        (
            get("/", b"A: " + b"x" * 512),
            431,
            "the headers are too large: must have 512 bytes or fewer",
        ),
        (
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
            + HOST
            + b"Upgrade: a\r\nConnection: Upgrade\r\n\r\n",
            501,
            "Upgrade is not supported: send the request without it",
        ),
    ],
)
def test_malformed_or_too_large_requests_are_refused_and_end_the_connection(data, status, message):
    for sizes in (None, [1] * len(data)):
        reader = read(data + get(), sizes=sizes)
        (refusal,) = reader.received
        assert refusal.status == status
        # the rest of the message is the parser's
        found = MALFORMED if refusal.message.startswith(MALFORMED) else refusal.message
        assert found == message
        assert reader.phase is Phase.DONE


@pytest.mark.parametrize(
    "data",
    [
        get("/" + "a" * 63),
        get("/", *[b"A%d: x" % i for i in range(7)]),
        post("/", b"x" * 64),
        b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunked(b"x" * 60, b"x" * 4),
    ],
    ids=["target", "headers", "body", "chunks"],
)
def test_a_request_may_reach_each_limit(data):
    for sizes in (None, [1] * len(data)):
        (got,) = read(data, sizes=sizes).received
        assert isinstance(got, Received)


def test_the_limit_of_the_headers_counts_target_names_and_values():
    size = 512 - len("/HosthA")
    assert seen(read(get("/", b"A: " + b"x" * size))) == [GET]
    assert seen(read(get("/", b"A: " + b"x" * (size + 1)))) == [431]


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (get("http://host/a?b", b"Host: again"), "http://host/a"),
        (get("/a?b=c", b"Bad Name: x"), "/a"),
        (get("/a?b=c?d", b"Bad Name: x"), "/a"),
        (get("/a?b=c", b"Expect: wonders"), "/a"),
    ],
)
def test_a_refusal_has_the_path_as_far_as_it_is_known(data, path):
    (refusal,) = read(data).received
    assert refusal.path == path


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/a?b=c?d", "/a", "b=c?d"),
        ("/", "/", ""),
        ("http://h", "/", ""),
        ("HTTPS://h:1/a/b?c", "/a/b", "c"),
        ("http://h?c/d", "/", "c/d"),
        ("http://h?c", "/", "c"),
        ("http://h?c?d", "/", "c?d"),
        ("http://h/a?b=http://c/d", "/a", "b=http://c/d"),
    ],
)
def test_a_target_is_a_path_and_a_query(target, path, query):
    (got,) = read(get(target)).received
    assert (got.request.path, got.request.query) == (path, query)


def test_what_a_response_depends_on_is_known():
    (got,) = read(get(method=b"HEAD")).received
    assert (got.is_head, got.is_http10, got.is_coded, got.is_plain) == (True, False, False, False)
    (got,) = read(post("/", b"x", b"Content-Encoding: gzip")).received
    assert (got.is_head, got.is_http10, got.is_coded, got.is_plain) == (False, False, True, True)
    (got,) = read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").received
    assert (got.is_head, got.is_http10, got.is_coded, got.is_plain) == (False, True, False, False)
    (got,) = read(get("/", b"Connection: close", b"Content-Encoding: identity")).received
    assert (got.keep_alive, got.is_coded, got.is_plain) == (False, False, False)


CONTINUE = b"Expect: 100-Continue\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("head", "awaits"),
    [
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n" + CONTINUE, True),
        (b"POST / HTTP/1.1\r\nHost: h\r\n" + CHUNKED + CONTINUE, True),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n" + CONTINUE, False),
        (b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n", False),
        (b"POST / HTTP/1.0\r\nContent-Length: 1\r\n" + CONTINUE, False),
    ],
)
def test_a_client_may_wait_before_it_sends_a_body(head, awaits):
    reader = read(head + b"\r\n")
    assert reader.awaits_continue is awaits
    reader.feed(memoryview(b"1\r\nx\r\n0\r\n\r\n" if CHUNKED in head else b""))
    if reader.direct is not None:
        reader.direct[:1] = b"x"
        reader.filled(1)
    (got,) = reader.received
    assert bytes(got.request.body) == (b"" if b"Length: 0" in head else b"x")
    assert reader.awaits_continue is False


def test_the_phases_of_a_request():
    reader = RequestReader(SMALL)
    data = post("/p", b"body")
    assert reader.phase is Phase.IDLE
    reader.feed(memoryview(data[:10]))
    assert reader.phase is Phase.HEAD
    reader.feed(memoryview(data[10:-2]))
    assert (reader.phase, reader.body_received, len(reader.direct)) == (Phase.BODY, 2, 2)
    reader.direct[:] = data[-2:]
    reader.filled(1)
    assert (reader.body_received, len(reader.direct)) == (3, 1)
    reader.filled(1)
    assert (reader.phase, reader.body_received, reader.direct) == (Phase.IDLE, 4, None)
    assert seen(reader) == [("POST", "/p", b"body", True)]


def test_a_late_body_is_refused_and_its_rest_ignored():
    reader = read(post("/p?q", b"body", b"Expect: 100-continue")[:-2])
    reader.refuse(408, "too late", ((b"A", b"b"),))
    assert list(reader.received) == [Refusal(408, "too late", "/p", ((b"A", b"b"),))]
    assert (reader.phase, reader.direct, reader.awaits_continue) == (Phase.DONE, None, False)
    reader.feed(memoryview(b"dy" + get()))
    assert len(reader.received) == 1


def test_a_body_of_unknown_kind_follows_no_upgrade():
    data = post("/p", b"body", b"Upgrade: h2c", b"Connection: Upgrade")
    for cut in range(1, len(data)):
        assert seen(read(data + get(), sizes=[cut, len(data)])) == [
            ("POST", "/p", b"body", True),
            GET,
        ]


def test_half_a_header_line_cannot_grow_without_end():
    reader = read(b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"x" * 2000, sizes=[30] * 100)
    assert seen(reader) == [431]


def test_chunk_extensions_cannot_grow_without_end():
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    reader = read(head + b"1;" + b"x" * 4000, sizes=[len(head), *[50] * 100])
    assert seen(reader) == [400]


def test_an_unfinished_head_may_reach_its_limit():
    reader = RequestReader(SMALL)
    reader.feed(memoryview(b"GET / HTTP/1.1\r\nHost: h\r\nA: "))
    reader.feed(memoryview(b"x" * 512))
    assert (reader.phase, len(reader.received)) == (Phase.HEAD, 0)
    reader.feed(memoryview(b"x"))
    (refusal,) = reader.received
    assert (refusal.status, refusal.path) == (431, "/")
    assert refusal.message == "the headers are too large: must have 512 bytes or fewer"


def test_framing_of_a_chunked_body_may_reach_its_limit():
    reader = RequestReader(SMALL)
    reader.feed(memoryview(b"POST /p HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"))
    reader.feed(memoryview(b"1;" + b"x" * 1022))
    assert (reader.phase, len(reader.received)) == (Phase.BODY, 0)
    reader.feed(memoryview(b"x"))
    (refusal,) = reader.received
    assert (refusal.status, refusal.path) == (400, "/p")
    assert refusal.message == "the chunked body has too many framing bytes: use larger chunks"


def test_a_refusal_quotes_the_first_80_characters():
    (refusal,) = read(get("/", b"Expect: " + b"x" * 81)).received
    assert refusal.message == f"Expect: {'x' * 80!r} is not supported: must be 100-continue"
    target = "ftp://" + "h" * 75
    (refusal,) = read(get(target), Limits()).received
    assert refusal.message == f"the request target {target[:80]!r} is invalid: must be a path"


def test_one_byte_chunks_are_not_too_much_framing():
    head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    limits = Limits(body_bytes=100_000)
    body = chunked(*[b"x"] * 20_000)
    (got,) = seen(read(head + body, limits, sizes=[1000] * 200))
    assert got[2] == b"x" * 20_000


@pytest.mark.parametrize("body", [b"", b"x"])
def test_any_number_of_requests_with_an_upgrade_is_read(body):
    data = post("/p", body, b"Upgrade: h2c", b"Connection: Upgrade")

    assert len(read(data * 5000).received) == 5000


def test_bytes_after_connection_close_are_ignored():
    data = get("/", b"Connection: close")
    assert seen(read(data + b"\0garbage")) == [("GET", "/", b"", False)]


def test_http10_closes_without_keep_alive():
    assert seen(read(b"GET / HTTP/1.0\r\n\r\n"))[0][3] is False
    assert seen(read(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))[0][3] is True


@pytest.mark.parametrize("name", [b"Inference-Header-Content-Length", b"Content-Type", b"Expect"])
def test_a_duplicate_single_header_is_refused(name):
    assert seen(read(get("/", name + b": 0", name + b": 1"))) == [400]


def test_headers_are_lower_case_and_lists_are_joined():
    reader = read(get("/", b"X-One:  a\t", b"Accept-Encoding: gzip", b"accept-encoding: deflate"))
    headers = reader.received[0].request.headers
    assert (headers["x-one"], headers["accept-encoding"]) == ("a", "gzip, deflate")


def test_only_spaces_and_tabs_around_a_header_value_are_removed():
    reader = read(get("/", b"X-One: \t\xa0a\xa0 "))
    assert reader.received[0].request.headers["x-one"] == "\xa0a\xa0"


def test_a_binary_tensor_after_the_json_is_aligned():
    body = b"j" * 13 + bytes(16)
    data = post("/", body, b"Inference-Header-Content-Length: 13")
    reader = read(data, sizes=[len(data) - len(body), 5, 24])
    memory = reader.received[0].request.body
    address = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    assert (address + 13) % 64 == 0
    assert bytes(memory) == body


def test_admission_refuses_before_the_body():
    def admission(method, path, headers):
        return Refusal(401, f"{method} {path} {headers['host']}", path)

    reader = read(post("/p", b"body")[:-4], admission=admission)
    (refusal,) = reader.received
    assert (refusal.status, refusal.message, refusal.path) == (401, "POST /p h", "/p")


def test_admission_is_checked_for_every_request():
    answers, refused = iter([None]), Refusal(401, "no longer", "/p")
    data = post("/p", b"one") + post("/p", b"two")

    reader = read(data, admission=lambda _method, _path, _headers: next(answers, refused))

    received, refusal = reader.received
    assert bytes(received.request.body) == b"one"
    assert refusal.status == 401


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_requests_or_one_refusal(data):
    received = list(read(data).received)
    assert all(isinstance(item, Received) for item in received[:-1])


@given(st.sampled_from(REQUESTS), st.data())
def test_a_flipped_byte_never_breaks_the_reader(case, data):
    stream = bytearray(case[0])
    position = data.draw(st.integers(0, len(stream) - 1))
    stream[position] = data.draw(st.integers(0, 255))
    received = list(read(bytes(stream) + get()).received)
    assert all(isinstance(item, Received) for item in received[:-1])
