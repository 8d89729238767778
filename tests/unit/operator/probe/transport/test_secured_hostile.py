"""Hostile servers with TLS: their bytes, their handshakes and their time are limited as well."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from moorage_operator.probe.driver import ANSWER_LIMIT_BYTES
from moorage_operator.probe.transport.credentials import Credentials
from moorage_operator.probe.transport.grpc_channels import GrpcChannels
from moorage_operator.probe.transport.http_client import HttpClient
from moorage_operator.probe.transport.relay import FRAMING_BYTES, Relay
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import Access
from moorage_operator.values.secret_content import Unread
from support.certificates import Authority, Issued
from support.probe_targets import target

NAME = "iris.team.svc"
TLS = Access("team", tls_secret="iris-tls", server_name=NAME)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

pytestmark = pytest.mark.timeout(20)


@pytest.fixture(scope="module")
def issued() -> Issued:
    return Authority().issue(NAME)


@pytest.fixture
def known(issued: Issued) -> Credentials:
    async def read(namespace: str, name: str) -> Mapping[str, bytes] | Unread:
        assert (namespace, name) == ("team", "iris-tls")
        return {key: value.encode() for key, value in issued.secret.items()}

    return Credentials(read)


@asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None) -> AsyncIterator[int]:
    """The port of a server."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (OSError, EOFError):
            pass
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    while not writer.is_closing():
        writer.write(bytes(64 << 10))
        await writer.drain()
        await asyncio.sleep(0)  # drain does not yield before the buffer is full


async def test_the_relay_cuts_off_a_flood_inside_of_tls(
    known: Credentials, issued: Issued, tmp_path: Path
) -> None:
    async with serving(flood, issued.server_context(tmp_path)) as port:
        relay = Relay("127.0.0.1", port, lambda: known.secured(TLS, "h2"))
        address = "\0" + relay.address.partition(":")[2]
        reader, writer = await asyncio.open_unix_connection(address)
        writer.write(b"?")
        count = 0
        while data := await reader.read(64 << 10):
            count += len(data)
        writer.close()
        await relay.close()

    assert count <= FRAMING_BYTES
    assert relay.exceeded


async def test_a_body_inside_of_tls_has_the_same_limit(
    known: Credentials, issued: Issued, tmp_path: Path
) -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await flood(reader, writer)

    async with serving(endless, issued.server_context(tmp_path)) as port:
        of = target(f"http://127.0.0.1:{port}", access=TLS)
        found = await HttpClient(known).get(of, "/v2")

    assert isinstance(found, Answer)
    assert found.reason is AnswerReason.MALFORMED
    assert f"is larger than {ANSWER_LIMIT_BYTES} bytes" in found.message


@pytest.mark.parametrize("transport", ["HTTP", "GRPC"])
async def test_a_dripped_handshake_ends_with_the_deadline_of_the_query(
    known: Credentials, transport: str
) -> None:
    """One byte after the other of a record that never ends."""

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        ended = asyncio.Event()
        for byte in b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc" + bytes(1 << 14):
            writer.write(bytes([byte]))
            await writer.drain()
            try:
                async with asyncio.timeout(0.02):
                    await ended.wait()
            except TimeoutError:
                continue

    loop = asyncio.get_running_loop()
    async with serving(drip, None) as port:
        of = target(f"http://127.0.0.1:{port}", access=TLS, timeout_seconds=0.5)
        started = loop.time()
        if transport == "HTTP":
            found = await HttpClient(known).get(of, "/v2")
        else:
            found = await asked_over_grpc(known, port)
        spent = loop.time() - started

    assert isinstance(found, Answer)
    assert found.reason is AnswerReason.TIMED_OUT
    assert spent < 5


async def asked_over_grpc(known: Credentials, port: int) -> object:
    from moorage_operator.probe.protocols._generated import oip_pb2  # noqa: PLC0415 -- imports gRPC

    channels = GrpcChannels(known)
    of = target(f"http://127.0.0.1:{port}", access=TLS, timeout_seconds=0.5)
    method = "inference.GRPCInferenceService/ServerLive"
    try:
        return await channels.ask(
            of, method, oip_pb2.ServerLiveRequest(), oip_pb2.ServerLiveResponse
        )
    finally:
        await channels.close()


async def test_an_address_with_no_listener_is_refused_as_without_tls(known: Credentials) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    of = target(f"http://127.0.0.1:{port}", access=TLS)

    found = await HttpClient(known).get(of, "/v2")

    assert isinstance(found, Answer)
    assert (found.verdict, found.reason) == (None, AnswerReason.REFUSED)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_many_failed_handshakes_leave_no_sockets(known: Credentials) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        del writer
        await reader.read(1)

    async with serving(leave, None) as port:
        of = target(f"http://127.0.0.1:{port}", access=TLS)
        http = HttpClient(known)
        await http.get(of, "/v2")
        before = open_files()
        await asyncio.gather(*(http.get(of, "/v2") for _ in range(50)))
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(others or {asyncio.ensure_future(asyncio.sleep(0))}, timeout=5)

        # the ends of the server close a moment later, in the same loop
        assert open_files() <= before + 2
