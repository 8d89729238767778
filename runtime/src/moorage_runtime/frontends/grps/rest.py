"""GRPS over HTTP: all paths below ``/grps/v1``.

    HttpRequest -> codec.grps.json_form -> grps.calls -> codec.grps.json_form -> HttpResponse

Every response, except raw bytes, is a GrpsMessage whose status code is the HTTP status.

Source: GRPS interface, "RESTful interface", "streaming", "custom HTTP".
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

import msgspec

from moorage_runtime.codec.grps import json_form as grps_json
from moorage_runtime.codec.grps import mapping as grps_mapping
from moorage_runtime.codec.grps import message as grps_message
from moorage_runtime.codec.grps.message import OK, Blob, Data, Message, Status
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.unpack import limits
from moorage_runtime.frontends.grps.calls import NOT_READY, GrpsCalls, status_of
from moorage_runtime.frontends.grps.custom_http import CustomHttpFrontend
from moorage_runtime.frontends.http.message import (
    JSON,
    OCTET_STREAM,
    Answer,
    HttpRequest,
    HttpResponse,
    StreamingResponse,
)
from moorage_runtime.values.errors import (
    InvalidRequest,
    ModelFailed,
    PayloadTooLarge,
    RuntimeFault,
)

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

Method = Callable[[HttpRequest], Answer | Awaitable[Answer]]
_PREFIX: Final = "/grps/v1/"
# Parsing and encoding this much takes milliseconds, which would delay health checks.
_INLINE_BYTES: Final = 256 * 1024
_NO_QUERY: Final[Mapping[str, list[str]]] = MappingProxyType({})
_JSON_TYPE: Final = "application/json"
_EITHER: Final = ("GET", "POST")


class StreamingControl(msgspec.Struct, frozen=True):
    """How a client requests a stream from predict (R3-082).

    Attributes:
        by: "query" or "header" with the value "true" in any case; "body" with a JSON boolean.
        key: Name of the parameter, the header or the member.
        content_type: Content-Type of a stream.
    """

    by: str = "query"
    key: str = "streaming"
    content_type: str = OCTET_STREAM.decode()


DEFAULT_STREAMING: Final = StreamingControl()


class GrpsRestFrontend:
    """Answers the requests below ``/grps/v1``.

    Args:
        dataplane: The models.
        streaming: How a client requests a stream.
        custom: Handles models that answer the predict path in their own format.
        json_bytes: Maximum size of the JSON text in a request.
        may_switch: Whether clients may take the server offline and online.
    """

    def __init__(
        self,
        dataplane: "Dataplane",
        streaming: StreamingControl = DEFAULT_STREAMING,
        custom: CustomHttpFrontend | None = None,
        *,
        json_bytes: int = limits.JSON_BYTES,
        may_switch: bool = True,
    ) -> None:
        self._dataplane = dataplane
        self._json_bytes = json_bytes
        self._streaming = streaming
        self._custom = custom
        self._calls = GrpsCalls(dataplane, may_switch=may_switch)
        self._routes: Mapping[str, tuple[tuple[str, ...], Method]] = MappingProxyType(
            {
                "health/online": (_EITHER, self._online),
                "health/offline": (_EITHER, self._offline),
                "health/live": (_EITHER, self._live),
                "health/ready": (_EITHER, self._ready),
                "metadata/server": (_EITHER, self._server_metadata),
                "metadata/model": (("POST",), self._model_metadata),
                "infer/predict": (("POST",), self._predict),
            }
        )

    def handle(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """The response to one request; health and metadata at once, inference later."""
        route = self._routes.get(request.path.removeprefix(_PREFIX))
        if route is None:
            return fault(request.path, 404, f"no such path: {request.path}")
        methods, method = route
        if request.method not in methods:
            allowed = ", ".join(methods)
            answer = fault(
                request.path,
                405,
                f"method {request.method} is not allowed on {request.path}: use {allowed}",
            )
            answer.headers = ((b"Allow", allowed.encode()),)
            return answer
        try:
            return method(request)
        except RuntimeFault as error:
            return _failure(error)

    async def _online(self, _: HttpRequest) -> HttpResponse:
        return await _switched(self._calls.online())

    async def _offline(self, _: HttpRequest) -> HttpResponse:
        return await _switched(self._calls.offline())

    def _live(self, _: HttpRequest) -> HttpResponse:
        return _answer(OK, None)

    def _ready(self, _: HttpRequest) -> HttpResponse:
        return _answer(OK if self._calls.is_ready() else NOT_READY, None)

    def _server_metadata(self, _: HttpRequest) -> HttpResponse:
        return _answer(OK, self._calls.server_metadata())

    def _model_metadata(self, request: HttpRequest) -> HttpResponse:
        size = len(request.body)
        if size > _INLINE_BYTES:
            raise PayloadTooLarge(
                f"the body has {size} bytes: must have {_INLINE_BYTES} or fewer on this path"
            )
        return _answer(OK, self._calls.model_metadata(grps_json.decode(request.body)))

    def _predict(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """The response, at once if no step takes time, which saves a task."""
        query = parse_qs(request.query, keep_blank_values=True) if request.query else _NO_QUERY
        if self._custom is not None and (chosen := self._custom_model(query)):
            return self._custom.answer(*chosen, request)
        if _media_type(request) == _JSON_TYPE:
            json_text.check_size(len(request.body), self._json_bytes)
        nests = _is_true(query, "return-ndarray")
        if len(request.body) > _INLINE_BYTES or self._asks_stream(request, query):
            return self._predict_later(request, query, nests=nests)
        data = self._calls.begin(_named(_decode(request), query))
        if isinstance(data, Awaitable) or grps_message.size_bytes(data) > _INLINE_BYTES:
            return _print_later(data, nests=nests)
        return _answer(OK, grps_mapping.nested_of(data) if nests else data)

    async def _predict_later(
        self, request: HttpRequest, query: Mapping[str, list[str]], *, nests: bool
    ) -> Answer:
        try:
            if len(request.body) > _INLINE_BYTES:
                streams = await asyncio.to_thread(self._asks_stream, request, query)
            else:
                streams = self._asks_stream(request, query)
            if streams and nests:
                raise InvalidRequest(
                    "streaming and return-ndarray exclude each other: set only one"
                )
            if len(request.body) > _INLINE_BYTES:
                message = await asyncio.to_thread(_decode, request)
            else:
                message = _decode(request)
            message = _named(message, query)
            if streams:
                return await self._stream(message)
            return await _print_later(self._calls.begin(message), nests=nests)
        except RuntimeFault as error:
            return _failure(error)

    def _custom_model(self, query: Mapping[str, list[str]]) -> tuple[str, str] | None:
        """The model of this request, if it answers the predict path in its own format.

        Only the query can name it, because the body belongs to the model (R3-111).
        """
        asked = query.get("model", [""])[-1]
        try:
            name, version = self._calls.find(asked)
            metadata = self._dataplane.model_metadata(name, version)
        except RuntimeFault:
            # the usual path reports the error, or finds the model in the body
            return None
        return (name, version) if metadata.http_predict else None

    def _asks_stream(self, request: HttpRequest, query: Mapping[str, list[str]]) -> bool:
        control = self._streaming
        match control.by:
            case "header":
                return request.headers.get(control.key.lower(), "").lower() == "true"
            case "body":
                is_json = _media_type(request) == _JSON_TYPE
                return is_json and grps_json.decode_flag(request.body, control.key)
            case _:
                return _is_true(query, control.key)

    async def _stream(self, message: Message) -> Answer:
        """Stream the response; an error before the first part is a usual response."""
        parts = self._calls.predict_stream(message)
        try:
            first = _chunk(OK, await anext(parts))
        except StopAsyncIteration as end:
            raise ModelFailed("the model returned an empty stream") from end
        content_type = self._streaming.content_type.encode("latin-1", "replace")
        return StreamingResponse(200, _chunks(first, parts), content_type)


async def _switched(switching: Awaitable[None]) -> HttpResponse:
    try:
        await switching
    except RuntimeFault as error:
        return _failure(error)
    return _answer(OK, None)


async def _print_later(data: Data | Awaitable[Data], *, nests: bool) -> Answer:
    try:
        if isinstance(data, Awaitable):
            data = await data
        if nests:
            data = grps_mapping.nested_of(data)
        if grps_message.size_bytes(data) > _INLINE_BYTES:
            return await asyncio.to_thread(_answer, OK, data)
        return _answer(OK, data)
    except RuntimeFault as error:
        return _failure(error)


def _named(message: Message, query: Mapping[str, list[str]]) -> Message:
    """The message, with the model of the query if it names none itself."""
    if message.model or "model" not in query:
        return message
    return msgspec.structs.replace(message, model=query["model"][-1])


def fault(path: str, status: int, message: str) -> HttpResponse:  # noqa: ARG001 - a FaultRenderer
    """A failed GrpsMessage, for errors before a method is called."""
    return _answer(Status(status, message), None)


def _failure(error: RuntimeFault) -> HttpResponse:
    return _answer(status_of(error), None)


def _answer(status: Status, data: Data | None) -> HttpResponse:
    if isinstance(data, Blob):
        return HttpResponse(status.code, data.value, OCTET_STREAM)
    return HttpResponse(status.code, grps_json.encode(status, data), JSON)


async def _chunks(first: bytes, parts: AsyncGenerator[Data]) -> AsyncIterator[bytes]:
    async with aclosing(parts):
        yield first
        try:
            async for data in parts:
                yield _chunk(OK, data)
        except RuntimeFault as error:
            yield _chunk(status_of(error), None)


def _chunk(status: Status, data: Data | None) -> bytes:
    """One message of a stream: raw bytes, or a line of JSON."""
    if isinstance(data, Blob):
        return data.value
    return grps_json.encode(status, data) + b"\n"


def _media_type(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _decode(request: HttpRequest) -> Message:
    given = request.headers.get("content-type", "")
    match _media_type(request):
        case "application/json":
            return grps_json.decode(request.body)
        case "application/octet-stream":
            if not request.body:
                raise InvalidRequest(
                    "the request body is empty: must contain the bytes of bin_data"
                )
            return Message("", Blob(bytes(request.body)))
        case _:
            raise InvalidRequest(
                f"Content-Type is {given[:100]!r}: must be application/json or "
                "application/octet-stream"
            )


def _is_true(query: Mapping[str, list[str]], name: str) -> bool:
    return name in query and query[name][-1].lower() == "true"
