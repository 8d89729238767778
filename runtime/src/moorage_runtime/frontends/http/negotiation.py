"""Applies content codings of requests and responses without delaying other requests.

``encoding`` does the work; this module decides when and in which thread.
"""

import asyncio
from typing import Final

from moorage_runtime.frontends import unpacking
from moorage_runtime.frontends.http import encoding, serialization
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse

# Above this size, a thread does the work, so that others wait for a few hundred microseconds at
# most.
_INLINE_BYTES: Final = 64 * 1024


async def decode(request: HttpRequest, limit_bytes: int) -> None:
    """Replace the request's body by the decompressed one.

    Raises:
        UnsupportedEncoding, PayloadTooLarge, InvalidRequest: As ``unpacking.inflate``.
    """
    coding = request.headers["content-encoding"]
    request.body = await unpacking.inflate(request.body, coding, limit_bytes)


def choose(answer: HttpResponse, request: HttpRequest, from_bytes: int | None) -> str:
    """The coding for the response body, "" for none."""
    if from_bytes is None or answer.status != 200:
        return ""
    if sum(map(len, serialization.body_parts(answer.body))) < from_bytes:
        return ""
    return encoding.choose(request.headers.get("accept-encoding", ""))


async def encode(answer: HttpResponse, coding: str) -> HttpResponse:
    """The response with its body compressed."""
    parts = list(serialization.body_parts(answer.body))
    if sum(map(len, parts)) > _INLINE_BYTES:
        body = await asyncio.to_thread(encoding.compress, parts, coding)
    else:
        body = encoding.compress(parts, coding)
    further = ((b"Content-Encoding", coding.encode()), (b"Vary", b"Accept-Encoding"))
    return HttpResponse(answer.status, body, answer.content_type, (*answer.headers, *further))
