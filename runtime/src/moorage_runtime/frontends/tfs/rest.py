"""TensorFlow Serving's REST API over HTTP: ``/v1/models/...``.

    HttpRequest -> target, document -> tensors -> dataplane -> tensors -> document -> HttpResponse

``codec.tfs`` interprets documents; this module maps requests to model versions and errors to
statuses, and calls the dataplane.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec
import orjson

from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.tfs import document as tfs_document
from moorage_runtime.codec.tfs import examples as tfs_examples
from moorage_runtime.codec.tfs import path as tfs_path
from moorage_runtime.codec.tfs import predict_request as tfs_predict_request
from moorage_runtime.codec.tfs import predict_response as tfs_predict_response
from moorage_runtime.codec.tfs import results as tfs_results
from moorage_runtime.codec.tfs import signatures as tfs_signatures
from moorage_runtime.codec.tfs import status as tfs_status
from moorage_runtime.codec.tfs import versions as tfs_versions
from moorage_runtime.codec.tfs.path import Operation, Target
from moorage_runtime.codec.tfs.signatures import BoundSignature
from moorage_runtime.codec.unpack import limits
from moorage_runtime.frontends import status_codes
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse
from moorage_runtime.values import errors
from moorage_runtime.values.inference import (
    NO_VERSION_NUMBERS,
    InferRequest,
    InferResponse,
    ModelMetadata,
    ModelStatus,
)
from moorage_runtime.values.tensors import Tensor

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

# Spec: TensorFlow Serving's table from status code to HTTP. Peers: a model that is loading is 404.
# We: 503 for inference, because the client should retry; 404 for metadata, which clients poll.
HTTP_STATUS: Final[Mapping[type[errors.RuntimeFault], int]] = MappingProxyType(
    {**status_codes.HTTP_STATUS, errors.UnsupportedDatatype: 501}
)


class TfsRestFrontend:
    """Answers the requests below ``/v1/models``.

    Args:
        dataplane: The models.
        json_bytes: Maximum size of the JSON text in a request.
    """

    def __init__(self, dataplane: "Dataplane", *, json_bytes: int = limits.JSON_BYTES) -> None:
        self._dataplane = dataplane
        self._json_bytes = json_bytes
        self._signatures = SignatureMemo()

    def handle(self, request: HttpRequest) -> HttpResponse | Awaitable[HttpResponse]:
        """The response to one request; status and metadata at once, inference later."""
        try:
            target = tfs_path.parse_target(request.method, request.path)
            match target.operation:
                case Operation.STATUS:
                    return HttpResponse(200, self._status(target))
                case Operation.METADATA:
                    return HttpResponse(200, self._metadata(target))
                case Operation.PREDICT | Operation.CLASSIFY | Operation.REGRESS:
                    return self._infer(target, request.body)
                case _:
                    assert_never(target.operation)
        except errors.RuntimeFault as fault:
            return error_response(fault)

    def _status(self, target: Target) -> bytes:
        numbered = self._numbered(target.model)
        if not numbered:
            self._dataplane.check_scanned()
            raise errors.ModelNotFound(f"Could not find any versions of model {target.model}")
        if target.label is not None:
            wanted = self._labelled(target.model, target.label)
            numbered = [pair for pair in numbered if pair[1].version == wanted]
        elif target.version is not None:
            numbered = [pair for pair in numbered if pair[0] == target.version]
        if not numbered:
            raise errors.VersionNotFound(
                f"Could not find version {_asked(target)} of model {target.model}"
            )
        return tfs_status.encode_status(numbered)

    def _metadata(self, target: Target) -> bytes:
        try:
            metadata = self._model(target)
        except (errors.ModelNotReady, errors.RepositoryUnread) as fault:
            raise errors.NotFound(_servable_not_found(target)) from fault
        numbers = {status.version: number for number, status in self._numbered(target.model)}
        return tfs_status.encode_metadata(metadata, numbers[metadata.version])

    def _infer(
        self, target: Target, body: json_text.Buffer
    ) -> HttpResponse | Awaitable[HttpResponse]:
        """The response, at once if no step takes time, which saves a task."""
        json_text.check_size(len(body), self._json_bytes)
        if len(body) > _INLINE_BYTES:
            return self._infer_later(target, body)
        document = tfs_document.parse_object(body)
        metadata, signature = self._signature(target, document)
        call = _decode(target, document, metadata, signature)
        response = self._dataplane.begin(call.request)
        if isinstance(response, InferResponse) and not _is_large(response):
            return HttpResponse(200, call.encode(response.outputs))
        return self._encode_later(response, call)

    async def _infer_later(self, target: Target, body: json_text.Buffer) -> HttpResponse:
        try:
            document = await asyncio.to_thread(tfs_document.parse_object, body)
            metadata, signature = self._signature(target, document)
            call = await asyncio.to_thread(_decode, target, document, metadata, signature)
            response = self._dataplane.begin(call.request)
        except errors.RuntimeFault as fault:
            return error_response(fault)
        return await self._encode_later(response, call)

    async def _encode_later(
        self, response: InferResponse | Awaitable[InferResponse], call: "Call"
    ) -> HttpResponse:
        try:
            if not isinstance(response, InferResponse):
                response = await response
            if _is_large(response):
                return HttpResponse(200, await asyncio.to_thread(call.encode, response.outputs))
            return HttpResponse(200, call.encode(response.outputs))
        except errors.RuntimeFault as fault:
            return error_response(fault)

    def _signature(
        self, target: Target, document: dict[str, Any]
    ) -> tuple[ModelMetadata, BoundSignature]:
        name = tfs_document.parse_signature_name(document)
        metadata = self._model(target)
        signatures = self._signatures.of(metadata)
        method = _METHODS[target.operation]
        return metadata, tfs_signatures.select_signature(signatures, name, method)

    def _model(self, target: Target) -> ModelMetadata:
        """The metadata of the version in the URL."""
        try:
            return self._dataplane.model_metadata(target.model, self._version(target))
        except (errors.ModelNotFound, errors.VersionNotFound) as fault:
            raise type(fault)(_servable_not_found(target)) from fault

    def _version(self, target: Target) -> str:
        """The registry's name of the version, or "" to let the server choose."""
        if target.label is not None:
            return self._labelled(target.model, target.label)
        if target.version is None:
            return ""
        version = str(target.version)
        try:
            self._dataplane.model_ready(target.model, version)
        except errors.VersionNotFound:
            # no version has exactly this name; it may be "v10", "010", or a rank
            for number, status in self._numbered(target.model):
                if number == target.version:
                    return status.version
            raise
        return version

    def _labelled(self, model: str, label: str) -> str:
        version = self._any_metadata(model).labels.get(label)
        if version is None:
            raise errors.InvalidRequest(f"Unrecognized servable version label: {label}")
        return version

    def _any_metadata(self, model: str) -> ModelMetadata:
        """Metadata of any ready version: labels and numbers belong to the whole model."""
        ready = (status.version for status in self._statuses(model) if status.state == "READY")
        return self._dataplane.model_metadata(model, next(ready, ""))

    def _numbered(self, model: str) -> list[tuple[int, ModelStatus]]:
        """Every known version of the model with its number."""
        statuses = {status.version: status for status in self._statuses(model)}
        try:
            configured = self._any_metadata(model).version_numbers
        except (errors.NotFound, errors.ModelNotReady):
            configured = NO_VERSION_NUMBERS
        numbers = tfs_versions.version_numbers(statuses, configured)
        return [(number, statuses[version]) for version, number in numbers.items()]

    def _statuses(self, model: str) -> list[ModelStatus]:
        return [status for status in self._dataplane.model_index() if status.name == model]


