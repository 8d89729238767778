"""A listener with a small handler, and a client that writes and reads raw bytes."""

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator

from moorage_runtime.frontends.http.message import (
    HttpRequest,
    HttpResponse,
    StreamingResponse,
)
from moorage_runtime.frontends.http.server import HttpServer

DEADLINE_SECONDS = 10


class Application:
    """Echoes at once, later, or in pieces; records its requests."""

    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.cancelled = asyncio.Event()

    def handle(self, request):
        self.requests.append(request)
        match request.path:
            case "/later":
                return self._later(request)
            case "/stream":
                return StreamingResponse(200, self._pieces())
            case "/explode":
                raise ValueError("secret")
            case "/explode-later":
                return self._explode()
            case "/parts":
                return HttpResponse(200, (b"one", memoryview(b"two")))
            case "/large":
                return HttpResponse(200, b"x" * 32 * 1024 * 1024)
        return HttpResponse(200, bytes(request.body), b"text/plain")

    async def _later(self, request):
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return HttpResponse(200, bytes(request.body))

    async def _explode(self):
        raise ValueError("secret")

    async def _pieces(self) -> AsyncIterator[bytes]:
        try:
            yield b"first"
            self.started.set()
            await self.release.wait()
            yield b""
            yield b"second"
        finally:
            self.cancelled.set()


@contextlib.asynccontextmanager
async def listening(application, limits=None, **options):
    server = HttpServer(application.handle, "127.0.0.1", 0, limits, **options)
    port = await server.start()
    try:
        yield server, port
    finally:
        await server.stop(0)


class Client:
    """One connection."""

    def __init__(self, reader, writer) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self, *, has_body: bool = True):
        """Status, headers (lower-case) and body of the next response."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            status_line, *lines = head.split("\r\n")[:-2]
            assert status_line.startswith("HTTP/1.1 ")
            headers = {}
            for line in lines:
                name, _, value = line.partition(": ")
                headers[name.lower()] = value
            body = b""
            if not has_body:
                pass
            elif headers.get("transfer-encoding") == "chunked":
                body = b"".join([chunk async for chunk in self.chunks()])
            else:
                body = await self.reader.readexactly(int(headers["content-length"]))
            return int(status_line.split()[1]), headers, body

    async def chunks(self):
        while True:
            size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
            data = await self.reader.readexactly(size + 2)
            if not size:
                return
            yield data[:-2]

    async def ends(self) -> bytes:
        """The remaining bytes before the server closes."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            with contextlib.suppress(ConnectionResetError):
                return await self.reader.read()
            return b""


@contextlib.asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def post(path="/", body=b"", *lines: bytes, version=b"1.1") -> bytes:
    head = b"POST %b HTTP/%b\r\nHost: h\r\nContent-Length: %d\r\n" % (
        path.encode(),
        version,
        len(body),
    )
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


def get(path="/", *lines: bytes, method=b"GET") -> bytes:
    head = b"%b %b HTTP/1.1\r\nHost: h\r\n" % (method, path.encode())
    return head + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def zipped(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)
