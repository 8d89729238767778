"""The Open Inference Protocol over HTTP: all paths below ``/v2``.

::

    HttpRequest -> route -> codec.oip.request -> dataplane -> codec.oip.response -> HttpResponse

Health and metadata are answered at once; inference is awaited. The codec interprets bytes; this
module maps paths to endpoints and errors to statuses.

Source: OIP, HTTP/REST; binary tensor data extension.
"""

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.oip import path as oip_path
from moorage_runtime.codec.oip import request as oip_request
from moorage_runtime.codec.oip import response as oip_response
from moorage_runtime.codec.oip.path import Endpoint, Target
from moorage_runtime.codec.oip.request import ALL_JSON, Decoded
from moorage_runtime.codec.unpack import limits
from moorage_runtime.frontends.http.message import OCTET_STREAM, HttpRequest, HttpResponse
from moorage_runtime.frontends.http.serialization import RETRY_SOON, body_parts
from moorage_runtime.frontends.status_codes import HTTP_STATUS
from moorage_runtime.values import errors
from moorage_runtime.values.inference import InferResponse
from moorage_runtime.values.tensors import Datatype

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

# Accessing a member through its enum costs as much as a small function call.
_INFER: Final = Endpoint.INFER
_BYTES: Final = Datatype.BYTES
_LIVE: Final = b'{"live":true}'
_NOT_LIVE: Final = b'{"live":false}'
# Spec: the member of the ready response is "live". Peers: they use "ready". We: both.
_READY: Final = b'{"live":true,"ready":true}'
_NOT_READY: Final = b'{"live":false,"ready":false}'
_JSON_HEADER: Final = "inference-header-content-length"
# Parsing and encoding this much takes milliseconds, which would delay health checks.
_INLINE_BYTES: Final = 256 * 1024
# 8 bytes per element, encoded as JSON or stored as a string.
_INLINE_ELEMENTS: Final = _INLINE_BYTES // 8
# Binary data of numbers is not copied, but that of strings is parsed one by one.
_INLINE_BINARY_BYTES: Final = 1024 * 1024
# The last field of a UUID.
_NODE_DIGITS: Final = 12


def answer_ids() -> Callable[[], str]:
    """Generates UUIDs (version 4) for responses without an id of their own.

    They only identify responses, so the first is random and the others count up from it: a random
    one for each response would take a microsecond.
    """
    first = uuid.uuid4()
    form = str(first)[:-_NODE_DIGITS] + f"%0{_NODE_DIGITS}x"
    # far from the end of its digits, so no process reaches it
    return map(form.__mod__, itertools.count(first.node >> 1)).__next__


