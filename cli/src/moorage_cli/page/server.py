"""The HTTP server of the page, on loopback only.

    browser -> token, Host -> /api/models (stream), /api/model, /api/logs, /api/do -> Actions
            -> files of static/

Other programs and web sites on this machine must not act with the user's rights. Each call
therefore needs a token that only the opened URL has, in a header that a web site cannot send, and
a Host of loopback, so a site cannot rebind its own name to this address.
"""

import hmac
import http.server
import json
import queue
import secrets
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib import resources
from pathlib import PurePath
from typing import Any
from urllib.parse import parse_qs, urlsplit

from moorage_cli.page.feed import Feed
from moorage_cli.printing.failures import Failure

__all__ = ["Actions", "PageServer"]

HOST = "127.0.0.1"
BODY_LIMIT_BYTES = 32 << 20
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


@dataclass(frozen=True, slots=True)
class Actions:
    """What a page can ask for; each raises Failure with a sentence for the user.

    Args:
        details: A model by namespace and name.
        log: The lines of a pod's server, as they come; namespace and pod.
        do: A named command for a model, with the fields of the request.
    """

    details: Callable[[str, str], Mapping[str, Any]]
    log: Callable[[str, str], Iterator[str]]
    do: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]


class PageServer(http.server.ThreadingHTTPServer):
    """The server; `url` opens the page.

    Args:
        port: The port; 0 is any free one.
        feed: The models.
        actions: What the page can ask for.

    Raises:
        Failure: The port is in use.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, feed: Feed, actions: Actions) -> None:
        self.feed = feed
        self.actions = actions
        self.token = secrets.token_urlsafe(24)
        self.files = _files()
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise Failure(
                f"--port: {port} cannot be used: {error.strerror}: choose another one; 0 is any "
                "free port"
            ) from error

    @property
    def url(self) -> str:
        """The address with the token, which a browser does not send to any server."""
        return f"http://{HOST}:{self.server_address[1]}/#{self.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore browsers that leave in the middle of an answer."""


def _files() -> dict[str, tuple[bytes, str]]:
    """The content and the type of each path."""
    found: dict[str, tuple[bytes, str]] = {}
    for file in resources.files("moorage_cli.page").joinpath("static").iterdir():
        suffix = PurePath(file.name).suffix
        if suffix in TYPES:
            path = "/" if file.name == "index.html" else f"/{file.name}"
            found[path] = file.read_bytes(), f"{TYPES[suffix]}; charset=utf-8"
    return found


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a browser."""

    server: PageServer  # pyright: ignore[reportIncompatibleVariableOverride] -- what it is
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """Answer with a file, a document or a stream."""
        path, fields = self._asked()
        if path in self.server.files:
            if self._is_local():
                text, kind = self.server.files[path]
                self._send(HTTPStatus.OK, text, kind)
            return
        if not self._is_allowed():
            return
        try:
            if path == "/api/models":
                self._stream(self._models())
            elif path == "/api/model":
                self._answer(self.server.actions.details(fields["namespace"], fields["name"]))
            elif path == "/api/logs":
                lines = self.server.actions.log(fields["namespace"], fields["pod"])
                self._stream(f"{line}\n" for line in lines)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, f"{path} does not exist")
        except KeyError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, f"the query has no {error.args[0]}")
        except Failure as failure:
            self._refuse(HTTPStatus.CONFLICT, str(failure))

    def do_POST(self) -> None:
        """Carry out a command."""
        path, _ = self._asked()
        if not self._is_allowed():
            return
        size = self.headers.get("Content-Length", "")
        if not size.isdecimal() or int(size) > BODY_LIMIT_BYTES:
            self.close_connection = True
            self._refuse(HTTPStatus.BAD_REQUEST, f"a body has at most {BODY_LIMIT_BYTES} bytes")
            return
        body = self.rfile.read(int(size))
        try:
            fields = json.loads(body)
            if path != "/api/do" or not isinstance(fields, dict):
                self._refuse(HTTPStatus.NOT_FOUND, f"{path} does not exist")
                return
            self._answer(self.server.actions.do(str(fields.get("command", "")), fields))
        except ValueError:
            self._refuse(HTTPStatus.BAD_REQUEST, "the body is not JSON")
        except Failure as failure:
            self._refuse(HTTPStatus.CONFLICT, str(failure))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class's name
        """Log nothing; failures are shown in the page."""

    def _asked(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        return parts.path, {name: found[0] for name, found in parse_qs(parts.query).items()}

    def _is_local(self) -> bool:
        port = self.server.server_address[1]
        if self.headers.get("Host", "") in {f"{HOST}:{port}", f"localhost:{port}"}:
            return True
        self.close_connection = True
        self._refuse(HTTPStatus.FORBIDDEN, "the Host header is not an address of this page")
        return False

    def _is_allowed(self) -> bool:
        if not self._is_local():
            return False
        given = self.headers.get("X-Moorage-Token", "")
        if hmac.compare_digest(given.encode(), self.server.token.encode()):
            return True
        self.close_connection = True
        self._refuse(
            HTTPStatus.UNAUTHORIZED, "the token is missing: open the URL that moorage ui printed"
        )
        return False

    def _models(self) -> Iterator[str]:
        page = self.server.feed.follow()
        try:
            while True:
                try:
                    message = page.get(timeout=HEARTBEAT_SECONDS)
                except queue.Empty:
                    message = {}
                if message is None:
                    return
                yield json.dumps(message) + "\n"
        finally:
            self.server.feed.leave(page)

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
