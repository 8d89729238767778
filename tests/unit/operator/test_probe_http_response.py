"""HTTP responses from their bytes: the same whole, byte by byte, and never beyond the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.http_response import (
    HEAD_LIMIT_BYTES,
    NotHttp,
    ResponseReader,
    TooLarge,
)

LIMIT = 100

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 99\r\n\r\n"

# Each response, its status and its body.
WHOLE = [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, b""),
    (b"HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", 200, b"x"),
    (b"HTTP/1.0 503 Not \xe9 now\nContent-Length:2\n\nno", 503, b"no"),
    (b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n", 204, b""),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, b"x"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 200, b"x"),
    (
        CHUNKED + b"5;note=1\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n",
        200,
        b"hello!",
    ),
]


def read(*parts: bytes) -> ResponseReader:
    reader = ResponseReader(LIMIT)
    for part in parts:
        reader.feed(part)
    return reader


@pytest.mark.parametrize(("data", "status", "body"), WHOLE)
def test_a_response_is_the_same_whole_byte_by_byte_and_with_more_behind_it(
    data: bytes, status: int, body: bytes
) -> None:
    by_byte = [data[i : i + 1] for i in range(len(data))]
    for reader in (read(data), read(*by_byte), read(data + b"HTTP/1.1 500 Next\r\n\r\n")):
        assert reader.complete
        assert (reader.status, bytes(reader.body)) == (status, body)


@pytest.mark.parametrize(("data", "status", "body"), WHOLE)
def test_a_response_that_is_cut_is_never_complete(data: bytes, status: int, body: bytes) -> None:
    for length in range(len(data)):
        reader = read(data[:length])
        assert not reader.complete
        with pytest.raises(NotHttp):
            reader.close()


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    reader = read(b"HTTP/1.1 200 OK\r\n\r\n", b"some", b" words")

    assert not reader.complete
    reader.close()
    assert reader.complete
    assert bytes(reader.body) == b"some words"


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail ready\r\n",
        b"SSH-2.0-OpenSSH",
        b"\x00\x00\x12\x04",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_LIMIT_BYTES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * HEAD_LIMIT_BYTES,
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(NotHttp):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n" + b"x" * 100 + b"\r\n1\r\n",
    ],
    ids=["said", "sent", "one chunk", "two chunks"],
)
def test_a_body_above_the_limit_is_refused_before_it_is_kept(data: bytes) -> None:
    with pytest.raises(TooLarge):
        read(data)


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_arbitrary_bytes_are_read_or_refused_and_never_kept_beyond_the_limit(
    parts: list[bytes],
) -> None:
    reader = ResponseReader(LIMIT)
    try:
        for part in (b"HTTP/1.1 200 OK\r\n", *parts):
            reader.feed(part)
        reader.close()
    except (NotHttp, TooLarge):
        return
    assert reader.complete
    assert len(reader.body) <= LIMIT
