"""The order of requests and answers on one connection, and what ends it."""

import asyncio

import pytest

from moorage_runtime.frontends.http.connection import Connection
from moorage_runtime.frontends.http.message import HttpResponse
from moorage_runtime.frontends.http.server import HttpServer
from moorage_runtime.values.budget import ByteBudget
from unit.runtime.http_fixtures import chunked, post

# More than any response here takes.
LOOP_TURNS = 10


class Transport:
    """A socket that records what is written to it."""

    def __init__(self) -> None:
        self.written = b""
        self.is_reading = True
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.is_closed = True


class Client:
    """A connection with a handler that echoes, at once or on a signal."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.go: asyncio.Event | None = None
        self.transport = Transport()
        self.budget = ByteBudget(1000)
        self._server = HttpServer(self._answer, "", 0, budget=self.budget)
        self.connection = Connection(self._server)
        self.connection.connection_made(self.transport)
        self.send(b"one")
        assert self.asked == [b"one"]

    def send(self, body: bytes) -> None:
        """One read of the server."""
        self.send_bytes(post("/", body))

    def send_bytes(self, data: bytes) -> None:
        """Any bytes, in as few reads as possible."""
        while data:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    def at(self, seconds: float) -> None:
        """The time of the server's next tick."""
        self._server.now = seconds
        self.connection.tick(seconds)

    def statuses(self) -> list[int]:
        """Of the responses to requests other than the first."""
        return [int(part[:3]) for part in self.transport.written.split(b"HTTP/1.1 ")[2:]]

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


CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "data", [post("/", b"x" * 900), CHUNKED + chunked(b"x" * 900)], ids=["length", "chunks"]
)
@pytest.mark.parametrize(
    "after", [b"", post("/", b"two"), post("/", b"two")[:-1], b"GET /", b"\0"]
)
async def test_a_body_whose_end_exceeds_the_budget_is_refused(client, data, after):
    client.budget.take(500)
    client.send_bytes(data[:-500])
    client.send_bytes(data[-500:] + after)

    assert (client.asked, client.statuses()) == ([b"one"], [503])
    assert client.transport.is_closed
    assert client.budget.taken == 500


async def test_requests_before_the_one_that_exceeds_the_budget_are_answered(client):
    client.go = asyncio.Event()
    client.budget.take(500)
    client.send(b"two")
    client.send_bytes(post("/", b"x" * 300))
    data = post("/", b"y" * 300)
    client.send_bytes(data[:-200])
    client.send_bytes(data[-200:])
    client.go.set()
    await turns()
    await turns()

    assert client.asked == [b"one", b"two", b"x" * 300]
    assert client.statuses() == [200, 200, 503]


async def test_each_body_has_a_period_of_its_own(client):
    client.send_bytes(CHUNKED + b"384\r\n" + b"x" * 899)
    client.at(9)
    client.send_bytes(b"x\r\n0\r\n\r\n" + CHUNKED + b"2\r\na")
    client.at(18)
    assert client.statuses() == [200]

    client.at(20)
    assert client.statuses() == [200, 408]


async def test_a_body_that_is_slow_behind_others_is_given_up(client):
    client.go = asyncio.Event()
    client.send(b"two")
    client.send(b"six")
    client.send_bytes(CHUNKED)
    client.at(9)
    client.send_bytes(b"2\r\na")
    client.at(11)
    client.go.set()
    await turns()
    await turns()

    assert client.statuses() == [200, 200, 408]
