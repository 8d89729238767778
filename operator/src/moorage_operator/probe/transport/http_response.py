"""An incremental parser for HTTP/1.1 responses; pure.

    feed(bytes) .. feed(bytes), close() -> status, headers, body

It parses data of untrusted servers: everything is bounded, and other protocols are rejected at the
first line.

Source: RFC 9112, HTTP/1.1: sections 2.2 (parsing), 4 (status line), 5 (fields), 6.3 (length of
the body), 7.1 (chunked).
"""

import re

FRAMING_LIMIT_BYTES = 64 << 10
"""The total size of everything except the body: interim responses, the head, chunk lines and
trailers. Servers send a few hundred bytes; a body of 1 MiB in chunks of 512 bytes needs 16 KiB."""

LINE_LIMIT = 256
"""The total number of status lines, headers and trailers; servers send a dozen."""

FREE_CHUNKS = 256
CHUNK_BYTES = 256
"""The smallest average size of chunks after the first ones; parsing a chunk takes as long as a KiB
of the body."""

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: |$)")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")

Headers = list[tuple[bytes, bytes]]


class NotHttp(Exception):
    """The bytes are not a valid HTTP/1.1 response; the message says why."""


class TooLarge(Exception):
    """The body is larger than the limit."""


class ResponseReader:
    """One response.

    Each byte is visited once: the search for a line end continues where the last one stopped, and
    everything except the body shares one budget. So a server cannot cause extra work.

    Args:
        limit_bytes: The largest body that is accepted.

    Attributes:
        status: The status code, 0 before the status line was read.
        headers: The names as sent, with their values.
        body: The part of the body that has arrived.
        complete: Whether the whole response has arrived.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()
        self.complete = False
        self._limit = limit_bytes
        self._rest = bytearray()
        self._at = 0  # start of the unread bytes in _rest
        self._searched = 0  # _rest has no line end before this offset
        self._framing = 0  # bytes of heads, chunk lines and trailers so far
        self._lines = 0
        self._chunks = 0
        self._left: int | None = None  # missing bytes of the body or chunk; None: until the end
        self._step = self._read_status_line

    def feed(self, data: bytes) -> None:
        """Parse the next bytes; bytes after a complete response are ignored.

        Raises:
            NotHttp: They are not valid.
            TooLarge: The body, or its announced size, exceeds the limit.
        """
        self._rest += data
        while not self.complete and self._step():
            pass
        del self._rest[: self._at]
        self._searched -= self._at
        self._at = 0

    def close(self) -> None:
        """Handle the end of the connection, which ends a body without a length.

        Raises:
            NotHttp: The response is incomplete.
        """
        if self._step == self._read_body and self._left is None:
            self.complete = True
        if not self.complete:
            raise NotHttp("the connection ended within the response")

    @property
    def is_empty(self) -> bool:
        """Whether no byte has arrived."""
        return not self.status and not self._rest

    def _read_status_line(self) -> bool:
        line = self._take_line()
        if line is not None:
            self.status = self._check_status_line(line)
            self.headers = []
            self._step = self._read_field
            return True
        # A server that sends data first (SMTP, SSH) may never send a whole line.
        if not b"HTTP/1.".startswith(self._rest[self._at : self._at + 7]):
            self._check_status_line(bytes(self._rest[self._at :]))
        return False

    def _check_status_line(self, line: bytes) -> int:
        found = _STATUS_LINE.match(line)
        if found is None:
            raise NotHttp(f"illegal status line: {line[:80]!r}")
        return int(found[1])

    def _read_field(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if line:
            self.headers.append(_field(line))
        elif self.status < 200:
            self._step = self._read_status_line  # interim: the response itself follows
        else:
            self._choose_body()
        return True

    def _choose_body(self) -> None:
        codings = self._values(b"transfer-encoding")
        lengths = set(self._values(b"content-length"))
        if self.status in (204, 304):
            self.complete = True
        elif codings:
            chunked = codings[-1].lower() == b"chunked"
            self._step = self._read_chunk_line if chunked else self._read_body
        elif lengths:
            if len(lengths) > 1 or not (length := lengths.pop()).isdigit() or len(length) > 15:
                raise NotHttp("illegal Content-Length")
            self._left = self._checked(int(length))
            self._step = self._read_body
        else:
            self._step = self._read_body

    def _checked(self, more: int) -> int:
        """Return a number of expected bytes if the body may grow by that much."""
        if len(self.body) + more > self._limit:
            raise TooLarge
        return more

    def _read_body(self) -> bool:
        self._take_body()
        self.complete = self._left == 0
        return False

    def _read_chunk_line(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(size):
            raise NotHttp(f"illegal chunk size: {line[:40]!r}")
        self._left = self._checked(int(size, 16))
        self._chunks += 1
        if self._chunks > FREE_CHUNKS + len(self.body) // CHUNK_BYTES:
            raise NotHttp(f"more than {FREE_CHUNKS} chunks of less than {CHUNK_BYTES} bytes")
        self._step = self._read_chunk if self._left else self._read_trailer
        return True

    def _read_chunk(self) -> bool:
        self._take_body()
        if self._left:
            return False
        self._step = self._read_chunk_end
        return True

    def _read_chunk_end(self) -> bool:
        end = self._rest[self._at : self._at + 2]
        if not b"\r\n".startswith(end):
            raise NotHttp("a chunk is longer than its declared size")
        if len(end) < 2:
            return False
        self._skip(2)
        self._step = self._read_chunk_line
        return True

    def _read_trailer(self) -> bool:
        line = self._take_line()
        self.complete = line == b""
        return line is not None

    def _take_body(self) -> None:
        """Move the bytes that belong to the body or the chunk."""
        there = len(self._rest) - self._at
        taken = self._checked(there if self._left is None else min(self._left, there))
        self.body += memoryview(self._rest)[self._at : self._at + taken]
        self._at += taken
        self._searched = self._at
        if self._left is not None:
            self._left -= taken

    def _take_line(self) -> bytes | None:
        """Return the next line without its end; None before it has arrived."""
        end = self._rest.find(b"\n", self._searched)
        if end < 0:
            self._searched = len(self._rest)
            self._check_framing(len(self._rest) - self._at)
            return None
        line = bytes(self._rest[self._at : end])
        self._skip(end + 1 - self._at)
        self._lines += self._step != self._read_chunk_line
        if self._lines > LINE_LIMIT:
            raise NotHttp(f"more than {LINE_LIMIT} lines of headers and trailers")
        return line.rstrip(b"\r")

    def _skip(self, count: int) -> None:
        """Skip bytes that are not part of the body."""
        self._at += count
        self._searched = self._at
        self._framing += count
        self._check_framing(0)

    def _check_framing(self, unread: int) -> None:
        if self._framing + unread > FRAMING_LIMIT_BYTES:
            raise NotHttp(
                f"more than {FRAMING_LIMIT_BYTES} bytes of headers, chunk sizes and trailers"
            )

    def _values(self, name: bytes) -> list[bytes]:
        """Return the list members of a header in order."""
        found = [value for key, value in self.headers if key.lower() == name]
        return [part.strip() for value in found for part in value.split(b",")]


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _NAME.fullmatch(name):
        raise NotHttp(f"illegal header line: {line[:80]!r}")
    return name, value.strip(b" \t")