class Call(msgspec.Struct, frozen=True):
    """A decoded request, and how its response is encoded."""

    request: InferRequest
    encode: Callable[[Iterable[Tensor]], bytes]


class SignatureMemo:
    """Bound signatures, cached while a version's metadata is the same object."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[ModelMetadata, dict[str, BoundSignature]]] = {}

    def of(self, metadata: ModelMetadata) -> dict[str, BoundSignature]:
        """The signatures of a version.

        Raises:
            InvalidConfig: A declared signature names a tensor that the model does not have.
        """
        key = (metadata.name, metadata.version)
        kept = self._kept.get(key)
        if kept is None or kept[0] is not metadata:
            kept = (metadata, tfs_signatures.signatures_of(metadata))
            self._kept[key] = kept
        return kept[1]


_RESULT_ENCODERS: Final = MappingProxyType(
    {
        Operation.CLASSIFY: tfs_results.encode_classification,
        Operation.REGRESS: tfs_results.encode_regression,
    }
)
_METHODS: Final = MappingProxyType({operation: operation.name.lower() for operation in Operation})
# Parsing and encoding this much takes milliseconds, which would delay health checks.
_INLINE_BYTES: Final = 256 * 1024


def _decode(
    target: Target,
    document: dict[str, Any],
    metadata: ModelMetadata,
    signature: BoundSignature,
) -> Call:
    if target.operation is Operation.PREDICT:
        decoded = tfs_predict_request.decode_predict(document, signature)
        inputs = decoded.inputs
        encode: Callable[[Iterable[Tensor]], bytes] = functools.partial(
            tfs_predict_response.encode_predict, signature=signature, row=decoded.row
        )
    else:
        inputs = tfs_examples.decode_examples(document, signature)
        encode = functools.partial(
            _RESULT_ENCODERS[target.operation],
            signature=signature,
            batch=len(document["examples"]),
        )
    # the version is pinned: its signature decoded the request
    outputs = tfs_signatures.requested_outputs(signature)
    return Call(InferRequest(metadata.name, metadata.version, inputs, outputs), encode)


def _is_large(response: InferResponse) -> bool:
    """Whether encoding takes long, at 8 bytes per element."""
    return sum([tensor.array.size for tensor in response.outputs]) * 8 > _INLINE_BYTES


def error_response(fault: errors.RuntimeFault) -> HttpResponse:
    """``{"error": message}`` with the status of the fault's class, or its nearest base."""
    status = errors.nearest(HTTP_STATUS, fault)
    # a model's own error message may contain text that is not valid UTF-8
    message = fault.message.encode(errors="backslashreplace").decode()
    return HttpResponse(status, orjson.dumps({"error": message}))


def _servable_not_found(target: Target) -> str:
    asked = _asked(target)
    if asked is None:
        return f"Servable not found for request: Latest({target.model})"
    return f"Servable not found for request: Specific({target.model}, {asked})"


def _asked(target: Target) -> int | str | None:
    return target.version if target.label is None else target.label
