"""What the reader of a connection hands on: requests, and the refusal that ends them.

RequestReader -> Received | Refusal -> Connection
"""

from collections.abc import Callable

import msgspec

from moorage_runtime.frontends.http.message import HttpRequest


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


class Received(msgspec.Struct, frozen=True, gc=False):
    """A complete request.

    Attributes:
        head: As the client sent it.
        request: As the frontends see it; HEAD has become GET.
    """

    head: Head
    request: HttpRequest


class Refusal(msgspec.Struct, frozen=True):
    """A request that is answered with an error; nothing after it is read.

    Attributes:
        status: HTTP status code.
        message: Text for the client.
        path: Path of the request as far as it is known, "" otherwise.
        headers: Further headers of the answer.
    """

    status: int
    message: str
    path: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


# Looks at method, path and headers before the body is read; a Refusal ends the request.
Admission = Callable[[str, str, dict[str, str]], Refusal | None]
