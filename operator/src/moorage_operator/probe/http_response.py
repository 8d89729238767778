"""An HTTP/1.1 response from its bytes as they arrive; pure.

    feed(bytes) .. feed(bytes), close() -> status, headers, body

It reads what a server that is not trusted sends: everything is bounded, and what is not HTTP is
refused at its first line. Stands between the transport, which moves bytes, and httpx's Response.

Source: RFC 9112, HTTP/1.1: sections 2.2 (parsing), 4 (status line), 5 (fields), 6.3 (length of
the body), 7.1 (chunked).
"""

import re

HEAD_LIMIT_BYTES = 64 << 10
"""Status line and headers, or a chunk's line and the trailers; servers send a few hundred."""

_STATUS_LINE = re.compile(rb"HTTP/1\.[01] ([1-9][0-9]{2})(?: |$)")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,15}")

Headers = list[tuple[bytes, bytes]]


class NotHttp(Exception):
    """The bytes are no HTTP/1.1 response; the message says what is wrong with them."""


class TooLarge(Exception):
    """The body is larger than was allowed."""


class ResponseReader:
    """One response.

    Args:
        limit_bytes: The largest body that is taken.

    Attributes:
        status: Status code, 0 before the status line was read.
        headers: Names as they were sent, with values.
        body: What has arrived of the body.
        complete: Whether the whole response is there.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.status = 0
        self.headers: Headers = []
        self.body = bytearray()
        self.complete = False
        self._limit = limit_bytes
        self._rest = bytearray()
        self._left: int | None = None  # bytes of the body or chunk to come; None: until the end
        self._step = self._read_head

    def feed(self, data: bytes) -> None:
        """Take the next bytes; what follows a complete response is ignored.

        Raises:
            NotHttp: They cannot be read.
            TooLarge: The body is, or says that it is, above the limit.
        """
        self._rest += data
        while not self.complete and self._step():
            pass

    def close(self) -> None:
        """The server sends no more: the end of a body without a length, or of nothing whole.

        Raises:
            NotHttp: Something is missing.
        """
        if self._step == self._read_body and self._left is None:
            self.complete = True
        if not self.complete:
            raise NotHttp("the connection ended within the response")

    @property
    def is_empty(self) -> bool:
        """Whether not one byte has arrived."""
        return not self.status and not self._rest

    def _read_head(self) -> bool:
        # A server that speaks first (SMTP, SSH) may never send the blank line that ends a head.
        line, ended, _ = self._rest.partition(b"\n")
        if ended or not b"HTTP/1.".startswith(line[:7]):
            self._check_status_line(bytes(line).rstrip(b"\r"))
        block = self._take_block()
        if block is None:
            return False
        first, *fields = block.split(b"\n")
        self.status = self._check_status_line(first.rstrip(b"\r"))
        self.headers = [_field(line.rstrip(b"\r")) for line in fields]
        if self.status < 200:
            return True  # interim: the response itself follows
        self._choose_body()
        return True

    def _check_status_line(self, line: bytes) -> int:
        found = _STATUS_LINE.match(line)
        if found is None:
            raise NotHttp(f"illegal status line: {line[:80]!r}")
        return int(found[1])

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
            self._expect(int(length))
        else:
            self._step = self._read_body

    def _expect(self, length: int) -> None:
        if len(self.body) + length > self._limit:
            raise TooLarge
        self._left = length
        self._step = self._read_body
        self.complete = length == 0

    def _read_body(self) -> bool:
        taken = len(self._rest) if self._left is None else min(self._left, len(self._rest))
        if len(self.body) + taken > self._limit:
            raise TooLarge
        self.body += self._rest[:taken]
        del self._rest[:taken]
        if self._left is None:
            return False
        self._left -= taken
        self.complete = self._left == 0
        return False

    def _read_chunk_line(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()
        if not _CHUNK_SIZE.fullmatch(size):
            raise NotHttp(f"illegal size of a chunk: {line[:40]!r}")
        self._left = int(size, 16)
        if len(self.body) + self._left > self._limit:
            raise TooLarge
        self._step = self._read_chunk if self._left else self._read_trailers
        return True

    def _read_chunk(self) -> bool:
        assert self._left is not None  # noqa: S101 -- its line was read
        if len(self._rest) < self._left + 2:  # the chunk and its line end
            return False
        end = bytes(self._rest[self._left : self._left + 2])
        if end != b"\r\n":
            raise NotHttp("a chunk does not end where it says")
        self.body += self._rest[: self._left]
        del self._rest[: self._left + 2]
        self._step = self._read_chunk_line
        return True

    def _read_trailers(self) -> bool:
        line = self._take_line()
        if line is None:
            return False
        self.complete = not line
        return True

    def _take_block(self) -> bytes | None:
        """The lines up to a blank one, without it; None before they are there."""
        ends = [end for mark in (b"\r\n\r\n", b"\n\n") if (end := self._rest.find(mark)) >= 0]
        if not ends:
            self._check_head()
            return None
        end = min(ends)
        block = bytes(self._rest[:end])
        del self._rest[: end + (4 if self._rest.startswith(b"\r\n\r\n", end) else 2)]
        return block

    def _take_line(self) -> bytes | None:
        end = self._rest.find(b"\n")
        if end < 0:
            self._check_head()
            return None
        line = bytes(self._rest[:end]).rstrip(b"\r")
        del self._rest[: end + 1]
        return line

    def _check_head(self) -> None:
        if len(self._rest) > HEAD_LIMIT_BYTES:
            raise NotHttp(f"a head of more than {HEAD_LIMIT_BYTES} bytes")

    def _values(self, name: bytes) -> list[bytes]:
        """The members of a field's lists, in their order."""
        found = [value for key, value in self.headers if key.lower() == name]
        return [part.strip() for value in found for part in value.split(b",")]


def _field(line: bytes) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(b":")
    if not colon or not _NAME.fullmatch(name):
        raise NotHttp(f"illegal header line: {line[:80]!r}")
    return name, value.strip(b" \t")
