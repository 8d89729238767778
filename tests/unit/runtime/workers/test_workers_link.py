"""A worker answers every request of its supervisor, even after an exception."""

import asyncio
import socket

import pytest

from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.workers.link import connect
from moorage_runtime.workers.shared import messages
from moorage_runtime.workers.shared.messages import Answer, Beat, Begin, Do

BEGIN = Begin(0, 0, takes_over=False, is_online=None, unloaded=())


@pytest.mark.parametrize(
    ("error", "reason", "text"),
    [
        (ModelFailed("no"), "ModelFailed", "no"),
        (RecursionError("too deep"), "Internal", "RecursionError: too deep"),
        (ValueError("odd \udcff"), "Internal", "ValueError: odd ?"),
        (ModelFailed("odd \udcff"), "ModelFailed", "odd ?"),
    ],
)
async def test_any_error_is_answered(error, reason, text):
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_unix_connection(sock=ours)
    writer.write(messages.encode(BEGIN))
    link = await connect(theirs.detach())

    async def perform(act, name):
        raise error

    running = asyncio.create_task(link.run(perform, lambda: None))
    writer.write(messages.encode(Do(3, "load", "a")))

    async with asyncio.timeout(10):
        while isinstance(said := await read(reader), Beat):
            pass  # it is alive
    running.cancel()
    writer.close()

    assert said == Answer(3, reason, text)


async def read(reader):
    head = await reader.readexactly(messages.LENGTH_BYTES)
    return messages.decode_from_worker(await reader.readexactly(messages.decode_length(head)))
