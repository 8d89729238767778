"""Bytes of one connection to requests: framing, limits and refusals, without any I/O.

::

    socket -> RequestReader.feed -> received: HttpRequest | Refusal -> connection

httptools (llhttp in strict mode) parses heads and chunked bodies; a head that repeats the one
before it on the connection is known already (``heads``). A body whose length is known
and that does not come together with its head is read past the parser, straight into memory of
the right size: ``direct`` is the room that is left. What the parser lets through and a server
must not (both framings at once, several Host lines, transfer codings other than chunked, bodies
behind an Upgrade) is refused here.

Source: RFC 9112, sections 3, 6, 7 and 11.2.
"""

import enum
from collections import deque
from typing import Final

import httptools

from moorage_runtime.frontends.http import encoding
from moorage_runtime.frontends.http.body_memory import make_body
from moorage_runtime.frontends.http.heads import RecentHead
from moorage_runtime.frontends.http.limits import Limits
from moorage_runtime.frontends.http.received import Admission, Head, Received, Refusal

# A repeated one of these could mean two things to two servers on the way.
_SINGLE: Final = frozenset(
    {"host", "authorization", "content-type", "expect", "inference-header-content-length"}
)
# Repeated lines of these are one list.
_LISTS: Final = frozenset({"content-encoding", "accept-encoding", "transfer-encoding"})
_VERSIONS: Final = frozenset({"1.0", "1.1"})
# Framing bytes that a chunked body may have for each byte of content: a chunk of one byte takes
# five more, and a short extension shall not hurt.
_OVERHEAD_FACTOR: Final = 8


class Phase(enum.Enum):
    """Where in a request the reader is; each ends by another deadline."""

    IDLE = enum.auto()
    HEAD = enum.auto()
    BODY = enum.auto()
    DONE = enum.auto()


# Looking a member up on its enum costs as much as a small function, and these are needed often.
_IDLE, _HEAD, _BODY, _DONE = Phase


