"""Turns the bytes of one connection into requests: framing, limits and refusals, without any I/O.

::

    socket -> RequestReader.feed -> received: HttpRequest | Refusal -> connection

httptools (llhttp in strict mode) parses heads and chunked bodies. A body of known length that does
not arrive together with its head bypasses the parser and is read directly into memory of the right
size: ``direct`` is the remaining part. This module refuses what the parser allows but a server
must not (both framings at once, several Host lines, transfer codings other than chunked, bodies
after an Upgrade).

Source: RFC 9112, sections 3, 6, 7 and 11.2.
"""

import enum
from collections import deque
from typing import Final

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
_LISTS: Final = frozenset({"content-encoding", "accept-encoding", "transfer-encoding"})
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# Allowed framing bytes per byte of content in a chunked body: a chunk of one byte has five more,
# and a short extension is allowed.
_OVERHEAD_FACTOR: Final = 8


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
        super().__init__(refusal.message)
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
        self.body_received = 0
        self._limits = limits
        self._admission = admission
        self._parser = httptools.HttpRequestParser(self)
        self._begin()

    def feed(self, data: memoryview) -> None:
        """Process received bytes; complete requests are added to ``received``."""
        while data:
            data = self._feed(data)

    def _feed(self, data: memoryview) -> memoryview:
        """Process bytes up to an Upgrade, and return the rest."""
        rest = data[:0]
        if self.phase is _DONE:
            return rest
        try:
            self._parser.feed_data(data)
            self._bound_framing(len(data))
            if self._length > self.body_received and self.phase is _BODY:
                self._go_direct()
        except httptools.HttpParserUpgrade as upgrade:
            rest = self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            # bytes after the last request are ignored
            if not self._is_done():
                self._refuse(_refusal_of(error, self._known_path()))
        except _RefusedError as refused:
            self._refuse(refused.refusal)
        return rest

    def filled(self, count: int) -> None:
        """Report that ``count`` bytes were written to the start of ``direct``."""
        assert self.direct is not None, "filled() outside of a direct body"  # noqa: S101 - contract
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
        key = name.decode("latin-1").lower()
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
        self._method = parser.get_method().decode("latin-1")
        version = parser.get_http_version()
        self._keep_alive = parser.should_keep_alive()
        self._is_http10 = version == "1.0"
        self._split_target()
        if version not in _VERSIONS:
            self._raise(505, f"HTTP/{version} is not supported: use HTTP/1.1")
        if "host" not in self._headers and not self._is_http10:
            self._raise(400, "the header Host is missing")
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
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data

    def on_message_complete(self) -> None:
        """The request is complete, unless a body follows an Upgrade."""
        if self._length == self.body_received or self._is_chunked:
            self._complete()

    def _begin(self) -> None:
        self._target = b""
        self._method = ""
        self._path = ""
        self._query = ""
        self._headers: dict[str, str] = {}
        self._header_count = 0
        self._head_bytes = 0
        self._wire_bytes = 0
        self._is_fresh = True
        self._length = 0
        self._is_chunked = False
        self._keep_alive = False
        self._is_http10 = False
        self._body: bytes | bytearray | memoryview = b""
        self.body_received = 0
        self.awaits_continue = False

    def _split_target(self) -> None:
        target = self._target.decode("latin-1")
        if not target.startswith("/"):
            # RFC 9112, 3.2.2: a server must accept the absolute form, although only proxies
            # receive it.
            scheme, separator, rest = target.partition("://")
            if not separator or scheme.lower() not in {"http", "https"}:
                self._raise(400, f"the request target {target[:80]!r} is invalid: must be a path")
            authority, slash, path = rest.partition("/")
            if "?" in authority:  # an absolute form without a path, but with a query
                path = authority[authority.index("?") :] + slash + path
            target = f"/{path}"
        if "#" in target:
            self._raise(
                400, "the request target has a fragment (#), which a request must not have"
            )
        self._path, _, self._query = target.partition("?")

    def _plan_body(self) -> None:
        headers = self._headers
        coding = headers.get("transfer-encoding")
        if coding is not None:
            self._is_chunked = True
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
            self.awaits_continue = not self._is_http10 and (self._is_chunked or self._length > 0)

    def _go_direct(self) -> None:
        """Read the rest of the body in place, after the part that arrived with the head."""
        view = make_body(self._length, self._headers.get("inference-header-content-length", ""))
        view[: self.body_received] = self._body
        self._body = view
        self.direct = view[self.body_received :]

    def _ignore_upgrade(self, rest: memoryview) -> memoryview:
        """Continue with HTTP/1.1 after an Upgrade, at which the parser stops (RFC 9110, 7.8).

        The parser considers the request complete after its head, but a body of known length
        follows.
        """
        self._parser = httptools.HttpRequestParser(self)
        missing = self._length - self.body_received
        if self.phase is _BODY and missing:
            self._go_direct()
            here = min(missing, len(rest))
            if here and self.direct is not None:
                self.direct[:here] = rest[:here]
                self.filled(here)
            rest = rest[here:]
        return rest

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
        if self.phase is _HEAD:
            if self._wire_bytes > self._limits.head_bytes:
                self._raise_head_too_large()
        elif self.phase is _BODY and self._is_chunked:
            allowed = self.body_received * _OVERHEAD_FACTOR + 2 * self._limits.head_bytes
            if self._wire_bytes > allowed:
                self._raise(400, "the chunked body has too many framing bytes: use larger chunks")

    def _raise(self, status: int, message: str) -> None:
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
        return self._path or self._target.decode("latin-1").partition("?")[0]

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
