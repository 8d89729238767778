"""A Python model's own paths and formats, which GRPS calls custom HTTP.

    HttpRequest -> HttpCall -> dataplane -> PythonModel.http -> HttpReply -> HttpResponse

A model declares its path and receives GET and POST requests unchanged. Errors that it does not
handle itself are JSON, as everywhere. Source: GRPS interface, "custom HTTP"; R3-110 to R3-112.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl

from moorage_runtime.codec.url_text import decoded
from moorage_runtime.frontends.grps.calls import GrpsCalls, status_of
from moorage_runtime.frontends.http.faults import render_json
from moorage_runtime.frontends.http.message import (
    Answer,
    HttpRequest,
    HttpResponse,
    StreamingResponse,
)
from moorage_runtime.values import errors
from moorage_runtime.values.inference import HttpCall, HttpReply

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

_METHODS: Final = ("GET", "POST")
_SHOWN_CHARACTERS: Final = 60


class CustomHttpFrontend:
    """Answers the paths of models, and 404 for all others."""

    def __init__(self, dataplane: "Dataplane") -> None:
        self._dataplane = dataplane
        self._calls = GrpsCalls(dataplane)

    async def handle(self, request: HttpRequest) -> Answer:
        """The response of the model in the query, otherwise of the model with this path."""
        path = decoded(request.path)
        asked = dict(parse_qsl(request.query)).get("model", "")
        try:
            if asked:
                name, version = self._calls.find(asked)
                at = self._dataplane.model_metadata(name, version).http_path
            else:
                name, version = self._dataplane.http_model(path), ""
                at = path
            if name is None or at != path:
                raise errors.NotFound(f"no such path: {request.path}")
            return await self.answer(name, version, request)
        except errors.RuntimeFault as fault:
            return _failure(request, fault)

    async def answer(self, name: str, version: str, request: HttpRequest) -> Answer:
        """The response of this model."""
        if request.method not in _METHODS:
            message = f"method {request.method} is not allowed on {request.path}; use GET or POST"
            refused = render_json(request.path, 405, message)
            refused.headers = ((b"Allow", b"GET, HEAD, POST"),)
            return refused
        call = HttpCall(
            request.method,
            decoded(request.path),
            dict(parse_qsl(request.query, keep_blank_values=True)),
            dict(request.headers),
            bytes(request.body),
        )
        replies = cast("AsyncGenerator[HttpReply]", self._dataplane.http(name, version, call))
        try:
            reply = await anext(replies)
        except errors.RuntimeFault as fault:
            return _failure(request, fault)
        try:
            content_type = _content_type(reply)
        except errors.RuntimeFault as fault:
            await replies.aclose()
            return _failure(request, fault)
        if isinstance(reply.body, bytes):
            await replies.aclose()
            return HttpResponse(reply.status, reply.body, content_type)
        return StreamingResponse(reply.status, _chunks(replies), content_type)


def _content_type(reply: HttpReply) -> bytes:
    """The header's value; a line break in it would start another header."""
    text = reply.content_type
    if not text or not text.isprintable():
        raise errors.ModelFailed(
            f"the model's content type is {text[:_SHOWN_CHARACTERS]!r}: must be printable text"
        )
    return text.encode("latin-1", "replace")


def _failure(request: HttpRequest, fault: errors.RuntimeFault) -> HttpResponse:
    status = status_of(fault)
    return render_json(request.path, status.code, status.msg)


async def _chunks(replies: AsyncGenerator[HttpReply]) -> AsyncIterator[bytes]:
    async with aclosing(replies):
        async for part in replies:
            if isinstance(part.body, bytes) and part.body:
                yield part.body
