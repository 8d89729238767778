"""Messages that a streaming method has not read yet are counted with their overhead."""

import pytest

from moorage_runtime.frontends.grpc.nghttp2.duplex import Inbox
from moorage_runtime.frontends.grpc.nghttp2.framing import Payload
from moorage_runtime.frontends.grpc.nghttp2.limits import Limits


@pytest.mark.parametrize("size", [0, 1, 1000])
async def test_a_message_counts_with_its_overhead(size):
    inbox = Inbox()
    for _ in range(10):
        inbox.put(Payload(bytes(size), is_compressed=False))

    assert inbox.waiting_bytes >= 10 * (size + 200)
    for _ in range(10):
        await inbox.take()
    assert inbox.waiting_bytes == 0


def test_a_full_inbox_of_empty_messages_is_some_thousand_messages():
    inbox = Inbox()
    count = 0
    while inbox.waiting_bytes <= Limits().inbox_bytes:
        inbox.put(Payload(b"", is_compressed=False))
        count += 1

    assert count < 10_000
