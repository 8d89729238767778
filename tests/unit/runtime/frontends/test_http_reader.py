"""Bytes to requests without a socket: framing and boundaries at any cut."""

import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage_runtime.frontends.http.reader import Phase, RequestReader
from moorage_runtime.frontends.http.received import Received
from unit.runtime.http_fixtures import chunked, get, post
from unit.runtime.http_reading import GET, SMALL, read, seen

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
        ("http://[::1]:80/a?b", "/a", "b"),
        ("//h/a?b", "//h/a", "b"),
        ("/http://h/a", "/http://h/a", ""),
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
    assert (reader.phase, reader.awaits_continue) == (Phase.HEAD, False)
    reader.feed(memoryview(data[10:-2]))
    assert (reader.phase, reader.body_received, len(reader.direct)) == (Phase.BODY, 2, 2)
    reader.direct[:] = data[-2:]
    reader.filled(1)
    assert (reader.body_received, len(reader.direct)) == (3, 1)
    reader.filled(1)
    assert (reader.phase, reader.body_received, reader.direct) == (Phase.IDLE, 4, None)
    assert seen(reader) == [("POST", "/p", b"body", True)]


def test_a_body_of_unknown_kind_follows_no_upgrade():
    data = post("/p", b"body", b"Upgrade: h2c", b"Connection: Upgrade")
    for cut in range(1, len(data)):
        assert seen(read(data + get(), sizes=[cut, len(data)])) == [
            ("POST", "/p", b"body", True),
            GET,
        ]


@pytest.mark.parametrize("body", [b"", b"x"])
def test_any_number_of_requests_with_an_upgrade_is_read(body):
    data = post("/p", body, b"Upgrade: h2c", b"Connection: Upgrade")

    assert len(read(data * 5000).received) == 5000


def test_bytes_after_connection_close_are_ignored():
    data = get("/", b"Connection: close")
    assert seen(read(data + b"\0garbage")) == [("GET", "/", b"", False)]


@pytest.mark.parametrize(
    ("version", "options", "keeps"),
    [
        (b"1.0", (), False),
        (b"1.0", (b"keep-alive",), True),
        (b"1.0", (b"Keep-Alive, x",), True),
        (b"1.0", (b"keep-alive, Close",), False),
        (b"1.0", (b"close, keep-alive",), False),
        (b"1.0", (b"close", b"keep-alive"), False),
        (b"1.0", (b"keep-alive", b"close"), False),
        (b"1.1", (), True),
        (b"1.1", (b"keep-alive",), True),
        (b"1.1", (b"Close",), False),
        (b"1.1", (b"keep-alive, close",), False),
        (b"1.1", (b"close", b"keep-alive"), False),
        (b"1.1", (b"closed",), True),
        (b"1.0", (b"x\r\nProxy-Connection: keep-alive",), False),
    ],
)
def test_close_has_precedence_over_keep_alive(version, options, keeps):
    head = b"GET / HTTP/%b\r\nHost: h\r\n" % version
    data = head + b"".join(b"Connection: %b\r\n" % line for line in options) + b"\r\n"
    for sizes in (None, [1] * len(data)):
        assert seen(read(data + get(), sizes=sizes)) == [
            ("GET", "/", b"", keeps),
            *([GET] if keeps else []),
        ]


def test_a_header_for_proxies_keeps_no_connection():
    data = b"GET / HTTP/1.0\r\nProxy-Connection: keep-alive\r\n\r\n"
    assert seen(read(data + get())) == [("GET", "/", b"", False)]


@pytest.mark.parametrize(
    "host",
    [
        "",
        "h",
        "h:80",
        "h:",
        "my_host.default.svc:8080",
        "127.0.0.1",
        "[::1]",
        "[::1]:80",
        "[::ffff:127.0.0.1]",
        "[fe80::1%25eth0]:80",
        "a%20b",
        "a,b;c=d",
        "xn--e1afmkfd.xn--p1ai",
    ],
)
def test_any_valid_host_is_accepted(host):
    (got,) = read(get().replace(b"Host: h", b"Host: " + host.encode())).received
    assert got.request.headers["host"] == host


def test_a_trailer_is_no_header_of_any_request():
    data = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"1\r\na\r\n0\r\nAuthorization: evil\r\nHost: evil\r\n\r\n" + get("/", b"A: b")
    for sizes in (None, [1] * len(data)):
        first, second = read(data, sizes=sizes).received
        assert first.request.headers == {"host": "h", "transfer-encoding": "chunked"}
        assert second.request.headers == {"host": "h", "a": "b"}


def test_the_memory_of_a_body_is_free_when_its_request_is_over():
    data = post("/p", b"body")
    reader = read(data, sizes=[len(data) - 2, 2])
    memory = weakref.ref(reader.received.popleft().request.body.obj)
    assert memory() is None


def test_names_of_headers_are_in_lower_case():
    assert read(get("/", b"X-One: Two")).received[0].request.headers["x-one"] == "Two"


@pytest.mark.parametrize("name", ["accept", "accept-encoding", "connection", "content-encoding"])
def test_lines_of_a_list_are_joined(name):
    lines = [f"{name.title()}: a, b", "Other: c", f"{name}: d"]
    (got,) = read(get("/", *[line.encode() for line in lines])).received
    assert got.request.headers[name] == "a, b, d"


@pytest.mark.parametrize("byte", [*range(0x21, 0x7F), *range(0x80, 0x100)])
def test_only_spaces_and_tabs_around_a_header_value_are_removed(byte):
    value = bytes([byte])
    (got,) = read(get("/", b"X-One: \t%b a\t%b\t " % (value, value))).received
    assert got.request.headers["x-one"] == f"{chr(byte)} a\t{chr(byte)}"


def test_a_binary_tensor_after_the_json_is_aligned():
    body = b"j" * 13 + bytes(16)
    data = post("/", body, b"Inference-Header-Content-Length: 13")
    reader = read(data, sizes=[len(data) - len(body), 5, 24])
    memory = reader.received[0].request.body
    address = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
    assert (address + 13) % 64 == 0
    assert bytes(memory) == body


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
