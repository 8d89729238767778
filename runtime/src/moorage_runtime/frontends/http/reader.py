"""Turns the bytes of one connection into requests: framing, limits and refusals, without any I/O.

::

    socket -> RequestReader.feed -> received: HttpRequest | Refusal -> connection

httptools (llhttp in strict mode) parses heads and chunked bodies. A body of known length that does
not arrive together with its head bypasses the parser and is read directly into memory of the right
size: ``direct`` is the remaining part. This module refuses what the parser allows but a server
must not: several Host lines or an invalid one, transfer codings other than chunked, CONNECT, and
chunked bodies after an Upgrade.

Source: RFC 9112, sections 3, 6, 7, 9.3 and 11.2.
"""

import enum
import re
from collections import deque
from typing import Final, NoReturn

import httptools

from moorage_runtime.frontends.http import encoding
from moorage_runtime.frontends.http.body_memory import make_body
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.message import HttpRequest
from moorage_runtime.frontends.http.received import Admission, Received, Refusal

# Two servers could interpret a repeated one of these headers differently.
_SINGLE: Final = frozenset(
    {"host", "authorization", "content-type", "expect", "inference-header-content-length"}
)
# Repeated lines of these headers form one list.
_LISTS: Final = frozenset(
    {"accept", "accept-encoding", "connection", "content-encoding", "transfer-encoding"}
)
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# Allowed framing bytes per byte of content in a chunked body: a chunk of one byte has five more,
# and a short extension is allowed.
_OVERHEAD_FACTOR: Final = 8
# A host, or nothing, and a port (RFC 3986, 3.2). The parser has refused control characters.
_AUTHORITY: Final = r"(?:[\w.~!$&'()*+,;=%-]*|\[[\w.:%]+\])(?::[0-9]*)?"
_HOST: Final = re.compile(_AUTHORITY, re.ASCII)
# The absolute form of a target, which must have a host (RFC 9110, 4.2.1).
_ABSOLUTE: Final = re.compile(
    rf"https?://(?=[^:/?]){_AUTHORITY}([/?].*)?", re.ASCII | re.IGNORECASE
)


class Phase(enum.Enum):
    """The current part of a request; each has its own deadline."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    DONE = enum.auto()


# Accessing a member through its enum costs as much as a small function call.
_IDLE, _HEAD, _BODY, _DONE = Phase


class _RefusedError(Exception):
    """Leaves a callback of the parser with the refusal."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal


