"""Requests that a reader refuses, and with which status and reason."""

import weakref

import pytest

from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.reader import Phase
from moorage_runtime.frontends.http.received import Refusal
from unit.runtime.http_fixtures import get, post
from unit.runtime.http_reading import read, seen

HOST = b"Host: h\r\n"
POST = b"POST / HTTP/1.1\r\nHost: h\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def assert_refused(data, status, message):
    """The request is refused, whole and in pieces, and nothing after it is read."""
    for sizes in (None, [1] * len(data)):
        reader = read(data + get(), sizes=sizes)
        (refusal,) = reader.received
        assert refusal.status == status
        assert refusal.message.startswith(message)
        assert reader.phase is Phase.DONE


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        b"get / HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / http/1.1\r\n" + HOST + b"\r\n",
        b"GET a/b HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET http:/h/ HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"Bad Name: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b": x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A : x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A: x\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\n A: x\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A: \x00\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A: x\nB: y\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"A: x\rB: y\r\n\r\n",
    ],
)
def test_a_malformed_head_is_refused(data):
    assert_refused(data, 400, "malformed HTTP request: ")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"x",
        b"-1",
        b"+1",
        b"1.0",
        b"0x1",
        b"1 2",
        b"1, 1",
        b"1_0",
        b"\xb2",
        b"9" * 23,
        b"1\r\nContent-Length: 2",
        b"1\r\nContent-Length: 1",
        b"%d" % 2**64,
    ],
)
def test_a_content_length_is_one_number(value):
    data = POST + b"Content-Length: " + value + b"\r\n\r\n1"
    assert_refused(data, 400, "malformed HTTP request: ")


@pytest.mark.parametrize(
    "lines",
    [
        (b"Content-Length: 3", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked", b"Content-Length: 3"),
        (b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
        (b"Transfer-Encoding: chunked, chunked",),
        (b"Transfer-Encoding: chunked,",),
        (b"Transfer-Encoding:",),
        (b"Transfer-Encoding: \x0bchunked",),
        (b"Transfer-Encoding : chunked",),
    ],
)
def test_a_request_has_one_framing(lines):
    data = POST + b"".join(line + b"\r\n" for line in lines) + b"\r\n1\r\na\r\n0\r\n\r\n"
    assert_refused(data, 400, "malformed HTTP request: ")


@pytest.mark.parametrize(
    "value",
    [
        b"gzip, chunked",
        b"identity",
        b"identity\r\nTransfer-Encoding: chunked",
        b"xchunked",
        b"chunked;q=1",
        b'"chunked"',
        b"gzip",
    ],
)
def test_chunked_is_the_only_transfer_coding(value):
    data = POST + b"Transfer-Encoding: " + value + b"\r\n\r\n1\r\na\r\n0\r\n\r\n"
    assert_refused(data, 501, "the Transfer-Encoding is not supported: must be chunked")


@pytest.mark.parametrize(
    "body",
    [
        b"xx\r\n",
        b"-1\r\na\r\n0\r\n\r\n",
        b"0x1\r\na\r\n0\r\n\r\n",
        b"1 \r\na\r\n0\r\n\r\n",
        b"1\na\r\n0\r\n\r\n",
        b"1\r\na\n0\r\n\r\n",
        b"1\r\na0\r\n\r\n",
        b"2\r\nabc\r\n0\r\n\r\n",
        b"\r\n1\r\na\r\n0\r\n\r\n",
        b"1;\nx\r\na\r\n0\r\n\r\n",
        b'1;a="\r\n0\r\n\r\n',
        b"10000000000000001\r\na\r\n0\r\n\r\n",
        b"1\r\na\r\n0\r\nContent-Length: 5\r\n\r\n",
        b"1\r\na\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\na\r\n0\r\n folded\r\n\r\n",
    ],
)
def test_malformed_chunks_are_refused(body):
    assert_refused(CHUNKED + body, 400, "malformed HTTP request: ")


@pytest.mark.parametrize("byte", [*range(10), 11, 12, *range(14, 33), *range(127, 256)])
def test_a_target_has_only_visible_ascii_characters(byte):
    for target in (b"/a%cb?q", b"/?a%cb", b"http://a%cb/", b"http://h/?a%cb"):
        data = get().replace(b" / ", b" %b " % (target % byte))
        assert_refused(data, 400, "malformed HTTP request: ")


@pytest.mark.parametrize(
    ("data", "status", "message"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400, "the header Host is missing"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400, "duplicate header host"),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400, "duplicate header host"),
        (
            b"GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n",
            400,
            "the request target has a fragment (#), which a request must not have",
        ),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505, "HTTP/2.0 is not supported: use HTTP/1.1"),
        (b"GET / HTTP/0.9\r\nHost: h\r\n\r\n", 505, "HTTP/0.9 is not supported: use HTTP/1.1"),
        (
            b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "Transfer-Encoding is not defined for HTTP/1.0",
        ),
        (
            POST + b"Expect: wonders\r\nContent-Length: 1\r\n\r\n1",
            417,
            "Expect: 'wonders' is not supported: must be 100-continue",
        ),
        (
            POST
            + b"Transfer-Encoding: chunked\r\nUpgrade: a\r\nConnection: Upgrade\r\n\r\n"
            + b"0\r\n\r\n",
            501,
            "Upgrade is not supported: send the request without it",
        ),
    ],
)
def test_a_refusal_names_its_reason(data, status, message):
    assert_refused(data, status, message)


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize(
    "host",
    [
        b"a b",
        b"a/b",
        b"user@a",
        b"a?b",
        b"a:80:80",
        b"a:x",
        b"[::1",
        b"::1",
        b"[::1]a",
        b"a\\b",
        b"\xe9",
        b"<a>",
        b"a\t80",
        b"http://a",
        b"[]",
        b"[a]b:80",
    ],
)
def test_an_invalid_host_is_refused(host, version):
    data = b"GET / HTTP/%b\r\nHost: %b\r\n\r\n" % (version, host)
    text = host.decode("latin-1")
    assert_refused(data, 400, f"the header Host {text!r} is invalid: must be a host, or host:port")


