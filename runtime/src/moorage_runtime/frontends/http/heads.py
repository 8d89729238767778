"""The head that came last on a connection, so that the same bytes are not parsed again. Pure.

    RequestReader: bytes -> RecentHead.find -> Head, else httptools -> Head -> RecentHead.keep

A client that keeps its connection mostly repeats its request line and headers to the byte, and
parsing them costs more than everything else that HTTP needs. What bytes mean depends on nothing
but the bytes, so equal bytes that begin a request are the same head. Only heads of the plainest
framing are kept: one that announces anything but a Content-Length always goes to the parser.
"""

from typing import Final

import msgspec

from moorage_runtime.frontends.http.message import HttpRequest

# Far above a usual head, and little enough for every connection to hold.
_SIZE_LIMIT: Final = 2048
_END: Final = b"\r\n\r\n"


class Head(msgspec.Struct, frozen=True, gc=False):
    """What a request line and its headers say.

    Attributes:
        method: Upper case, as sent.
        path: The path as sent, without the query.
        query: The query string, without "?".
        headers: Lower-case name to value; shared by all requests with this head.
        length: Bytes of the body; 0 for a chunked one.
        keep_alive: The client wants to use the connection again.
        is_http10: The client does not know chunked bodies.
        is_coded: The body has a Content-Encoding that has to be undone.
        is_plain: An answer ends by its Content-Length, and the connection goes on after it.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    length: int
    keep_alive: bool
    is_http10: bool
    is_coded: bool
    is_plain: bool

    def request(self, body: bytes | bytearray | memoryview) -> HttpRequest:
        """The request as the frontends see it; HEAD has become GET."""
        method = "GET" if self.method == "HEAD" else self.method
        return HttpRequest(method, self.path, self.query, self.headers, body)


class RecentHead:
    """The bytes of one head and what they said.

    Attributes:
        size: How many bytes they are.
        head: What they said.
    """

    def __init__(self) -> None:
        self.size = 0
        self._text = b""
        self.head: Head | None = None

    def find(self, data: memoryview) -> Head | None:
        """What the head says that the data begins with, None when it is not the one kept."""
        return self.head if bytes(data[: self.size]) == self._text else None

    def keep(self, data: memoryview, head: Head, lines: int) -> None:
        """Keep the head that the data begins with.

        Args:
            data: What the parser was given, from the first byte of the request.
            head: What the parser found.
            lines: Header lines that it found. Where an empty line is not CR LF CR LF, or a line
                is folded, the count of line ends differs and nothing is kept.
        """
        text = bytes(data[:_SIZE_LIMIT])
        end = text.find(_END) + len(_END)
        is_whole = end >= len(_END) and text[:1].isalpha()
        if is_whole and text.count(b"\n", 0, end) == lines + 2:
            self._text, self.size, self.head = text[:end], end, head
