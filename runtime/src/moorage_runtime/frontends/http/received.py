"""The results of a connection's reader: requests, and the refusal that ends them.

RequestReader -> Received | Refusal -> Connection
"""

from collections.abc import Callable

import msgspec

from moorage_runtime.frontends.http.message import HttpRequest


class Received(msgspec.Struct, frozen=True, gc=False):
    """A complete request.

    Attributes:
        request: The request for the frontends; HEAD has become GET.
        is_head: The response has no body.
        keep_alive: The client wants to reuse the connection.
        is_http10: The client does not support chunked bodies.
        is_coded: The body has a Content-Encoding that must be decoded.
    """

    request: HttpRequest
    is_head: bool
    keep_alive: bool
    is_http10: bool
    is_coded: bool

    @property
    def is_plain(self) -> bool:
        """Whether the response ends by its Content-Length, and the connection stays open."""
        return self.keep_alive and not (self.is_http10 or self.is_head)


class Refusal(msgspec.Struct, frozen=True):
    """A request that is answered with an error; nothing after it is read.

    Attributes:
        status: HTTP status code.
        message: Text for the client.
        path: Path of the request, "" if unknown.
        headers: Further headers of the response.
    """

    status: int
    message: str
    path: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()


# Checks method, path and headers before the body is read; a Refusal ends the request.
Admission = Callable[[str, str, dict[str, str]], Refusal | None]
