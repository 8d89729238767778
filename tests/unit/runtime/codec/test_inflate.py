"""Compressed bodies: decompressed in steps, within limits, and only while the client waits."""

import asyncio
import gzip
import io
import random
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.codec.unpack import limits
from moorage_runtime.codec.unpack.inflate import Inflater, inflate
from moorage_runtime.frontends import unpacking
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge, UnsupportedEncoding

LIMIT = 1 << 20
EMPTY = gzip.compress(b"")


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(1, 300))
def test_members_of_any_size_are_joined_in_steps_of_any_size(members, step):
    inflater = Inflater(b"".join(map(gzip.compress, members)), "gzip", LIMIT)
    while not inflater.advance(step):
        pass

    assert inflater.result() == b"".join(members)


def test_a_step_that_ends_with_a_member_leaves_the_next_one():
    first, second = gzip.compress(b"a"), gzip.compress(bytes(LIMIT))
    inflater = Inflater(first + second, "gzip", LIMIT * 2)

    assert not inflater.advance(len(first) + 1)
    assert inflater.result() == b"a"


def test_an_empty_result_needs_no_room():
    assert inflate(EMPTY, "gzip", 0) == b""


@given(st.binary(max_size=200))
def test_deflate_is_the_zlib_format(data):
    assert inflate(zlib.compress(data), "deflate", LIMIT) == data


NOISE = random.Random(0).randbytes(LIMIT + 1)  # needs more than one piece of input


@pytest.mark.parametrize("data", [bytes(LIMIT + 1), NOISE], ids=["zeros", "noise"])
@pytest.mark.parametrize("size", [LIMIT, LIMIT + 1])
def test_the_result_may_be_as_large_as_the_limit(size, data):
    body = gzip.compress(data[:size], 1)

    if size <= LIMIT:
        assert inflate(body, "gzip", LIMIT) == data[:size]
    else:
        with pytest.raises(PayloadTooLarge, match=f"{LIMIT} bytes"):
            inflate(body, "gzip", LIMIT)


def test_what_exceeds_the_limit_takes_no_memory():
    body = gzip.compress(bytes(LIMIT)) + gzip.compress(bytes(16 * LIMIT))
    inflater = Inflater(body, "gzip", LIMIT)

    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            inflater.advance(32 * LIMIT)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    # zlib joins its pieces, so the last one exists twice for a moment
    assert most < 2.5 * LIMIT


def test_a_header_may_be_longer_than_a_piece_of_input():
    written = io.BytesIO()
    with gzip.GzipFile("n" * 100_000, "wb", fileobj=written) as file:
        file.write(b"a")

    assert inflate(written.getvalue(), "gzip", LIMIT) == b"a"


@pytest.mark.parametrize("count", [limits.GZIP_MEMBERS, limits.GZIP_MEMBERS + 1])
def test_the_number_of_members_is_limited(count):
    if count <= limits.GZIP_MEMBERS:
        assert inflate(EMPTY * count, "gzip", LIMIT) == b""
    else:
        with pytest.raises(PayloadTooLarge, match="the gzip body has too many members"):
            inflate(EMPTY * count, "gzip", LIMIT)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_cut_at_any_byte_is_truncated(coding):
    data = bytes(range(256)) * 4
    body = gzip.compress(data) if coding == "gzip" else zlib.compress(data)

    for size in range(len(body)):
        with pytest.raises(InvalidRequest, match="truncated"):
            inflate(body[:size], coding, LIMIT)


@pytest.mark.parametrize(
    ("body", "coding", "message"),
    [
        (b"x" * 20, "gzip", "corrupt"),
        (gzip.compress(b"a") + b"xy", "gzip", "corrupt"),
        (zlib.compress(b"a") + b"x", "deflate", "1 bytes after its end"),
    ],
)
def test_what_is_not_compressed_is_refused(body, coding, message):
    with pytest.raises(InvalidRequest, match=message):
        inflate(body, coding, LIMIT)


def test_other_codings_are_not_supported():
    with pytest.raises(UnsupportedEncoding, match="Content-Encoding 'br' is not supported"):
        inflate(b"", "br", LIMIT)


def test_the_name_of_a_coding_is_quoted_in_80_characters():
    with pytest.raises(UnsupportedEncoding, match=f"Content-Encoding '{'x' * 80}' is"):
        inflate(b"", "x" * 8000, LIMIT)


async def test_small_and_large_results_are_the_same_bytes():
    for size in (100, 10_000_000):
        data = bytes(size)
        assert await unpacking.inflate(gzip.compress(data), "gzip", size) == data


async def test_decompression_ends_when_the_client_leaves(monkeypatch):
    steps, advanced, go = [], asyncio.Event(), asyncio.Event()
    loop, advance = asyncio.get_running_loop(), Inflater.advance

    def count(self, step_bytes):
        steps.append(step_bytes)
        if len(steps) == 3:
            loop.call_soon_threadsafe(advanced.set)
            asyncio.run_coroutine_threadsafe(go.wait(), loop).result(10)
        return advance(self, 1000)

    monkeypatch.setattr(Inflater, "advance", count)
    task = asyncio.create_task(unpacking.inflate(gzip.compress(bytes(10**7)), "gzip", 10**8))
    await advanced.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await loop.shutdown_default_executor()

    assert len(steps) == 3
