"""Paths and formats of a Python model's own: what GRPS calls custom HTTP.

    HttpRequest -> HttpCall -> dataplane -> PythonModel.http -> HttpReply -> HttpResponse

A model says at which path it answers; GET and POST are handed to it as they are. Errors that it
does not answer itself are JSON, as everywhere. Source: GRPS interface, "custom HTTP"; R3-110 to
R3-112.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import parse_qsl, unquote

from moorage_runtime import errors
from moorage_runtime.frontends.grps_calls import GrpsCalls, status_of
from moorage_runtime.frontends.http.faults import render_json
from moorage_runtime.frontends.http.message import (
    Answer,
    HttpRequest,
    HttpResponse,
    StreamingResponse,
)
from moorage_runtime.inference import HttpCall, HttpReply

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

_METHODS: Final = ("GET", "POST")


class CustomHttpFrontend:
    """Answers at the paths that models name, and 404 at all others."""

    def __init__(self, dataplane: "Dataplane") -> None:
        self._dataplane = dataplane
        self._calls = GrpsCalls(dataplane)

    async def handle(self, request: HttpRequest) -> Answer:
        """The answer of the model that the query names, else of the one with this path."""
        path = unquote(request.path)
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
        """The answer of this model."""
        if request.method not in _METHODS:
            message = f"method {request.method} is not allowed on {request.path}; use GET or POST"
            refused = render_json(request.path, 405, message)
            refused.headers = ((b"Allow", b"GET, HEAD, POST"),)
            return refused
        call = HttpCall(
            request.method,
            unquote(request.path),
            dict(parse_qsl(request.query, keep_blank_values=True)),
            dict(request.headers),
            bytes(request.body),
        )
        replies = cast("AsyncGenerator[HttpReply]", self._dataplane.http(name, version, call))
        try:
            reply = await anext(replies)
        except errors.RuntimeFault as fault:
            return _failure(request, fault)
        content_type = reply.content_type.encode("latin-1", "replace")
        if isinstance(reply.body, bytes):
            await replies.aclose()
            return HttpResponse(reply.status, reply.body, content_type)
        return StreamingResponse(reply.status, _chunks(replies), content_type)


def _failure(request: HttpRequest, fault: errors.RuntimeFault) -> HttpResponse:
    status = status_of(fault)
    return render_json(request.path, status.code, status.msg)


async def _chunks(replies: AsyncGenerator[HttpReply]) -> AsyncIterator[bytes]:
    async with aclosing(replies):
        async for part in replies:
            if isinstance(part.body, bytes) and part.body:
                yield part.body
