"""A web server whose behavior each test defines, and which counts its traffic."""

import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Route:
    """The answer of a path.

    Attributes:
        body: The file.
        etag: Its ETag with quotes; empty for none.
        ranges: Whether ranges are served.
        cuts: The number of body bytes after which each of the first downloads is cut off.
        failures: The statuses of the first requests.
        location: The target of a redirect.
        authorization: The required header.
        headers: More headers of a successful answer.
        pause: Seconds before each 64 KiB.
        declared_length: The Content-Length if it differs from that of the body.
    """

    body: bytes = b""
    etag: str = ""
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    location: str = ""
    authorization: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0


@dataclass(frozen=True)
class Request:
    """One request as it came, and how many bytes of the body were sent."""

    path: str
    headers: dict[str, str]
    sent: int


class FileServer:
    """The routes by path, and the requests so far."""

    def __init__(self, scheme: str, host: str, port: int) -> None:
        self.url = f"{scheme}://{host}:{port}"
        self.routes: dict[str, Route] = {}
        self.requests: list[Request] = []

    def sent(self, path: str) -> int:
        """Body bytes sent for a path, without the single byte of a size query."""
        probe = "bytes=0-0"
        of_path = [each for each in self.requests if each.path.partition("?")[0] == path]
        return sum(each.sent for each in of_path if each.headers.get("range") != probe)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: FileServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        route = self.files.routes.get(self.path) or self.files.routes.get(
            self.path.partition("?")[0]
        )
        sent = self._answer(route) if route else self._plain(404)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.files.requests.append(Request(self.path, headers, sent))

    def _plain(self, status: int, **headers: str) -> int:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return 0

    def _answer(self, route: Route) -> int:
        if refusal := self._refusal(route):
            return self._plain(refusal)
        if route.location:
            return self._plain(302, Location=route.location)
        asked = re.fullmatch("bytes=([0-9]+)-([0-9]*)", self.headers.get("Range", ""))
        if not asked or not route.ranges:
            return self._send(route, 200, 0, len(route.body), {})
        start, end = int(asked[1]), int(asked[2] or len(route.body) - 1) + 1
        if start >= len(route.body):
            return self._plain(416)
        content_range = {"Content-Range": f"bytes {start}-{end - 1}/{len(route.body)}"}
        return self._send(route, 206, start, end, content_range)

    def _refusal(self, route: Route) -> int:
        if route.failures:
            return route.failures.pop(0)
        if route.authorization and self.headers.get("Authorization") != route.authorization:
            return 401
        return 412 if self.headers.get("If-Match", route.etag) != route.etag else 0

    def _send(
        self, route: Route, status: int, start: int, end: int, content_range: dict[str, str]
    ) -> int:
        self.send_response(status)
        for name, value in {**content_range, **route.headers}.items():
            self.send_header(name, value)
        if route.etag:
            self.send_header("ETag", route.etag)
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        stop = end
        # the question for the size is not the download
        if route.cuts and (start, end) != (0, 1):
            stop = min(end, start + route.cuts.pop(0))
        for place in range(start, stop, 65536):
            time.sleep(route.pause)
            self.wfile.write(route.body[place : min(place + 65536, stop)])
        if stop < end:
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
        return stop - start


@contextmanager
def file_server(certificate: Path | None = None, host: str = "127.0.0.1") -> Iterator[FileServer]:
    """A server on a free port of the address; over TLS with a file of certificate and key."""
    handler = type("Handler", (_Handler,), {})
    server = ThreadingHTTPServer((host, 0), handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # a client that went away
    scheme = "https" if certificate else "http"
    handler.files = FileServer(scheme, host, server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield handler.files
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
