"""The HTTP server of the page.

    browser -> Access -> /api/models (stream), /api/model, /api/logs, /api/do -> Actions
            -> files of static/, /healthz

A web site that a user visits must not act with the user's rights, even if a proxy adds them by a
cookie. A command is therefore accepted only as JSON, which a browser does not send to another
site without asking it first.
"""

import html
import http.server
import io
import json
import queue
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from importlib import resources
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moorage_cli.ask.api_failures import Forbidden, Missing, Unauthenticated
from moorage_cli.page.access import Access, Refused, Rows, Visit
from moorage_cli.printing.failures import Failure

__all__ = ["PageServer"]

# All addresses, of IPv6 and of IPv4.
ALL = "::"
# The time for a whole request, idle time of the connection included, and for each write.
REQUEST_SECONDS = 60.0
CONNECTION_LIMIT = 512
# JSON takes many times its size in memory, so only a few such bodies are read at a time.
LARGE_BODY_BYTES = 64 << 10
LARGE_BODY_LIMIT = 4
# Without one for so long, a proxy or a sleeping browser is noticed.
HEARTBEAT_SECONDS = 5.0
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
# Nothing from other hosts, no text that becomes HTML or code, and no other page may show this one
# in a frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)


class PageServer(http.server.ThreadingHTTPServer):
    """The server.

    Args:
        host: The address on which it listens. "::" is all addresses, only those of IPv4 on a
            machine without IPv6.
        port: The port; 0 is any free one.
        access: Who may use it.
        connection_limit: How many connections it has at a time.

    Raises:
        Failure: The port is in use.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self, host: str, port: int, access: Access, connection_limit: int = CONNECTION_LIMIT
    ) -> None:
        self.access = access
        self.files = _files(access)
        self.large_bodies = threading.BoundedSemaphore(LARGE_BODY_LIMIT)
        self._connections = threading.BoundedSemaphore(connection_limit)
        if host == ALL and not socket.has_dualstack_ipv6():
            host = "0.0.0.0"
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise Failure(
                f"--port: {port} cannot be used: {error.strerror}: choose another one; 0 is any "
                "free port"
            ) from error

    def server_bind(self) -> None:
        """Bind the address; "::" also for clients with IPv4, whatever the system's default."""
        if self.server_address[0] == ALL:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    @property
    def port(self) -> int:
        """The port on which it listens."""
        return self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or close the connection if there are too many."""
        if self._connections.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that leave in the middle of an answer."""


