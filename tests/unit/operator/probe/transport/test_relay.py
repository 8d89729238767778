"""The relay between a gRPC channel and a model server: relayed data and the limit."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from moorage_operator.probe.transport.relay import FRAMING_BYTES, Relay

LIMIT = 1 << 20
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def served(handler: Handler) -> tuple[asyncio.Server, int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def connected(relay: Relay) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection("\0" + relay.address.partition(":")[2])


async def drained(reader: asyncio.StreamReader) -> int:
    """The number of bytes that arrive until the relay closes."""
    count = 0
    try:
        while data := await reader.read(64 << 10):
            count += len(data)
    except ConnectionError:
        pass
    return count


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    while True:
        writer.write(bytes(64 << 10))
        await writer.drain()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(64 << 10):
        writer.write(data)
        await writer.drain()


@pytest.mark.timeout(20)
def test_an_answer_of_the_largest_size_passes_in_both_directions() -> None:
    async def scenario() -> None:
        server, port = await served(echo)
        async with server:
            relay = Relay("127.0.0.1", port)
            relay.begin(LIMIT)
            reader, writer = await connected(relay)
            writer.write(b"x" * LIMIT)

            assert await reader.readexactly(LIMIT) == b"x" * LIMIT
            assert (relay.exceeded, relay.failure) == (False, "")
            writer.close()
            await relay.close()

    asyncio.run(scenario())


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("questions", "allowed"),
    [(0, FRAMING_BYTES), (1, 2 * FRAMING_BYTES + LIMIT + LIMIT // 4)],
)
def test_a_flood_is_cut_off_at_the_limit(questions: int, allowed: int) -> None:
    async def scenario() -> None:
        server, port = await served(flood)
        async with server:
            relay = Relay("127.0.0.1", port)
            for _ in range(questions):
                relay.begin(LIMIT)
            reader, writer = await connected(relay)
            writer.write(b"?")

            assert await drained(reader) <= allowed
            assert relay.exceeded
            assert "more than the" in relay.failure
            writer.close()
            await relay.close()

    asyncio.run(scenario())


@pytest.mark.timeout(20)
def test_calls_do_not_accumulate_an_allowance_for_a_later_flood() -> None:
    async def scenario() -> None:
        server, port = await served(flood)
        async with server:
            relay = Relay("127.0.0.1", port)
            for _ in range(100):
                relay.begin(LIMIT)
                relay.end()
            reader, writer = await connected(relay)
            writer.write(b"?")

            assert await drained(reader) <= FRAMING_BYTES
            writer.close()
            await relay.close()

    asyncio.run(scenario())


@pytest.mark.timeout(20)
def test_a_refused_connection_is_named() -> None:
    async def scenario() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        relay = Relay("127.0.0.1", port)
        reader, writer = await connected(relay)

        assert await drained(reader) == 0
        assert relay.failure == "Connection refused"
        writer.close()
        await relay.close()

    asyncio.run(scenario())


@pytest.mark.timeout(20)
def test_closing_the_relay_ends_the_servers_connection() -> None:
    async def scenario() -> None:
        asked, ended = asyncio.Event(), asyncio.Event()

        async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
            try:
                while await reader.read(1):
                    asked.set()
            finally:
                ended.set()

        server, port = await served(wait)
        async with server:
            relay = Relay("127.0.0.1", port)
            _, writer = await connected(relay)
            writer.write(b"?")
            await writer.drain()
            await asked.wait()
            await relay.close()
            await ended.wait()
            writer.close()

    asyncio.run(scenario())