class RequestReader:
    """Reads the requests of one connection.

    Attributes:
        received: Complete requests, and at most one refusal at the end; the owner removes
            them.
        phase: The current part of a request.
        direct: Memory for the rest of the current body, or None. Bytes are either written there,
            followed by :meth:`filled`, or passed to :meth:`feed`.
        awaits_continue: The client waits for "100 Continue" before it sends the body.
        body_received: Number of received bytes of the current body.
    """

    def __init__(self, limits: Limits, admission: Admission | None = None) -> None:
        self.received: deque[Received | Refusal] = deque()
        self.phase = _IDLE
        self.direct: memoryview | None = None
        self.awaits_continue = False
        self._body: bytes | bytearray | memoryview = b""
        self._limits = limits
        self._admission = admission
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: memoryview) -> None:
        """Process received bytes; complete requests are added to ``received``."""
        rest: memoryview | None = data
        while rest:
            rest = self._feed(rest)

    def _feed(self, data: memoryview) -> memoryview | None:
        """Process bytes up to an Upgrade, and return the rest."""
        if self.phase is _DONE:
            return None
        try:
            self._parser.feed_data(data)
            self._bound_framing(len(data))
            if self._length > self.body_received and self.phase is _BODY:
                self._go_direct()
        except httptools.HttpParserUpgrade as upgrade:
            return self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            # bytes after the last request are ignored
            if not self._is_done():
                self._refuse(_refusal_of(error, self._known_path()))
        except _RefusedError as refused:
            self._refuse(refused.refusal)
        return None

    def filled(self, count: int) -> None:
        """Report that ``count`` bytes were written to the start of ``direct``."""
        assert self.direct is not None  # noqa: S101 - contract
        self.body_received += count
        self.direct = self.direct[count:]
        if not self.direct:
            self.direct = None
            self._parser = httptools.HttpRequestParser(self)
            self._complete()

    def refuse(
        self, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        """Refuse the current request, for example after a deadline."""
        self._refuse(Refusal(status, message, self._known_path(), headers))

    def stop(self) -> None:
        """Read nothing more; further bytes are discarded."""
        self.phase = _DONE
        self.direct = None
        self.awaits_continue = False
        self._body = b""

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """A request line starts."""
        if self.phase is _DONE:
            raise httptools.HttpParserError  # leaves the parser
        self._begin()
        self.phase = _HEAD

    def on_url(self, part: bytes) -> None:
        """The request target, or a part of it."""
        self._target += part
        self._head_bytes += len(part)
        if len(self._target) > self._limits.target_bytes:
            self._raise(
                414, f"the URL is too long: must have {self._limits.target_bytes} bytes or fewer"
            )

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line, or a trailer, which is ignored."""
        if self.phase is _BODY:
            return
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._header_count > self._limits.header_count:
            self._raise(
                431, f"too many header lines: must be {self._limits.header_count} or fewer"
            )
        if self._head_bytes > self._limits.head_bytes:
            self._raise_head_too_large()
        key = name.decode().lower()
        text = value.decode("latin-1").strip(" \t")
        if key in self._headers:
            if key in _SINGLE:
                self._raise(400, f"duplicate header {key}")
            if key in _LISTS:
                text = f"{self._headers[key]}, {text}"
        self._headers[key] = text

    def on_headers_complete(self) -> None:
        """Check the head as a whole, then wait for the body."""
        parser = self._parser
        self._method = parser.get_method().decode()
        version = parser.get_http_version()
        self._is_http10 = version == "1.0"
        self._keep_alive = parser.should_keep_alive()
        if self._keep_alive and self._is_http10:
            # the parser also obeys Proxy-Connection, and it ignores a "close" next to "keep-alive"
            options = self._headers.get("connection", "").lower()
            self._keep_alive = "keep-alive" in options and "close" not in options
        if self._method == "CONNECT":
            # another server could take what follows for a body or for the start of a tunnel
            self._raise(501, "the method CONNECT is not supported: this server is not a proxy")
        self._split_target()
        if version not in _VERSIONS:
            self._raise(505, f"HTTP/{version} is not supported: use HTTP/1.1")
        self._check_host()
        if self._admission is not None:
            refusal = self._admission(self._method, self._path, self._headers)
            if refusal is not None:
                raise _RefusedError(refusal)
        self._plan_body()
        self.phase = _BODY

    def on_body(self, data: bytes) -> None:
        """A part of the body."""
        self.body_received += len(data)
        if self.body_received > self._limits.body_bytes:
            self._raise_too_large()
        body = self._body
        if isinstance(body, bytearray):
            body += data
        else:  # the part that arrived with the head; the rest is read directly
            self._body = data

    def on_message_complete(self) -> None:
        """The request is complete, unless a body follows an Upgrade."""
        if self._length == self.body_received or self._is_chunked:
            self._complete()

    def _begin(self) -> None:
        self._target = b""
        self._path = ""
        self._headers: dict[str, str] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._wire_bytes = 0
        self._is_fresh = True
        self._length = 0
        self._is_chunked = False
        self.body_received = 0

    def _split_target(self) -> None:
        target = self._target.decode()
        if not target.startswith("/"):
            # RFC 9112, 3.2.2: a server must accept the absolute form, although only proxies
            # receive it.
            absolute = _ABSOLUTE.fullmatch(target)
            if absolute is None:
                self._raise(400, f"the request target {target[:80]!r} is invalid: must be a path")
            rest = absolute[1] or ""
            target = rest if rest.startswith("/") else f"/{rest}"
        if "#" in target:
            self._raise(
                400, "the request target has a fragment (#), which a request must not have"
            )
        self._path, _, self._query = target.partition("?")

    def _check_host(self) -> None:
        host = self._headers.get("host")
        if host is None:
            if not self._is_http10:
                self._raise(400, "the header Host is missing")
        elif not _HOST.fullmatch(host):
            self._raise(
                400, f"the header Host {host[:80]!r} is invalid: must be a host, or host:port"
            )

    def _plan_body(self) -> None:
        headers = self._headers
        coding = headers.get("transfer-encoding")
        if coding is not None:
            self._is_chunked = True
            self._body = bytearray()
            if self._is_http10:
                self._raise(400, "Transfer-Encoding is not defined for HTTP/1.0")
            if coding.lower() != "chunked":
                self._raise(501, "the Transfer-Encoding is not supported: must be chunked")
            if self._parser.should_upgrade():
                self._raise(501, "Upgrade is not supported: send the request without it")
        else:
            # the parser has checked that there is one number below 2**64
            self._length = int(headers.get("content-length", "0"))
            if self._length > self._limits.body_bytes:
                self._raise_too_large()
        expectation = headers.get("expect")
        if expectation is not None:
            if expectation.lower() != "100-continue":
                self._raise(
                    417, f"Expect: {expectation[:80]!r} is not supported: must be 100-continue"
                )
            # without a body, the request is complete before anyone asks
            self.awaits_continue = not self._is_http10

    def _go_direct(self) -> memoryview:
        """Read the body in place, after the part that arrived with the head; returns `direct`."""
        view = make_body(self._length, self._headers.get("inference-header-content-length", ""))
        view[: self.body_received] = self._body
        self._body = view
        self.direct = rest = view[self.body_received :]
        return rest

    def _ignore_upgrade(self, rest: memoryview) -> memoryview:
        """Continue with HTTP/1.1 after an Upgrade, at which the parser stops (RFC 9110, 7.8).

        The parser considers the request complete after its head, but a body of known length
        follows.
        """
        if self.phase is not _BODY:
            self._parser = httptools.HttpRequestParser(self)
            return rest
        direct = self._go_direct()
        here = min(len(direct), len(rest))
        direct[:here] = rest[:here]
        self.filled(here)
        return rest[here:]

    def _complete(self) -> None:
        is_head = self._method == "HEAD"
        method = "GET" if is_head else self._method
        request = HttpRequest(method, self._path, self._query, self._headers, self._body)
        is_coded = not encoding.is_identity(self._headers.get("content-encoding", ""))
        self.received.append(
            Received(
                request,
                is_head=is_head,
                keep_alive=self._keep_alive,
                is_http10=self._is_http10,
                is_coded=is_coded,
            )
        )
        self._body = b""
        self.awaits_continue = False
        self.phase = _IDLE if self._keep_alive else _DONE

    def _bound_framing(self, count: int) -> None:
        """Limit what the parser consumes without a callback: partial headers, chunk extensions."""
        if self._is_fresh:  # these few bytes may belong to earlier requests
            self._is_fresh = False
            return
        self._wire_bytes += count
        # Of the head, the callbacks limit names and values; the rest of its lines is shorter. The
        # trailers may have the same size.
        allowed = 2 * self._limits.head_bytes + self.body_received * _OVERHEAD_FACTOR
        if self._wire_bytes <= allowed:
            return
        if self.phase is _HEAD:
            self._raise_head_too_large()
        if self.phase is _BODY and self._is_chunked:
            self._raise(400, "the chunked body has too many framing bytes: use larger chunks")

    def _raise(self, status: int, message: str) -> NoReturn:
        raise _RefusedError(Refusal(status, message, self._known_path()))

    def _raise_head_too_large(self) -> None:
        self._raise(
            431, f"the headers are too large: must have {self._limits.head_bytes} bytes or fewer"
        )

    def _raise_too_large(self) -> None:
        self._raise(
            413, f"the body is too large: must have {self._limits.body_bytes} bytes or fewer"
        )

    def _is_done(self) -> bool:
        return self.phase is _DONE

    def _known_path(self) -> str:
        return self._path or self._target.decode().partition("?")[0]

    def _refuse(self, refusal: Refusal) -> None:
        self.received.append(refusal)
        self.stop()


def _refusal_of(error: httptools.HttpParserError, path: str) -> Refusal:
    cause = error.__context__
    if isinstance(error, httptools.HttpParserCallbackError):
        if isinstance(cause, _RefusedError):
            return cause.refusal
        raise error
    return Refusal(400, f"malformed HTTP request: {error}", path)
