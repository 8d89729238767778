"""What the reader of a connection hands on: requests, and the refusal that ends them.

RequestReader -> Received | Refusal -> Connection
"""

from collections.abc import Callable

import msgspec

from moorage_runtime.frontends.http.heads import Head
from moorage_runtime.frontends.http.message import HttpRequest


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
