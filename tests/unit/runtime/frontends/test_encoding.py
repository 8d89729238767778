"""Which content coding a client gets, and when it is applied."""

import gzip
import threading
import zlib

import pytest

from moorage_runtime.frontends.http import encoding, negotiation
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse
from moorage_runtime.values.errors import PayloadTooLarge

DECOMPRESS = {"gzip": gzip.decompress, "deflate": zlib.decompress}


def request(body: bytes = b"", **headers: str) -> HttpRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpRequest("POST", "/", "", named, body)


@pytest.mark.parametrize(
    ("coding", "expected"),
    [
        ("", True),
        ("identity", True),
        (" Identity ", True),
        ("gzip", False),
        ("identity, gzip", False),
    ],
)
def test_whether_a_body_is_not_encoded(coding, expected):
    assert encoding.is_identity(coding) is expected


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("", ""),
        ("gzip", "gzip"),
        ("deflate", "deflate"),
        ("deflate, gzip", "gzip"),
        ("br,deflate", "deflate"),
        ("GZIP ; Q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("gzip; q=0.000, deflate; q=0.001", "deflate"),
        ("gzip;q=0.0,deflate;q=0.", ""),
        ("gzip;q=1;x=0", "gzip"),
        ("gzip;", "gzip"),
        ("*", ""),
        ("xgzip, gzipx, identity", ""),
    ],
)
def test_gzip_is_preferred_among_the_codings_that_a_client_accepts(accepted, expected):
    assert encoding.choose(accepted) == expected


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_compressed_body_is_that_of_all_parts(coding):
    parts = [b"one " * 100, memoryview(b"two " * 100), b""]

    body = encoding.compress(parts, coding)

    assert DECOMPRESS[coding](body) == b"one " * 100 + b"two " * 100
    assert len(body) < 100


def test_the_fastest_level_of_compression_is_used():
    body = encoding.compress([b"one " * 100], "gzip")

    # RFC 1952, 2.3.1: the flag of the fastest algorithm
    assert body[8] == 4


@pytest.mark.parametrize(
    ("status", "body", "from_bytes", "accepted", "expected"),
    [
        (200, b"x" * 100, 100, "gzip", "gzip"),
        (200, (b"x" * 50, memoryview(b"x" * 50)), 100, "deflate", "deflate"),
        (200, b"x" * 99, 100, "gzip", ""),
        (200, (b"x" * 50, b"x" * 49), 100, "gzip", ""),
        (200, b"", 0, "gzip", "gzip"),
        (200, b"x" * 100, 100, "br", ""),
        (200, b"x" * 100, None, "gzip", ""),
        (201, b"x" * 100, 100, "gzip", ""),
        (404, b"x" * 100, 100, "gzip", ""),
    ],
)
def test_large_successful_responses_are_compressed(status, body, from_bytes, accepted, expected):
    answer = HttpResponse(status, body)

    assert negotiation.choose(answer, request(accept_encoding=accepted), from_bytes) == expected


def test_a_client_that_accepts_no_coding_gets_none():
    assert negotiation.choose(HttpResponse(200, b"x" * 100), request(), 100) == ""


@pytest.mark.parametrize(
    ("body", "is_in_thread"),
    [
        (b"x" * 65_536, False),
        (b"x" * 65_537, True),
        ((b"x" * 65_536, memoryview(b"x")), True),
        ((b"x", memoryview(b"y")), False),
    ],
)
async def test_a_compressed_response_is_marked_and_a_large_one_made_in_a_thread(
    monkeypatch, body, is_in_thread
):
    threads = []
    compress = encoding.compress

    def recorded(*arguments):
        threads.append(threading.current_thread())
        return compress(*arguments)

    monkeypatch.setattr(encoding, "compress", recorded)
    answer = HttpResponse(200, body, b"text/plain", ((b"X-Own", b"1"),))

    encoded = await negotiation.encode(answer, "deflate")

    assert zlib.decompress(encoded.body) == b"".join([body] if isinstance(body, bytes) else body)
    assert (encoded.status, encoded.content_type) == (200, b"text/plain")
    assert encoded.headers == (
        (b"X-Own", b"1"),
        (b"Content-Encoding", b"deflate"),
        (b"Vary", b"Accept-Encoding"),
    )
    assert [each is not threading.main_thread() for each in threads] == [is_in_thread]


async def test_a_compressed_request_is_decompressed_within_the_limit():
    asked = request(gzip.compress(b"x" * 100), content_encoding="gzip")
    await negotiation.decode(asked, 100)
    assert asked.body == b"x" * 100

    with pytest.raises(PayloadTooLarge):
        await negotiation.decode(request(gzip.compress(b"x" * 101), content_encoding="gzip"), 100)
