"""The Open Inference Protocol over gRPC, as a driver.

Plaintext, by pod address, unary calls alone. A channel is kept while its server answers and
dropped when it does not: a kept one would wait out gRPC's own reconnect back-off (a second and
more) while a model comes up, and the next question is due in a tenth of that.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from moorage_operator._generated import oip_pb2
from moorage_operator.state import Answer, AnswerReason, ProbeTarget

from . import metadata
from .driver import ANSWER_LIMIT_BYTES, Described, quoted

SERVICE = "inference.GRPCInferenceService"

CHANNELS = 512
"""Kept channels; one costs about 29 KiB and a file descriptor."""

_OPTIONS = (
    ("grpc.max_receive_message_length", ANSWER_LIMIT_BYTES),
    ("grpc.max_metadata_size", 16 << 10),
    ("grpc.enable_retries", 0),
    ("grpc.enable_http_proxy", 0),
    # Without it a dropped channel's back-off lives on in the process-wide pool of subchannels.
    ("grpc.use_local_subchannel_pool", 1),
)

_NOBODY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})

# A server that has just answered ModelReady and now says UNAVAILABLE speaks of its model.
_REFUSALS = frozenset({AnswerReason.NOT_READY, AnswerReason.REFUSED})

# What the bundled runtime and Triton say of a load that has ended in failure.
_LOAD_FAILED = "failed to load"

R = TypeVar("R")


class OipGrpc:
    """Asks OpenInference servers over gRPC."""

    def __init__(self) -> None:
        self._channels: OrderedDict[str, grpc.aio.Channel] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether ServerLive says yes."""
        request = oip_pb2.ServerLiveRequest()
        return await self._yes_or_no(
            target, "ServerLive", request, oip_pb2.ServerLiveResponse.FromString, "live"
        )

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether ServerReady says yes."""
        request = oip_pb2.ServerReadyRequest()
        return await self._yes_or_no(
            target, "ServerReady", request, oip_pb2.ServerReadyResponse.FromString, "ready"
        )

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether ModelReady says yes; a no is looked into by ModelMetadata."""
        request = oip_pb2.ModelReadyRequest(name=target.model_name, version=target.model_version)
        answer = await self._yes_or_no(
            target, "ModelReady", request, oip_pb2.ModelReadyResponse.FromString, "ready"
        )
        if answer.verdict is False and answer.reason is AnswerReason.MODEL_NOT_FOUND:
            return await self._version(target) or answer
        if answer.verdict is False and not answer.message:
            return await self._why_not(target) or answer
        return answer

    async def describe(self, target: ProbeTarget) -> Described:
        """Server and model metadata; a part that cannot be read is None."""
        server, model = await asyncio.gather(
            self._ask(
                target,
                "ServerMetadata",
                oip_pb2.ServerMetadataRequest(),
                oip_pb2.ServerMetadataResponse.FromString,
            ),
            self._metadata(target, target.model_version),
        )
        return Described(
            None if isinstance(server, Answer) else _server(server),
            None if isinstance(model, Answer) else _model(model),
        )

    async def close(self) -> None:
        """Close all channels."""
        channels = list(self._channels.values())
        self._channels.clear()
        await asyncio.gather(*(channel.close(None) for channel in channels), *self._closing)

    async def _version(self, target: ProbeTarget) -> Answer | None:
        # NOT_FOUND is said of an unknown model and of an unknown version alike.
        if not target.model_version:
            return None
        found = await self._metadata(target, "")
        if isinstance(found, Answer):
            return None
        has = ", ".join(found.versions) or "none that it names"
        return Answer(
            verdict=False,
            reason=AnswerReason.VERSION_NOT_FOUND,
            message=quoted(f"the server has versions {has} of model {target.model_name!r}"),
        )

    async def _why_not(self, target: ProbeTarget) -> Answer | None:
        # ModelReady has no room for a reason; a refused ModelMetadata often carries it.
        found = await self._metadata(target, target.model_version)
        if not isinstance(found, Answer) or found.reason not in _REFUSALS:
            return None
        failed = _LOAD_FAILED in found.message.lower()
        reason = AnswerReason.LOAD_FAILED if failed else AnswerReason.NOT_READY
        return Answer(verdict=False, reason=reason, message=found.message)

    async def _metadata(self, target: ProbeTarget, version: str) -> Any:
        request = oip_pb2.ModelMetadataRequest(name=target.model_name, version=version)
        parse = oip_pb2.ModelMetadataResponse.FromString
        return await self._ask(target, "ModelMetadata", request, parse)

    async def _yes_or_no(
        self,
        target: ProbeTarget,
        method: str,
        request: Any,
        parse: Callable[[bytes], Any],
        field: str,
    ) -> Answer:
        reply = await self._ask(target, method, request, parse)
        if isinstance(reply, Answer):
            return reply
        if getattr(reply, field):
            return Answer(verdict=True, reason=AnswerReason.READY)
        return Answer(verdict=False, reason=AnswerReason.NOT_READY)

    async def _ask(
        self, target: ProbeTarget, method: str, request: Any, parse: Callable[[bytes], R]
    ) -> R | Answer:
        call = self._channel(target).unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=parse,
        )
        try:
            return await call(request, timeout=target.timeout_seconds)
        except grpc.aio.AioRpcError as error:
            if error.code() in _NOBODY:
                self._drop(_address(target))
            return _meaning(target, method, error)

    def _channel(self, target: ProbeTarget) -> grpc.aio.Channel:
        address = _address(target)
        channel = self._channels.pop(address, None)
        if channel is None:
            channel = grpc.aio.insecure_channel(address, options=_OPTIONS)
        self._channels[address] = channel
        while len(self._channels) > CHANNELS:
            self._drop(next(iter(self._channels)))
        return channel

    def _drop(self, address: str) -> None:
        channel = self._channels.pop(address, None)
        if channel is not None:
            task = asyncio.get_running_loop().create_task(channel.close(None))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _address(target: ProbeTarget) -> str:
    host = f"[{target.address}]" if ":" in target.address else target.address
    # The scheme keeps gRPC from asking DNS or reading a path into the address.
    scheme = "ipv6" if ":" in target.address else "ipv4"
    return f"{scheme}:{host}:{target.port}"