class _RefusedError(Exception):
    """Leaves a callback of the parser with the refusal."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


class RequestReader:
    """Reads the requests of one connection.

    Attributes:
        received: Complete requests and at most one refusal, which is then the last; the owner
            takes them out.
        phase: What is being read.
        direct: Room for the rest of the body that is being read, None outside of such a body.
            Bytes go either there, followed by :meth:`filled`, or through :meth:`feed`.
        awaits_continue: The client waits for "100 Continue" before it sends the body.
        body_received: Bytes of the current body so far.
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
        self._recent = RecentHead()
        # What the parser is being given, while it may begin with a head.
        self._from_start: memoryview | None = None
        self._begin()

    def read_whole(self, data: bytearray, size: int) -> Received | None:
        """The request that the first ``size`` bytes are, where nothing but its body is new.

        It does not go through ``received``. On None nothing has changed, and the bytes are for
        :meth:`feed`.
        """
        if self.phase is not _IDLE or self.received:
            return None
        found = self._recent.read_whole(data, size)
        if found is not None and self._admission is not None:
            head = found.head
            if self._admission(head.method, head.path, head.headers) is not None:
                return None  # to be refused in its turn
        return found

    def feed(self, data: memoryview) -> None:
        """Take bytes as they came; what completes is in ``received``."""
        if self.phase is _IDLE:
            data = self._read_known(data)
            if not data:
                return
            self._from_start = data
        if self.phase is _DONE:
            return
        try:
            self._parser.feed_data(data)
            self._bound_framing(len(data))
            if self._length > self.body_received and self.phase is _BODY:
                self._go_direct()
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            # after the last request, whatever follows is not looked at
            if not self._is_done():
                self._refuse(_refusal_of(error, self._known_path()))
        except _RefusedError as refused:
            self._refuse(refused.refusal)
        self._from_start = None

    def filled(self, count: int) -> None:
        """Say that ``count`` bytes were written to the front of ``direct``."""
        assert self.direct is not None, "filled() outside of a direct body"  # noqa: S101 - contract
        self.body_received += count
        self.direct = self.direct[count:]
        if not self.direct:
            self.direct = None
            self._parser = httptools.HttpRequestParser(self)
            self._complete()

    def refuse(self, status: int, message: str) -> None:
        """End the current request from outside, as a deadline does."""
        self._refuse(Refusal(status, message, self._known_path()))

    def stop(self) -> None:
        """Read nothing more; bytes that still come are dropped."""
        self.phase = _DONE
        self.direct = None
        self.awaits_continue = False
        self._body = b""

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """A request line begins."""
        self._begin()
        self.phase = _HEAD

    def on_url(self, part: bytes) -> None:
        """The request target, or a part of it."""
        self._target += part
        self._head_bytes += len(part)
        if len(self._target) > self._limits.target_bytes:
            self._raise(414, f"the URL is longer than {self._limits.target_bytes} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header line, or a trailer, which is dropped."""
        if self.phase is _BODY:
            return
        self._header_count += 1
        self._head_bytes += len(name) + len(value)
        if self._header_count > self._limits.header_count:
            self._raise(431, f"more than {self._limits.header_count} header lines")
        if self._head_bytes > self._limits.head_bytes:
            self._raise_head_too_large()
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1").strip(" \t")
        if key in self._headers:
            if key in _SINGLE:
                self._raise(400, f"the header {key} is there more than once")
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
            self._raise(505, f"HTTP/{version} is not supported; use HTTP/1.1")
        if "host" not in self._headers and not self._is_http10:
            self._raise(400, "the header Host is missing")
        if self._admission is not None:
            refusal = self._admission(self._method, self._path, self._headers)
            if refusal is not None:
                raise _RefusedError(refusal)
        self._plan_body()
        self.phase = _BODY
        if self._from_start is not None:
            self._keep_head(self._from_start)
            self._from_start = None

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
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
        """The request is complete, unless its body hides behind an Upgrade."""
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
            # RFC 9112, 3.2.2: a server must accept the absolute form, though only proxies get it.
            scheme, separator, rest = target.partition("://")
            if not separator or scheme.lower() not in {"http", "https"}:
                self._raise(400, f"the request target {target[:80]!r} is no path")
            authority, slash, path = rest.partition("/")
            if "?" in authority:  # an absolute form without a path, but with a query
                path = authority[authority.index("?") :] + slash + path
            target = f"/{path}"
        if "#" in target:
            self._raise(
                400, "the request target has a fragment (#), which a URL on the wire lacks"
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
                self._raise(501, "the only transfer coding supported is chunked")
            if self._parser.should_upgrade():
                self._raise(501, "Upgrade is not supported; send the request without it")
        else:
            # the parser has checked that it is a number below 2**64, and there is one
            self._length = int(headers.get("content-length", "0"))
            if self._length > self._limits.body_bytes:
                self._raise_too_large()
        expectation = headers.get("expect")
        if expectation is not None:
            if expectation.lower() != "100-continue":
                self._raise(417, f"the expectation {expectation[:80]!r} cannot be met")
            self.awaits_continue = not self._is_http10 and (self._is_chunked or self._length > 0)

    def _go_direct(self) -> None:
        """Take the rest of the body in place, next to what came with the head."""
        view = make_body(self._length, self._headers.get("inference-header-content-length", ""))
        view[: self.body_received] = self._body
        self._body = view
        self.direct = view[self.body_received :]

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Go on with HTTP/1.1 where the parser stopped for an Upgrade (RFC 9110, 7.8).

        The parser takes the request for complete at its head; a body of known length follows.
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
        if rest:
            self.feed(rest)

    def _keep_head(self, data: memoryview) -> None:
        plain = not (self._is_chunked or self._is_http10 or "expect" in self._headers)
        if plain and self._keep_alive and not self._parser.should_upgrade():
            self._recent.keep(data, self._head(), self._header_count)

    def _read_known(self, data: memoryview) -> memoryview:
        """Take the requests whose head is the one before; the data behind them."""
        recent = self._recent
        while data and (head := recent.find(data)) is not None:
            if self._admission is not None:
                refusal = self._admission(head.method, head.path, head.headers)
                if refusal is not None:
                    self._refuse(refusal)
                    break
            stop = recent.size + head.length
            if stop > len(data):
                self._begin_known(head, data[recent.size :])
                return data[:0]
            self.received.append(Received(head, head.request(bytes(data[recent.size : stop]))))
            data = data[stop:]
        return data

    def _begin_known(self, head: Head, body: memoryview) -> None:
        """A request whose head is known, and with the body still on its way."""
        self._begin()
        self._method, self._path, self._query = head.method, head.path, head.query
        self._headers, self._length, self._keep_alive = head.headers, head.length, True
        self._body, self.body_received = body, len(body)
        self.phase = _BODY
        self._go_direct()

    def _head(self) -> Head:
        return Head(
            self._method,
            self._path,
            self._query,
            self._headers,
            self._length,
            keep_alive=self._keep_alive,
            is_http10=self._is_http10,
            is_coded=not encoding.is_identity(self._headers.get("content-encoding", "")),
            is_plain=self._keep_alive and not self._is_http10 and self._method != "HEAD",
        )

    def _complete(self) -> None:
        head = self._head()
        self.received.append(Received(head, head.request(self._body)))
        self._body = b""
        self.awaits_continue = False
        self.phase = _IDLE if self._keep_alive else _DONE

    def _bound_framing(self, count: int) -> None:
        """Limit what the parser consumes without a callback: half a header, chunk extensions."""
        if self._is_fresh:  # these bytes may belong to earlier requests, and are few
            self._is_fresh = False
            return
        self._wire_bytes += count
        if self.phase is _HEAD:
            if self._wire_bytes > self._limits.head_bytes:
                self._raise_head_too_large()
        elif self.phase is _BODY and self._is_chunked:
            allowed = self.body_received * _OVERHEAD_FACTOR + 2 * self._limits.head_bytes
            if self._wire_bytes > allowed:
                self._raise(400, "the chunked body has more framing than content")

    def _raise(self, status: int, message: str) -> None:
        raise _RefusedError(Refusal(status, message, self._known_path()))

    def _raise_head_too_large(self) -> None:
        self._raise(431, f"the headers are larger than {self._limits.head_bytes} bytes")

    def _raise_too_large(self) -> None:
        self._raise(413, f"the body is larger than {self._limits.body_bytes} bytes")

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