@pytest.mark.parametrize(
    "target",
    [
        "ftp://h/",
        "*",
        "http:///a",
        "http://?q",
        "http://",
        "http://:80/",
        "http://user@h/",
        "http://h:x/",
        "http://h:1:2/",
        "xhttp://h/",
    ],
)
def test_an_invalid_target_is_refused(target):
    assert_refused(get(target), 400, f"the request target {target!r} is invalid: must be a path")


@pytest.mark.parametrize("target", ["h:80", "/a", "http://h/a"])
@pytest.mark.parametrize("line", [b"Content-Length: 3", b"Transfer-Encoding: chunked", b"A: b"])
def test_a_tunnel_is_refused(target, line):
    data = get(target, line, method=b"CONNECT")
    assert_refused(data, 501, "the method CONNECT is not supported: this server is not a proxy")


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (get("http://host/a?b", b"Host: again"), "http://host/a"),
        (get("http://host/a?b", b"Expect: wonders"), "/a"),
        (get("/a?b=c", b"Bad Name: x"), "/a"),
        (get("/a?b=c?d", b"Bad Name: x"), "/a"),
        (get("/a?b=c", b"Expect: wonders"), "/a"),
        (get("/first") + get("/a", b"Bad Name: x"), "/a"),
        (get("/first") + b"?", ""),
    ],
)
def test_a_refusal_has_the_path_as_far_as_it_is_known(data, path):
    *_, refusal = read(data).received
    assert refusal.path == path


def test_a_refusal_quotes_the_first_80_characters():
    (refusal,) = read(get("/", b"Expect: " + b"x" * 81)).received
    assert refusal.message == f"Expect: {'x' * 80!r} is not supported: must be 100-continue"
    (refusal,) = read(get().replace(b"Host: h", b"Host: /" + b"h" * 80)).received
    assert refusal.message == (
        f"the header Host {'/' + 'h' * 79!r} is invalid: must be a host, or host:port"
    )
    target = "ftp://" + "h" * 75
    (refusal,) = read(get(target), Limits()).received
    assert refusal.message == f"the request target {target[:80]!r} is invalid: must be a path"


def test_a_late_body_is_refused_and_its_rest_ignored():
    reader = read(post("/p?q", b"body", b"Expect: 100-continue")[:-2])
    reader.refuse(408, "too late", ((b"A", b"b"),))
    assert list(reader.received) == [Refusal(408, "too late", "/p", ((b"A", b"b"),))]
    assert (reader.phase, reader.direct, reader.awaits_continue) == (Phase.DONE, None, False)
    reader.feed(memoryview(b"dy" + get()))
    assert len(reader.received) == 1


def test_the_memory_of_a_refused_body_is_free_at_once():
    reader = read(post("/p", b"body")[:-2])
    memory = weakref.ref(reader.direct.obj)
    reader.refuse(408, "too late")
    assert memory() is None


@pytest.mark.parametrize("name", [b"Inference-Header-Content-Length", b"Content-Type", b"Expect"])
def test_a_duplicate_single_header_is_refused(name):
    assert seen(read(get("/", name + b": 0", name + b": 1"))) == [400]


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
