"""The bytes of a response."""

import pytest

from moorage_runtime.frontends.http import serialization
from moorage_runtime.frontends.http.message import HttpResponse

DATE = b"Date: Thu, 26 Nov 2026 12:00:00 GMT\r\n"


@pytest.fixture
def now():
    return serialization.dated("Thu, 26 Nov 2026 12:00:00 GMT")


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 1025])
def test_a_typical_response(now, size):
    body = b"x" * size

    assert serialization.encode_small(HttpResponse(200), body, now) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        + DATE
        + b"Content-Length: %d\r\n\r\n" % size
        + body
    )


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            HttpResponse(404),
            b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 3\r\n",
        ),
        (
            HttpResponse(200, content_type=b"text/plain"),
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n",
        ),
        (
            HttpResponse(200, headers=((b"A", b"1"), (b"B", b"2"))),
            (
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3\r\n"
                b"A: 1\r\nB: 2\r\n"
            ),
        ),
        (
            HttpResponse(299),
            b"HTTP/1.1 299 \r\nContent-Type: application/json\r\nContent-Length: 3\r\n",
        ),
    ],
)
def test_another_small_response(now, answer, expected):
    assert serialization.encode_small(answer, b"abc", now) == expected + DATE + b"\r\nabc"


def test_the_head_of_a_stream_on_a_connection_that_closes(now):
    head = serialization.encode_head(
        HttpResponse(200, content_type=b"text/plain", headers=((b"A", b"1"),)),
        framing=serialization.CHUNKED,
        connection=b"Connection: close\r\n",
        date=now.line,
    )

    assert head == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n"
        b"A: 1\r\nConnection: close\r\n" + DATE + b"\r\n"
    )


@pytest.mark.parametrize(
    ("keep_alive", "is_http10", "expected"),
    [
        (True, False, b""),
        (True, True, b"Connection: keep-alive\r\n"),
        (False, False, b"Connection: close\r\n"),
        (False, True, b"Connection: close\r\n"),
    ],
)
def test_the_connection_line_says_what_the_version_does_not(keep_alive, is_http10, expected):
    line = serialization.connection_line(keep_alive=keep_alive, is_http10=is_http10)

    assert line == expected


def test_a_chunk_has_its_size_in_hexadecimal():
    assert serialization.encode_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"


def test_a_body_is_one_part_or_several():
    assert serialization.body_parts(b"abc") == (b"abc",)
    assert serialization.body_parts([b"a", b"bc"]) == [b"a", b"bc"]
