"""An HTTP/2 client for tests: manual calls, and bytes that are not HTTP/2."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import ngh2

DEADLINE_SECONDS = 10
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, GOAWAY = 4, 6, 7


def frame(kind: int, flags: int = 0, stream_id: int = 0, payload: bytes = b"") -> bytes:
    """An HTTP/2 frame (RFC 9113, 4.1)."""
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream_id.to_bytes(4, "big") + payload


def message(data: bytes, flag: int = 0) -> bytes:
    """A length-prefixed message."""
    return bytes((flag,)) + len(data).to_bytes(4, "big") + data


@dataclass
class Answer:
    """The response on one stream."""

    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""
    reset: int | None = None
    is_closed: bool = False

    @property
    def status(self) -> tuple[str, str]:
        """gRPC status and its message, percent-encoded."""
        return (
            self.headers.get(b"grpc-status", b"").decode(),
            self.headers.get(b"grpc-message", b"").decode(),
        )


class Client:
    """One connection to a server on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.session = ngh2.Connection(
            ngh2.Role.CLIENT, ngh2.Configuration(auto_window_update=False)
        )
        self.answers: dict[int, Answer] = {}
        self.events: list[ngh2.Event] = []
        self.is_ended = False
        self._reader = reader
        self._writer = writer

    def open(self, **settings: int) -> None:
        """Send the preface."""
        self.session.initiate_connection({ngh2.Setting[k]: v for k, v in settings.items()})
        self.flush()

    def call(
        self, path: str, *bodies: bytes, end_stream: bool = True, headers: dict[str, str | None]
    ) -> int:
        """Start a call with these DATA frames; a header of None is omitted."""
        fields = {
            ":method": "POST",
            ":scheme": "http",
            ":path": path,
            ":authority": "localhost",
            "content-type": "application/grpc",
            "te": "trailers",
            **headers,
        }
        stream_id = self.session.send_request(
            [(k.encode(), v.encode("latin-1")) for k, v in fields.items() if v is not None]
        )
        self.answers[stream_id] = Answer()
        for body in bodies:
            self.session.send_data(stream_id, body)
        if end_stream:
            self.session.end_stream(stream_id)
        self.flush()
        return stream_id

    def flush(self) -> None:
        """Write what the session wants to send."""
        self._writer.write(self.session.data_to_send())

    def write(self, data: bytes) -> None:
        """Write bytes, bypassing the session."""
        self._writer.write(data)

    async def read_until(self, is_enough: Callable[[], bool]) -> None:
        """Read until a condition holds or the server disconnects."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not is_enough() and not self.is_ended:
                data = await self._reader.read(65536)
                self.is_ended = not data
                # after the last GOAWAY, the session accepts no more data
                with contextlib.suppress(ngh2.ConnectionStateError):
                    self.session.receive_data(data)
                    self._note()
                    self.flush()

    async def answer(self, stream_id: int) -> Answer:
        """The whole response of one stream."""
        answer = self.answers[stream_id]
        await self.read_until(lambda: answer.is_closed)
        return answer

    async def raw_end(self) -> bytes:
        """All bytes until the server disconnects, without interpretation."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                return await self._reader.read(-1)
        return b""

    def seen(self, kind: type) -> list[ngh2.Event]:
        """Events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def acknowledge(self, stream_id: int) -> None:
        """Acknowledge received data, so that the server may send as much again."""
        taken = len(self.answers[stream_id].body)
        self.session.acknowledge_received_data(taken, stream_id)
        self.answers[stream_id].body = b""
        self.flush()

    def end(self) -> None:
        """End the sending side."""
        self._writer.write_eof()

    def hang_up(self) -> None:
        """Close the socket."""
        self._writer.close()

    def _note(self) -> None:
        for event in self.session.events():
            self.events.append(event)
            match event:
                case ngh2.ResponseReceived(stream_id, headers) | ngh2.TrailersReceived(
                    stream_id, headers
                ):
                    self.answers[stream_id].headers.update(headers)
                case ngh2.DataReceived(stream_id, data):
                    self.answers[stream_id].body += data
                case ngh2.StreamReset(stream_id, code):
                    self.answers[stream_id].reset = code
                case ngh2.StreamClosed(stream_id):
                    self.answers[stream_id].is_closed = True
                case _:
                    pass


@contextlib.asynccontextmanager
async def connected(port: int, *, is_open: bool = True) -> AsyncIterator[Client]:
    """A client of a port on loopback, with or without its preface."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024 * 1024)
    client = Client(reader, writer)
    if is_open:
        client.open()
    try:
        yield client
    finally:
        client.hang_up()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def goaway_code(data: bytes) -> int:
    """The error code of the GOAWAY frame that ends the bytes of a connection."""
    at, code = 0, -1
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 3], "big"), data[at + 3]
        if kind == GOAWAY:
            code = int.from_bytes(data[at + 13 : at + 17], "big")
        at += 9 + size
    return code