class OipRestFrontend:
    """Answers the requests below ``/v2``.

    Args:
        dataplane: The models.
        new_id: Generates the id of a response whose request has none.
        json_bytes: Maximum size of the JSON text in a request.
    """

    def __init__(
        self,
        dataplane: "Dataplane",
        new_id: Callable[[], str] | None = None,
        *,
        json_bytes: int = limits.JSON_BYTES,
    ) -> None:
        self._dataplane = dataplane
        self._json_bytes = json_bytes
        self._new_id = new_id or answer_ids()

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """The response to one request."""
        try:
            target = oip_path.parse(request.path)
            if target.endpoint is _INFER and request.method == "POST":
                return self._infer(target, request)
            if request.method != oip_path.METHOD[target.endpoint]:
                return _wrong_method(request, target)
            return self._describe(target)
        except errors.RuntimeFault as fault:
            return error_response(fault)

    def _describe(self, target: Target) -> HttpResponse:
        match target.endpoint:
            case Endpoint.LIVE:
                is_live = self._dataplane.live()
                return HttpResponse(200 if is_live else 503, _LIVE if is_live else _NOT_LIVE)
            case Endpoint.READY:
                is_ready = self._dataplane.ready()
                problem = self._dataplane.repository_problem()
                body = _READY if is_ready else _NOT_READY
                if problem:
                    body = oip_response.encode_server_ready(problem, is_ready=is_ready)
                return HttpResponse(200 if is_ready else 503, body)
            case Endpoint.MODEL_READY:
                status = self._dataplane.model_ready(target.model, target.version)
                body = oip_response.encode_model_ready(target.model, status)
                return HttpResponse(200 if status.state == "READY" else 503, body)
            case Endpoint.SERVER_METADATA:
                metadata = self._dataplane.server_metadata()
                return HttpResponse(200, oip_response.encode_server_metadata(metadata))
            case _:
                model = self._dataplane.model_metadata(target.model, target.version)
                return HttpResponse(200, oip_response.encode_model_metadata(model, target.version))

    def _infer(
        self, target: Target, request: HttpRequest
    ) -> HttpResponse | Awaitable[HttpResponse]:
        """The response, at once if no step takes time, which saves a task."""
        decoded = self._decode(target, request)
        if not isinstance(decoded, Decoded):
            return self._infer_later(decoded)
        response = self._dataplane.begin(decoded.request)
        if isinstance(response, InferResponse) and not _is_large(response, decoded.form):
            given = decoded.request.id
            answer_id = self._new_id() if given is None else given
            return _success(oip_response.encode(response, decoded.form, answer_id))
        return self._encode_later(response, decoded)

    async def _infer_later(self, decoding: Awaitable[Decoded]) -> HttpResponse:
        try:
            decoded = await decoding
            response = self._dataplane.begin(decoded.request)
        except errors.RuntimeFault as fault:
            return error_response(fault)
        return await self._encode_later(response, decoded)

    async def _encode_later(
        self, response: InferResponse | Awaitable[InferResponse], decoded: Decoded
    ) -> HttpResponse:
        try:
            if not isinstance(response, InferResponse):
                response = await response
            given = decoded.request.id
            answer_id = self._new_id() if given is None else given
            arguments = (response, decoded.form, answer_id)
            if _is_large(response, decoded.form):
                return _success(await asyncio.to_thread(oip_response.encode, *arguments))
            return _success(oip_response.encode(*arguments))
        except errors.RuntimeFault as fault:
            return error_response(fault)

    def _decode(self, target: Target, request: HttpRequest) -> Decoded | Awaitable[Decoded]:
        body = request.body
        header = request.headers.get(_JSON_HEADER)
        json_bytes, size = None, len(body)
        if header is not None:
            json_bytes = size = oip_request.parse_header_length(header, size)
            if json_bytes == 0:
                metadata = self._dataplane.model_metadata(target.model, target.version)
                return oip_request.decode_raw(body, target.version, metadata)
        json_text.check_size(size, self._json_bytes)
        if size > _INLINE_BYTES or len(body) > _INLINE_BINARY_BYTES:
            return asyncio.to_thread(
                oip_request.decode, body, json_bytes, target.model, target.version
            )
        return oip_request.decode(body, json_bytes, target.model, target.version)


def error_response(fault: errors.RuntimeFault) -> HttpResponse:
    """``{"error": message}`` with the status of the fault's class, or its nearest base."""
    status = errors.nearest(HTTP_STATUS, fault)
    further = RETRY_SOON if isinstance(fault, errors.Unavailable) else ()
    return HttpResponse(status, oip_response.encode_error(fault.message), headers=further)


def _success(encoded: oip_response.Encoded) -> HttpResponse:
    if not encoded.is_binary:
        return HttpResponse(200, encoded.text)
    text = body_parts(encoded.text)
    size = b"%d" % sum(map(len, text))
    further = ((b"Inference-Header-Content-Length", size),)
    return HttpResponse(200, (*text, *encoded.parts), OCTET_STREAM, further)


def _wrong_method(request: HttpRequest, target: Target) -> HttpResponse:
    right = oip_path.METHOD[target.endpoint]
    message = f"method {request.method} is not allowed on {request.path}: use {right}"
    allowed = b"GET, HEAD" if right == "GET" else right.encode()
    return HttpResponse(405, oip_response.encode_error(message), headers=((b"Allow", allowed),))


def _is_large(response: InferResponse, form: oip_request.OutputForm) -> bool:
    """Whether encoding takes long."""
    count = 0
    for tensor in response.outputs:
        if form is not ALL_JSON and form.overrides.get(tensor.name, form.binary):
            continue
        count += tensor.array.size
        if count > _INLINE_ELEMENTS:  # adding the lengths of this many would take long
            return True
        if tensor.datatype is _BYTES:
            count += sum(map(len, tensor.array.reshape(-1))) // 8
    return count > _INLINE_ELEMENTS
