"""HTTP responses are parsed the same in any chunks, within the limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.transport.http_response import (
    FRAMING_LIMIT_BYTES,
    LINE_LIMIT,
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
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, b""),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\nx", 200, b"x"),
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
def test_a_response_is_parsed_the_same_in_any_chunks(
    data: bytes, status: int, body: bytes
) -> None:
    by_byte = [data[i : i + 1] for i in range(len(data))]
    halves = [read(data[:at], data[at:]) for at in range(len(data))]
    followed = read(data + b"HTTP/1.1 500 Next\r\n\r\n")
    for reader in (read(*by_byte), followed, *halves):
        assert reader.complete
        assert (reader.status, bytes(reader.body)) == (status, body)


@pytest.mark.parametrize(("data", "status", "body"), WHOLE)
def test_a_truncated_response_is_never_complete(data: bytes, status: int, body: bytes) -> None:
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
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * FRAMING_LIMIT_BYTES,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * FRAMING_LIMIT_BYTES,
    ],
)
def test_other_protocols_are_rejected(data: bytes) -> None:
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
def test_a_body_above_the_limit_is_rejected_before_it_is_stored(data: bytes) -> None:
    with pytest.raises(TooLarge):
        read(data)


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_arbitrary_bytes_are_parsed_or_rejected_within_the_limit(
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


OK = b"HTTP/1.1 200 OK\r\n"
IN_CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"


class Counting(bytearray):
    """Bytes that count how many of them are searched."""

    searched = 0

    def find(self, sub: bytes, start: int = 0) -> int:  # type: ignore[override]
        found = super().find(sub, start)
        self.searched += (len(self) if found < 0 else found) - start
        return found


def accepted(reader: ResponseReader, unit: bytes) -> int:
    """The number of repeated bytes that are accepted before they are rejected."""
    for number in range(1 << 20):
        try:
            reader.feed(unit)
        except NotHttp:
            return number * len(unit)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    "unit",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n",
        OK + b"X: " + b"x" * 100 + b"\r\n",
    ],
    ids=["continue", "early hints", "headers"],
)
def test_an_endless_head_is_rejected(unit: bytes) -> None:
    first, rest = (unit, unit) if b" 1" in unit else (OK, unit.removeprefix(OK))
    assert accepted(read(first), rest) <= FRAMING_LIMIT_BYTES


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        (IN_CHUNKS + b"0\r\n", b"Trailer: x\r\n"),
        (IN_CHUNKS, b"1\r\nx\r\n"),
        (IN_CHUNKS, b"1;" + b"x" * 1000 + b"\r\nx\r\n"),
        (IN_CHUNKS, b"0" * 10 + b"1\r\nx\r\n"),
    ],
    ids=["trailers", "chunks of one byte", "extensions", "leading zeros"],
)
def test_everything_except_the_body_has_a_total_limit(head: bytes, unit: bytes) -> None:
    reader = ResponseReader(1 << 30)
    reader.feed(head)

    assert accepted(reader, unit) <= 2 * FRAMING_LIMIT_BYTES


def test_each_byte_is_searched_once_for_a_line_end() -> None:
    reader = ResponseReader(LIMIT)
    reader._rest = Counting()
    long = b"HTTP/1.1 200 OK\r\nX: " + b"x" * 10_000

    for at in range(len(long)):
        reader.feed(long[at : at + 1])

    assert reader._rest.searched <= 2 * len(long)


def test_a_new_reader_has_no_status_and_no_headers() -> None:
    reader = ResponseReader(LIMIT)

    assert (reader.status, reader.headers, reader.complete) == (0, [], False)


def test_a_reader_is_empty_until_the_first_byte() -> None:
    assert read().is_empty
    for data in (b"H", OK, b"HTTP/1.1 100 Continue\r\n\r\n", WHOLE[0][0]):
        assert not read(data).is_empty


def test_a_response_without_its_body_is_not_complete() -> None:
    assert read(OK + b"Content-Length: 1\r\n\r\n").complete is False


def test_a_header_is_split_at_its_first_colon_and_stripped() -> None:
    reader = read(OK + b"Location: \t X://host:80/\v \t\r\nX-Powered-By: LYNX\r\n\r\n")

    assert reader.headers == [(b"Location", b"X://host:80/\v"), (b"X-Powered-By", b"LYNX")]


def test_a_coding_that_is_not_chunked_ends_with_the_connection() -> None:
    reader = read(OK + b"Transfer-Encoding: gzip\r\n\r\n", b"5\r\nhello\r\n")

    reader.close()

    assert bytes(reader.body) == b"5\r\nhello\r\n"


def test_a_length_of_fifteen_digits_is_a_number() -> None:
    with pytest.raises(TooLarge):
        read(OK + b"Content-Length: " + b"9" * 15 + b"\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"Content-Length: " + b"9" * 16 + b"\r\n\r\n", "illegal Content-Length"),
        (b"?" * 90 + b"\r\n", f"illegal header line: {b'?' * 80!r}"),
        (
            b"Transfer-Encoding: chunked\r\n\r\n" + b"x" * 50 + b"\r\n",
            f"illegal chunk size: {b'x' * 40!r}",
        ),
        (
            b"Transfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n",
            "a chunk is longer than its declared size",
        ),
    ],
)
def test_a_rejected_response_is_explained(data: bytes, message: str) -> None:
    with pytest.raises(NotHttp) as caught:
        read(OK + data)

    assert str(caught.value) == message


@pytest.mark.parametrize("end", [b"", b"\r\n"], ids=["part of a line", "line"])
def test_another_protocol_is_quoted(end: bytes) -> None:
    with pytest.raises(NotHttp) as caught:
        read(b"220 mail" + b"?" * 90 + end)

    assert str(caught.value) == f"illegal status line: {b'220 mail' + b'?' * 72!r}"


def test_an_early_end_of_the_connection_is_reported() -> None:
    with pytest.raises(NotHttp) as caught:
        read(OK).close()

    assert str(caught.value) == "the connection ended within the response"


def test_small_chunks_are_limited_in_number() -> None:
    reader = ResponseReader(LIMIT * 10)
    reader.feed(IN_CHUNKS)

    # The first 256 are free, and a body of 256 bytes may have one more.
    reader.feed(b"1\r\nx\r\n" * 257)
    with pytest.raises(NotHttp) as caught:
        reader.feed(b"1\r\nx\r\n")

    assert str(caught.value) == "more than 256 chunks of less than 256 bytes"


@pytest.mark.parametrize("more", [0, 1])
def test_a_head_may_be_as_large_as_the_limit(more: int) -> None:
    start, end = OK + b"X: ", b"\r\n\r\n"
    head = start + b"x" * (FRAMING_LIMIT_BYTES + more - len(start) - len(end)) + end

    if more:
        with pytest.raises(NotHttp, match="more than 65536 bytes of headers"):
            read(head)
    else:
        assert read(head).status == 200


@pytest.mark.parametrize("more", [0, 1])
def test_an_unfinished_head_may_be_as_large_as_the_limit(more: int) -> None:
    start = OK + b"X: "
    head = start + b"x" * (FRAMING_LIMIT_BYTES + more - len(start))

    if more:
        with pytest.raises(NotHttp, match="more than 65536 bytes of headers"):
            read(head)
    else:
        assert read(head).status == 200


@pytest.mark.parametrize("more", [0, 1])
def test_a_head_may_have_as_many_lines_as_the_limit(more: int) -> None:
    # The status line and the empty line count too.
    head = OK + b"X: x\r\n" * (LINE_LIMIT + more - 2) + b"\r\n"

    if more:
        with pytest.raises(NotHttp) as caught:
            read(head)
        assert str(caught.value) == "more than 256 lines of headers and trailers"
    else:
        assert len(read(head).headers) == LINE_LIMIT - 2


def test_a_body_in_normal_chunks_is_within_the_limits() -> None:
    reader = ResponseReader(1 << 20)
    reader.feed(IN_CHUNKS)
    for _ in range(2048):
        reader.feed(b"200\r\n" + b"x" * 512 + b"\r\n")
    reader.feed(b"0\r\n\r\n")

    assert reader.complete
    assert len(reader.body) == 1 << 20
