"""The order of requests and answers on one connection."""

import asyncio

import pytest

from moorage_runtime.frontends.http.connection import Connection
from moorage_runtime.frontends.http.message import HttpResponse
from moorage_runtime.frontends.http.server import HttpServer
from unit.runtime.http_fixtures import post

# More than any response here takes.
LOOP_TURNS = 10


class Transport:
    """A socket that records what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True


class Client:
    """A connection with a handler that echoes, at once or on a signal."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.go: asyncio.Event | None = None
        self.transport = Transport()
        self._server = HttpServer(self._answer, "", 0)
        self.connection = Connection(self._server)
        self.connection.connection_made(self.transport)
        self.send(b"one")
        assert self.asked == [b"one"]

    def send(self, body: bytes) -> None:
        """One read of the server."""
        data = post("/", body)
        buffer = self.connection.get_buffer(-1)
        buffer[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def answers(self) -> list[bytes]:
        """The bodies of the responses, which all have three bytes."""
        return [part[:3] for part in self.transport.written.split(b"\r\n\r\n")[1:]]

    def _answer(self, request):
        self.asked.append(bytes(request.body))
        return self._later(request) if self.go is not None else self._now(request)

    def _now(self, request):
        return HttpResponse(200, bytes(request.body))

    async def _later(self, request):
        await self.go.wait()
        return self._now(request)


async def turns():
    for _ in range(LOOP_TURNS):
        await asyncio.sleep(0)


@pytest.fixture
async def client():
    return Client()


async def test_repeated_requests_are_answered_one_by_one(client):
    client.send(b"two")
    client.send(b"six")

    assert client.answers() == [b"one", b"two", b"six"]


async def test_a_repeated_request_waits_for_the_answer_before_it(client):
    client.go = asyncio.Event()
    client.send(b"two")
    client.send(b"six")
    await turns()
    assert client.asked == [b"one", b"two"]

    client.go.set()
    await turns()

    assert client.asked == client.answers() == [b"one", b"two", b"six"]


async def test_a_client_that_does_not_read_gets_no_answer_to_a_repeated_request(client):
    client.connection.pause_writing()
    client.send(b"two")
    assert client.asked == [b"one"]

    client.connection.resume_writing()

    assert client.answers() == [b"one", b"two"]


async def test_input_after_the_end_of_a_client_is_ignored(client):
    client.connection.eof_received()
    client.send(b"two")

    assert client.asked == [b"one"]


async def test_many_repeated_requests_ahead_are_not_read(client):
    client.go = asyncio.Event()
    for _ in range(20):
        client.send(b"two")
    assert not client.transport.is_reading

    client.go.set()
    await turns()
    await turns()

    assert client.transport.is_reading
    assert len(client.answers()) == 21
