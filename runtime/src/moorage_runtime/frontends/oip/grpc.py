"""The Open Inference Protocol over gRPC: ``inference.GRPCInferenceService``.

    bytes -> codec.oip.proto -> dataplane -> codec.oip.proto -> bytes

Methods raise ``errors.RuntimeFault``; the transport turns it into the call's status. "Not ready"
is a response, not an error. Short runs are answered where the request is read, without a task.

Source: OIP, gRPC; Triton's decoupled models for ``ModelStreamInfer``: any number of responses to
each request of a stream, an error instead of a response, and on request an empty last response.
Requests of a stream run concurrently, and their responses may interleave.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

import msgspec

from moorage_runtime.codec.oip import proto as oip_proto
from moorage_runtime.frontends.grpc.methods import GrpcService, Message
from moorage_runtime.values.errors import RuntimeFault
from moorage_runtime.values.inference import InferRequest, InferResponse
from moorage_runtime.values.tensors import Datatype, Parameter

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

NAME: Final = "inference.GRPCInferenceService"
# Triton's parameters: a request asks for a last response without tensors, and that response is
# marked.
_ASKS_FOR_FINAL: Final = "triton_enable_empty_final_response"
_IS_FINAL: Final = "triton_final_response"
# Messages of this size take milliseconds to convert, which would delay health checks.
_INLINE_BYTES: Final = 1024 * 1024
# Maximum number of concurrent requests of one stream; further ones are not read.
_STREAM_REQUESTS: Final = 64
_SEQUENCE: Final = "sequence_id"


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
    """The methods; each takes and returns one serialized message."""

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
        if _is_slow(data):
            return self._decode_and_infer(data)
        decoded = oip_proto.decode_infer(data)
        begun = self._dataplane.begin(decoded.request)
        if isinstance(begun, InferResponse) and _size_bytes(begun) <= _INLINE_BYTES:
            return _encode(begun, decoded)
        return self._finish(begun, decoded)

    async def model_stream_infer(self, asked: AsyncIterator[Message]) -> AsyncIterator[bytes]:
        async with aclosing(_Stream(asked, self._answers).run()) as answers:
            async for answer in answers:
                yield answer

    async def _answers(self, decoded: oip_proto.Decoded) -> AsyncGenerator[bytes]:
        """The responses to one request of a stream."""
        request = decoded.request
        version = request.model_version
        try:
            # the iterator is a generator, which must not outlive the stream
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


class _Stream:
    """One stream: concurrent requests, and responses as they arrive.

    Requests without an id are answered in order, because their client could not match the
    responses.
    The same applies to requests of a sequence.

    Args:
        asked: The requests.
        answer: Returns the responses to one of them.
    """

    def __init__(
        self,
        asked: AsyncIterator[Message],
        answer: Callable[[oip_proto.Decoded], AsyncGenerator[bytes]],
    ) -> None:
        self._asked = asked
        self._answer = answer
        # a full queue delays the models until the client has read
        self._answers: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue(1)
        self._slots = asyncio.Semaphore(_STREAM_REQUESTS)
        self._last: dict[Parameter, asyncio.Task[None]] = {}

    async def run(self) -> AsyncGenerator[bytes]:
        """The responses to all requests."""
        reading = asyncio.create_task(self._run())
        try:
            while (answer := await self._answers.get()) is not None:
                if isinstance(answer, BaseException):
                    raise answer
                yield answer
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                async for data in self._asked:
                    await self._slots.acquire()
                    await self._begin(data, group)
        except Exception as error:  # noqa: BLE001 - raised where the responses are read
            # one error of the group is enough
            first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            await self._answers.put(first)
        else:
            await self._answers.put(None)

    async def _begin(self, data: Message, group: asyncio.TaskGroup) -> None:
        try:
            decoded = await _decode(data)
        except RuntimeFault as fault:
            request_id = await _id_of(data)
            turn = None if request_id else ""
            answers = _refusal(fault, request_id)
        else:
            turn = _turn(decoded.request)
            answers = self._answer(decoded)
        before = self._last.get(turn) if turn is not None else None
        task = group.create_task(self._serve(answers, before))
        if turn is not None:
            self._last[turn] = task
            task.add_done_callback(lambda done: self._forget(turn, done))

    def _forget(self, turn: Parameter, done: "asyncio.Task[None]") -> None:
        if self._last.get(turn) is done:
            del self._last[turn]

    async def _serve(
        self, answers: AsyncGenerator[bytes], before: "asyncio.Task[None] | None"
    ) -> None:
        try:
            async with aclosing(answers):
                if before is not None:
                    await asyncio.wait([before])
                async for answer in answers:
                    await self._answers.put(answer)
        finally:
            self._slots.release()


async def _refusal(fault: RuntimeFault, request_id: str) -> AsyncGenerator[bytes]:
    """The only response to a request that cannot be decoded."""
    yield oip_proto.encode_stream_fault(fault.message, request_id)


def _turn(request: InferRequest) -> Parameter | None:
    """Equal for requests that are answered in order; None for an independent one."""
    sequence = request.parameters.get(_SEQUENCE, 0)
    if sequence not in (0, ""):
        return f"{request.model_name} {sequence}"
    return None if request.id else ""


def _is_slow(data: Message) -> bool:
    return len(data) > _INLINE_BYTES or not oip_proto.is_quick(data)


async def _decode(data: Message) -> oip_proto.Decoded:
    if _is_slow(data):
        return await asyncio.to_thread(oip_proto.decode_infer, data)
    return oip_proto.decode_infer(data)


async def _id_of(data: Message) -> str:
    if _is_slow(data):
        return await asyncio.to_thread(oip_proto.id_of, data)
    return oip_proto.id_of(data)


def _encode(response: InferResponse, decoded: oip_proto.Decoded) -> bytes:
    if response.id != decoded.request.id:
        # the id is the client's, regardless of the model
        response = msgspec.structs.replace(response, id=decoded.request.id)
    return oip_proto.encode_infer(response, wants_raw=decoded.wants_raw)


async def _encode_aside(response: InferResponse, decoded: oip_proto.Decoded) -> bytes:
    if _size_bytes(response) > _INLINE_BYTES:
        return await asyncio.to_thread(_encode, response, decoded)
    return _encode(response, decoded)


def _final(request: InferRequest, version: str) -> InferResponse:
    return InferResponse(request.model_name, version, (), request.id, {_IS_FINAL: True})


def _size_bytes(response: InferResponse) -> int:
    """The approximate size of the response's tensors; strings count as pointers."""
    size = 0
    for tensor in response.outputs:
        size += tensor.array.nbytes
        if tensor.datatype is Datatype.BYTES and size <= _INLINE_BYTES:
            size += sum(map(len, tensor.array.reshape(-1)))
    return size
