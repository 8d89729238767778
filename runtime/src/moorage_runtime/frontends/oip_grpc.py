"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``.

    bytes -> codec.oip_proto -> dataplane -> codec.oip_proto -> bytes

Methods raise ``errors.RuntimeFault``; the transport turns it into the call's status. Not ready is
an answer, not an error. A quick model is answered where its request was read, without a task.

Source: OIP, gRPC; Triton's decoupled models for ``ModelStreamInfer``: any number of answers to
each request of a stream, an error in place of an answer, and on demand an empty last answer.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

import msgspec

from moorage_runtime.codec import oip_proto
from moorage_runtime.errors import RuntimeFault
from moorage_runtime.frontends.grpc.methods import GrpcService, Message
from moorage_runtime.inference import InferRequest, InferResponse
from moorage_runtime.tensors import Datatype

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NAME: Final = "inference.GRPCInferenceService"
# Triton's parameters: a request asks for a last answer without tensors, and that answer says so.
_ASKS_FOR_FINAL: Final = "triton_enable_empty_final_response"
_IS_FINAL: Final = "triton_final_response"
# Messages of this size take milliseconds to convert, which health checks would wait for.
_INLINE_BYTES: Final = 1024 * 1024


def service(dataplane: "Dataplane") -> GrpcService:
    """The service's seven methods."""
    methods = _Methods(dataplane)
    return GrpcService(
        NAME,
        {
            "ServerLive": methods.server_live,
            "ServerReady": methods.server_ready,
            "ModelReady": methods.model_ready,
            "ServerMetadata": methods.server_metadata,
            "ModelMetadata": methods.model_metadata,
            "ModelInfer": methods.model_infer,
        },
        duplexes={"ModelStreamInfer": methods.model_stream_infer},
    )


class _Methods:
    """Each method takes and returns one serialized message."""

    def __init__(self, dataplane: "Dataplane") -> None:
        self._dataplane = dataplane

    def server_live(self, data: Message) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_live(is_live=self._dataplane.live())

    def server_ready(self, data: Message) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_ready(is_ready=self._dataplane.ready())

    def model_ready(self, data: Message) -> bytes:
        model = oip_proto.decode_model_ready(data)
        status = self._dataplane.model_ready(model.name, model.version)
        return oip_proto.encode_model_ready(is_ready=status.state == "READY")

    def server_metadata(self, data: Message) -> bytes:
        oip_proto.check_empty(data)
        return oip_proto.encode_server_metadata(self._dataplane.server_metadata())

    def model_metadata(self, data: Message) -> bytes:
        model = oip_proto.decode_model_metadata(data)
        metadata = self._dataplane.model_metadata(model.name, model.version)
        return oip_proto.encode_model_metadata(metadata, model.version)

    def model_infer(self, data: Message) -> bytes | Awaitable[bytes]:
        if len(data) > _INLINE_BYTES:
            return self._decode_and_infer(data)
        decoded = oip_proto.decode_infer(data)
        begun = self._dataplane.begin(decoded.request)
        if isinstance(begun, InferResponse) and _size_bytes(begun) <= _INLINE_BYTES:
            return _encode(begun, decoded)
        return self._finish(begun, decoded)

    async def model_stream_infer(self, asked: AsyncIterator[Message]) -> AsyncIterator[bytes]:
        async for data in asked:
            try:
                decoded = await _decode(data)
            except RuntimeFault as fault:
                yield oip_proto.encode_stream_fault(fault.message, None)
                continue
            async with aclosing(self._answers(decoded)) as answers:
                async for answer in answers:
                    yield answer

    async def _answers(self, decoded: oip_proto.Decoded) -> AsyncGenerator[bytes]:
        """The answers to one request of a stream."""
        request = decoded.request
        version = request.model_version
        try:
            # what is typed as an iterator is a generator, and must not outlive the stream
            stream = cast("AsyncGenerator[InferResponse]", self._dataplane.infer_stream(request))
            async with aclosing(stream) as parts:
                async for part in parts:
                    version = part.model_version
                    yield oip_proto.encode_stream_answer(await _encode_aside(part, decoded))
        except RuntimeFault as fault:
            yield oip_proto.encode_stream_fault(fault.message, request.id)
        else:
            if request.parameters.get(_ASKS_FOR_FINAL) is True:
                yield oip_proto.encode_stream_answer(_encode(_final(request, version), decoded))

    async def _decode_and_infer(self, data: Message) -> bytes:
        decoded = await _decode(data)
        return await self._finish(self._dataplane.begin(decoded.request), decoded)

    async def _finish(
        self, begun: InferResponse | Awaitable[InferResponse], decoded: oip_proto.Decoded
    ) -> bytes:
        response = begun if isinstance(begun, InferResponse) else await begun
        return await _encode_aside(response, decoded)


async def _decode(data: Message) -> oip_proto.Decoded:
    if len(data) > _INLINE_BYTES:
        return await asyncio.to_thread(oip_proto.decode_infer, data)
    return oip_proto.decode_infer(data)


def _encode(response: InferResponse, decoded: oip_proto.Decoded) -> bytes:
    if response.id != decoded.request.id:
        # the id is the client's, whatever became of it on the way
        response = msgspec.structs.replace(response, id=decoded.request.id)
    return oip_proto.encode_infer(response, wants_raw=decoded.wants_raw)


async def _encode_aside(response: InferResponse, decoded: oip_proto.Decoded) -> bytes:
    if _size_bytes(response) > _INLINE_BYTES:
        return await asyncio.to_thread(_encode, response, decoded)
    return _encode(response, decoded)


def _final(request: InferRequest, version: str) -> InferResponse:
    return InferResponse(request.model_name, version, (), request.id, {_IS_FINAL: True})


def _size_bytes(response: InferResponse) -> int:
    """About the size of the answer's tensors; of many strings, that of their pointers."""
    size = 0
    for tensor in response.outputs:
        size += tensor.array.nbytes
        if tensor.datatype is Datatype.BYTES and size <= _INLINE_BYTES:
            size += sum(map(len, tensor.array.reshape(-1)))
    return size