class _TimedReader(io.RawIOBase):
    """What a browser sends, until a deadline: byte after byte, it could keep a thread forever."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = 0.0

    def restart(self) -> None:
        """Begin with another request."""
        self._deadline = time.monotonic() + REQUEST_SECONDS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(max(0.001, self._deadline - time.monotonic()))
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(REQUEST_SECONDS)


def _files(access: Access) -> dict[str, tuple[bytes, str]]:
    """The content and the type of each path."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in resources.files("moorage_cli.page").joinpath("static").iterdir():
        suffix = PurePath(file.name).suffix
        if suffix in TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            text = file.read_bytes()
            if path == "/":
                attributes = f'lang="en" data-cluster="{html.escape(access.place)}"'
                attributes += " data-signs-in" if access.has_sign_in else ""
                text = text.replace(b'<html lang="en">', f"<html {attributes}>".encode())
            found[path] = text, f"{TYPES[suffix]}; charset=utf-8"
    return found


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride] -- what it is
    protocol_version = "HTTP/1.1"
    timeout = REQUEST_SECONDS

    def setup(self) -> None:
        """Bound the time of each request."""
        super().setup()
        self._reader = _TimedReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Answer a request."""
        self._reader.restart()
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer with a file, a document or a stream."""
        path, fields = self._asked()
        try:
            self.server.access.check_host(self.headers, self.server.port)
            self._check_end(is_empty=True)
            if path == "/healthz":
                self._send(HTTPStatus.OK, b"ok\n", "text/plain")
            elif path in self.server.files:
                self._send(HTTPStatus.OK, *self.server.files[path])
            else:
                self._get(self.server.access.admit(self.headers), path, fields)
        except KeyError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the query has no {error.args[0]}")
        except Failure as failure:
            self._fail(failure)

    def _get(self, visit: Visit, path: str, fields: Mapping[str, str]) -> None:
        if path == "/api/models":
            with visit.follow(fields.get("namespace", "")) as page:
                self._stream(_messages(page))
        elif path == "/api/model":
            self._answer(visit.actions.details(fields["namespace"], fields["name"]))
        elif path == "/api/logs":
            lines = visit.actions.log(fields["namespace"], fields["pod"])
            self._stream(f"{line}\n" for line in lines)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, f"{path} does not exist")

    def do_POST(self) -> None:
        """Carry out a command."""
        path, _ = self._asked()
        try:
            self.server.access.check_host(self.headers, self.server.port)
            visit = self.server.access.admit(self.headers)
            self._check_end(is_empty=False)
            fields = self._body()
            if path != "/api/do" or not isinstance(fields, dict):
                self._refuse(HTTPStatus.NOT_FOUND, f"{path} does not exist")
                return
            self._answer(visit.actions.do(str(fields.get("command", "")), fields))
        except Failure as failure:
            self._fail(failure)

    def _check_end(self, *, is_empty: bool) -> None:
        """Refuse a request whose end is not where this server sees it.

        What follows would be taken for another request, which a proxy answers to another user.
        """
        sizes = self.headers.get_all("Content-Length", [])
        if is_empty and set(sizes) - {"0"}:
            raise Refused(HTTPStatus.BAD_REQUEST, "a GET request must not have a body")
        if len(sizes) > 1 or "Transfer-Encoding" in self.headers:
            sentence = "a body must have exactly one Content-Length header"
            raise Refused(HTTPStatus.BAD_REQUEST, sentence)

    def _body(self) -> Any:
        """The JSON that was sent.

        Raises:
            Refused: It is too large or not JSON.
        """
        limit = self.server.access.body_limit
        size = self.headers.get("Content-Length", "")
        if self.headers.get_content_type() != "application/json":
            sentence = "the Content-Type must be application/json"
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, sentence)
        if not size.isdecimal():
            sentence = "the Content-Length header must be the length of the body in bytes"
            raise Refused(HTTPStatus.BAD_REQUEST, sentence)
        if len(size) > len(str(limit)) or int(size) > limit:
            sentence = f"the request is larger than {limit >> 20} MiB: use moorage infer"
            raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, sentence)
        is_large = int(size) > LARGE_BODY_BYTES
        if is_large and not self.server.large_bodies.acquire(blocking=False):
            sentence = f"{LARGE_BODY_LIMIT} large requests are being read: try again"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, sentence)
        try:
            return json.loads(self.rfile.read(int(size)))
        except (ValueError, RecursionError) as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "the body is not JSON") from error
        finally:
            if is_large:
                self.server.large_bodies.release()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class's name
        """Log nothing; failures are shown in the page."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: found[0] for name, found in parse_qs(parts.query).items()}

    def _fail(self, failure: Failure) -> None:
        """Answer with the status that belongs to a failure, and its sentence."""
        match failure:
            case Refused():
                # what was sent with it may not have been read
                self.close_connection = True
                self._refuse(failure.status, str(failure))
            case Unauthenticated():
                sentence = "the API server does not accept the token: it may have expired"
                self._refuse(HTTPStatus.UNAUTHORIZED, sentence)
            case Forbidden():
                self._refuse(HTTPStatus.FORBIDDEN, str(failure))
            case Missing():
                self._refuse(HTTPStatus.NOT_FOUND, str(failure))
            case _:
                self._refuse(HTTPStatus.CONFLICT, str(failure))

    def _stream(self, parts: Iterator[str]) -> None:
        self.close_connection = True
        self._head(HTTPStatus.OK, "text/plain; charset=utf-8")
        self.send_header("Connection", "close")
        self.end_headers()
        # a browser that vanished is noticed by the next heartbeat
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            for part in parts:
                self.wfile.write(part.encode("utf-8", "replace"))
                self.wfile.flush()
        except Failure as failure:
            self.wfile.write(f"{failure}\n".encode())

    def _answer(self, document: Mapping[str, Any]) -> None:
        self._send(HTTPStatus.OK, json.dumps(document).encode(), "application/json")

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, json.dumps({"error": sentence}).encode(), "application/json")

    def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
        self._head(status, kind)
        if status == HTTPStatus.UNAUTHORIZED and self.server.access.has_sign_in:
            self.send_header("WWW-Authenticate", "Bearer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")


def _messages(page: Rows) -> Iterator[str]:
    """What a page is sent, as lines of JSON, with heartbeats."""
    while True:
        try:
            message = page.get(timeout=HEARTBEAT_SECONDS)
        except queue.Empty:
            message = {}
        if message is None:
            return
        yield json.dumps(message) + "\n"
