"""The head that came last on a connection, so that the same bytes are not parsed again. Pure.

    RequestReader: bytes -> RecentHead.read_whole -> Received
                         -> RecentHead.find -> Head, else httptools -> Head -> RecentHead.keep

A client that keeps its connection mostly repeats its request line and headers to the byte, and
parsing them costs more than everything else that HTTP needs. What bytes mean depends on nothing
but the bytes, so equal bytes that begin a request are the same head. Only heads of the plainest
framing are kept: one that announces anything but a Content-Length always goes to the parser.
"""

from typing import Final

from moorage_runtime.frontends.http.received import Head, Received

# Far above a usual head, and little enough for every connection to hold.
_SIZE_LIMIT: Final = 2048
_END: Final = b"\r\n\r\n"


class RecentHead:
    """The bytes of one head and what they said.

    Attributes:
        size: How many bytes they are.
        head: What they said.
    """

    def __init__(self) -> None:
        self.size = 0
        self.head: Head | None = None
        self._text = b""
        self._whole_bytes = 0  # of a request with this head, with its body

    def find(self, data: memoryview) -> Head | None:
        """What the head says that the data begins with, None when it is not the one kept."""
        return self.head if bytes(data[: self.size]) == self._text else None

    def read_whole(self, data: bytearray, size: int) -> Received | None:
        """The request, where the first ``size`` bytes are one with this head and nothing else."""
        head = self.head
        if size != self._whole_bytes or head is None or not data.startswith(self._text):
            return None
        return Received(head, head.request(data[self.size : size]))

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
            self._whole_bytes = end + head.length