def _meaning(target: ProbeTarget, method: str, error: grpc.aio.AioRpcError) -> Answer:
    """What a gRPC status says about the server.

    Source: the gRPC status codes as the protocol's servers use them; NOT_FOUND for an unknown
    model, UNIMPLEMENTED when the service is another one.
    """
    code, said = error.code(), quoted(error.details() or "")
    where = f"{target.address}:{target.port}"
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            verdict, reason, told = _unavailable(where, said)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            verdict, reason = None, AnswerReason.TIMED_OUT
            told = f"no answer from {where} to {method} within {target.timeout_seconds:g} s"
        case grpc.StatusCode.UNIMPLEMENTED:
            verdict, reason = None, AnswerReason.WRONG_PROTOCOL
            told = f"the gRPC server at {where} has no {SERVICE}/{method}"
        case grpc.StatusCode.NOT_FOUND:
            verdict, reason, told = False, AnswerReason.MODEL_NOT_FOUND, said
        case grpc.StatusCode.RESOURCE_EXHAUSTED | grpc.StatusCode.INTERNAL:
            verdict, reason = None, AnswerReason.MALFORMED
            told = f"{method}: {code.name}: {said}"
        case _:
            verdict, reason = False, AnswerReason.NOT_READY
            told = said or f"{method} ended with {code.name}"
    return Answer(verdict, reason, told)


def _unavailable(where: str, said: str) -> tuple[None, AnswerReason, str]:
    # gRPC has one status for every broken connection; only its text knows of a peer that answered
    # with something else than HTTP/2.
    if "Failed parsing HTTP/2" in said:
        told = f"what listens on {where} does not speak gRPC: {said}"
        return None, AnswerReason.WRONG_PROTOCOL, told
    return None, AnswerReason.REFUSED, f"{where}: {said}"


def _server(reply: oip_pb2.ServerMetadataResponse) -> Any:
    try:
        return metadata.server(reply.name, reply.version, list(reply.extensions))
    except metadata.NotMetadata:
        return None


def _model(reply: oip_pb2.ModelMetadataResponse) -> Any:
    try:
        inputs, outputs = (
            tuple(metadata.tensor(each.name, each.datatype, list(each.shape)) for each in tensors)
            for tensors in (reply.inputs, reply.outputs)
        )
        return metadata.model(reply.name, list(reply.versions), reply.platform, inputs, outputs)
    except metadata.NotMetadata:
        return None
