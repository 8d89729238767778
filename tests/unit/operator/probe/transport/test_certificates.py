"""When certificates expire, as seen in handshakes with real servers."""

import asyncio
import datetime as dt
from pathlib import Path

import pytest

from moorage_operator.probe.transport.certificates import KEEP_SECONDS, Certificates
from moorage_operator.probe.transport.credentials import Credentials
from moorage_operator.probe.transport.http_client import HttpClient, Reply
from moorage_operator.probe.transport.tls import opened, secured_streams
from moorage_operator.values.plan import Access
from support.certificates import Authority, Issued
from support.probe_targets import target

NAME = "iris.team.svc"
TLS = Access("team", tls_secret="iris-tls", server_name=NAME)
WEEK = dt.timedelta(days=7)
HOST = "127.0.0.1"


@pytest.fixture(scope="module")
def issued() -> Issued:
    return Authority().issue(NAME, until=WEEK)


@pytest.fixture
def credentials(issued: Issued) -> Credentials:
    async def read(_: str, __: str) -> dict[str, bytes]:
        return {key: value.encode() for key, value in issued.secret.items()}

    return Credentials(read)


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    writer.close()


def is_in_a_week(at: float | None) -> bool:
    """Whether this is the end of the certificate, which was issued during the test run."""
    wanted = (dt.datetime.now(dt.UTC) + WEEK).timestamp()
    return at is not None and abs(at - wanted) < 600


async def test_a_query_over_https_shows_when_the_certificate_expires(
    issued: Issued, credentials: Credentials, tmp_path: Path
) -> None:
    server = await asyncio.start_server(answer, HOST, 0, ssl=issued.server_context(tmp_path))
    async with server:
        url = f"http://{HOST}:{server.sockets[0].getsockname()[1]}"
        reply = await HttpClient(credentials).get(target(url, access=TLS), "/v2")

    assert isinstance(reply, Reply)
    assert is_in_a_week(credentials.certificates.earliest("team", "iris-tls", [HOST]))
    assert credentials.certificates.earliest("other", "iris-tls", [HOST]) is None


async def test_a_connection_for_grpc_shows_when_the_certificate_expires(
    issued: Issued, credentials: Credentials, tmp_path: Path
) -> None:
    server = await asyncio.start_server(answer, HOST, 0, ssl=issued.server_context(tmp_path))
    async with server:
        (way,) = await credentials.secured(TLS, "h2")
        port = server.sockets[0].getsockname()[1]
        _, writer = await secured_streams(await opened(HOST, port), way)
        writer.transport.abort()

    assert is_in_a_week(credentials.certificates.earliest("team", "iris-tls", [HOST]))


def test_the_first_of_several_servers_counts() -> None:
    seen = Certificates()
    seen.saw("team", "iris-tls", "10.0.0.1", 200.0)
    seen.saw("team", "iris-tls", "10.0.0.2", 100.0)
    seen.saw("team", "iris-tls", "10.0.0.3", 50.0)  # it is gone

    assert seen.earliest("team", "iris-tls", ["10.0.0.1", "10.0.0.2", "10.0.0.9"]) == 100.0


def test_a_renewed_certificate_replaces_the_former_one() -> None:
    seen = Certificates()
    seen.saw("team", "iris-tls", "10.0.0.1", 100.0)
    seen.saw("team", "iris-tls", "10.0.0.1", 300.0)

    assert seen.earliest("team", "iris-tls", ["10.0.0.1"]) == 300.0


def test_servers_are_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    seen = Certificates(lambda: now)
    for host in ("a", "b"):
        seen.saw("team", "iris-tls", host, 1.0)
    now = KEEP_SECONDS
    seen.saw("team", "iris-tls", "b", 2.0)
    now += 1
    seen.saw("team", "iris-tls", "c", 3.0)
    assert [seen.earliest("team", "iris-tls", [each]) for each in "abc"] == [None, 2.0, 3.0]

    monkeypatch.setattr("moorage_operator.probe.transport.certificates.KEPT", 2)
    seen.saw("team", "iris-tls", "d", 4.0)
    assert [seen.earliest("team", "iris-tls", [each]) for each in "bcd"] == [None, 3.0, 4.0]
