"""gRPC's length-prefixed messages."""

import gzip
import weakref
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.frontends.grpc.methods import GrpcFault
from moorage_runtime.frontends.grpc.nghttp2 import framing
from moorage_runtime.frontends.grpc.nghttp2.framing import MessageReader, Payload
from moorage_runtime.frontends.grpc.nghttp2.replies import percent_encode
from unit.runtime.http2_client import message

LIMIT = 1000


def read(*pieces, is_last=True, limit=LIMIT):
    reader = MessageReader(limit)
    found = [payload for piece in pieces for payload in reader.feed(piece)]
    if is_last:
        found += reader.feed(b"", is_last=True)
    return found


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300)))
def test_messages_do_not_depend_on_the_split_of_the_bytes(messages, cuts):
    whole = b"".join(map(message, messages))
    ends = sorted(min(cut, len(whole)) for cut in cuts)
    pieces = [whole[start:end] for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)]

    assert read(*pieces) == [Payload(data, is_compressed=False) for data in messages]


def test_messages_are_complete_with_their_last_byte():
    sent = [b"abc", b"", b"d" * 7, b""]
    whole = b"".join(map(message, sent))
    ends = [sum(5 + len(each) for each in sent[: count + 1]) for count in range(len(sent))]
    for cut in range(len(whole) + 1):
        reader = MessageReader(LIMIT)
        found = reader.feed(whole[:cut])
        assert len(found) == sum(end <= cut for end in ends)
        assert reader.is_between == (cut in {0, *ends})
        found = [*found, *reader.feed(whole[cut:], is_last=True)]
        assert [bytes(payload.data) for payload in found] == sent


LARGE = bytes(range(256)) * 1024


@given(st.lists(st.integers(0, len(LARGE) + 60), max_size=8))
def test_large_messages_do_not_depend_on_the_split_of_the_bytes(cuts):
    sent = [b"a", LARGE, b"", LARGE[:-1]]
    whole = b"".join(map(message, sent))
    ends = sorted(cuts)
    pieces = [whole[start:end] for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)]

    assert [bytes(payload.data) for payload in read(*pieces, limit=len(LARGE))] == sent


@pytest.mark.parametrize("size", [*range(len(LARGE) - 8, len(LARGE)), *range(150, 158)])
def test_numbers_at_the_end_of_a_message_in_pieces_are_aligned(size):
    whole = message(LARGE[:size])

    (payload,) = read(whole[:20], whole[20:100], whole[100:], limit=len(LARGE))

    numbers = np.frombuffer(payload.data, np.float64, 16, len(payload.data) - 128)
    assert numbers.flags.aligned


def test_the_memory_of_a_message_is_free_when_the_message_is_over():
    whole = message(b"abc")
    reader = MessageReader(LIMIT)
    reader.feed(whole[:-1])
    (payload,) = reader.feed(whole[-1:])
    memory = weakref.ref(payload.data.obj)
    del payload
    assert memory() is None


def test_a_large_message_must_come_to_its_end():
    with pytest.raises(GrpcFault, match="ends within a message"):
        read(message(LARGE)[:-1], limit=len(LARGE))


def test_the_flag_says_what_is_compressed():
    whole = message(b"ab", 1) + message(b"cd") + message(b"", 1) + message(b"")
    for cut in range(len(whole)):
        assert read(whole[:cut], whole[cut:]) == [
            Payload(b"ab", is_compressed=True),
            Payload(b"cd", is_compressed=False),
            Payload(b"", is_compressed=True),
            Payload(b"", is_compressed=False),
        ]


@pytest.mark.parametrize("size", range(1, 9))
def test_a_call_must_not_end_within_a_message(size):
    with pytest.raises(GrpcFault, match="ends within a message") as caught:
        read(message(b"abc") + message(b"abcd")[:size])
    assert (caught.value.code, caught.value.message) == (
        "INTERNAL",
        "the call ends within a message",
    )


@pytest.mark.parametrize(
    ("data", "code", "text"),
    [
        (
            b"\x02" + message(b"")[1:],
            "INTERNAL",
            "the compressed flag of a message is 2: must be 0 or 1",
        ),
        (
            message(b"a" * (LIMIT + 1))[:5],
            "RESOURCE_EXHAUSTED",
            "a message has 1001 bytes: must have 1000 or fewer",
        ),
        (
            b"\0\xff\xff\xff\xff",
            "RESOURCE_EXHAUSTED",
            "a message has 4294967295 bytes: must have 1000 or fewer",
        ),
    ],
)
def test_an_invalid_prefix_is_refused_before_its_message_arrives(data, code, text):
    with pytest.raises(GrpcFault) as caught:
        read(data, is_last=False)
    assert (caught.value.code, caught.value.message) == (code, text)


def test_the_bytes_of_a_call_and_of_its_unfinished_message_are_counted():
    reader = MessageReader(LIMIT)
    counts = []
    for piece in (message(b"ab") + b"\0\0", b"\0\0\x03a", b"b", b"c"):
        reader.feed(piece)
        counts.append((reader.received_bytes, reader.held_bytes, reader.is_between))
    assert counts == [(9, 0, False), (13, 1, False), (14, 2, False), (15, 0, True)]


def test_a_message_at_the_limit_is_accepted():
    whole = message(b"a" * LIMIT)
    for cut in (0, 1, 5, 6, LIMIT):
        assert read(whole[:cut], whole[cut:]) == [Payload(b"a" * LIMIT, is_compressed=False)]


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_compressed_messages_are_read_and_written(coding, compress):
    data = b"text " * 300
    payload = Payload(compress(data), is_compressed=True)

    assert await framing.decompress(payload, coding, len(data)) == data
    prefix, sent = framing.frame(data, coding)
    assert prefix == message(sent, 1)[:5]
    assert await framing.decompress(Payload(sent, is_compressed=True), coding, len(data)) == data
    assert framing.frame(b"short", coding) == (message(b"short")[:5], b"short")
    with pytest.raises(GrpcFault) as caught:
        await framing.decompress(payload, coding, len(data) - 1)
    assert (caught.value.code, caught.value.message) == (
        "RESOURCE_EXHAUSTED",
        f"the decompressed body is too large: must have {len(data) - 1} bytes or fewer",
    )
    with pytest.raises(
        GrpcFault, match="^a message cannot be decompressed: .*" + coding
    ) as caught:
        await framing.decompress(Payload(payload.data[:-1], is_compressed=True), coding, len(data))
    assert caught.value.code == "INTERNAL"


def test_messages_are_compressed_from_a_kibibyte_on():
    assert framing.frame(b"x" * 1023, "gzip") == (b"\0\0\0\x03\xff", b"x" * 1023)
    prefix, sent = framing.frame(b"x" * 1024, "gzip")
    assert (prefix, gzip.decompress(sent)) == (message(sent, 1)[:5], b"x" * 1024)
    assert framing.frame(b"x" * 1024, "identity") == (b"\0\0\0\x04\0", b"x" * 1024)


async def test_a_message_cannot_be_compressed_without_a_coding():
    with pytest.raises(GrpcFault) as caught:
        await framing.decompress(Payload(b"", is_compressed=True), "identity", LIMIT)
    assert (caught.value.code, caught.value.message) == (
        "INTERNAL",
        "a message is compressed, but grpc-encoding is not set",
    )


@pytest.mark.parametrize(
    ("text", "encoded"), [("50 %", b"50 %25"), ("é\n", b"%C3%A9%0A"), ("a~b/?", b"a~b/?")]
)
def test_status_messages_are_percent_encoded(text, encoded):
    assert percent_encode(text) == encoded
