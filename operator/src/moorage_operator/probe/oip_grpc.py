"""The Open Inference Protocol over gRPC, as a driver."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from moorage_operator._generated import oip_pb2, repository_pb2
from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import Outputs

from . import metadata, oip_messages, repository_index
from .driver import Described, evidence, unreadable, version_not_found
from .elements import Unreadable
from .grpc_channels import GrpcChannels
from .repository_index import IndexEntry

SERVICE = "inference.GRPCInferenceService"

# A server that has just answered ModelReady and now says UNAVAILABLE speaks of its model.
_REFUSALS = frozenset({AnswerReason.NOT_READY, AnswerReason.REFUSED})

# What the bundled runtime and Triton say of a load that has ended in failure.
_LOAD_FAILED = "failed to load"

R = TypeVar("R")


class OipGrpc:
    """Asks OpenInference servers over gRPC."""

    def __init__(self, channels: GrpcChannels, inference: GrpcChannels) -> None:
        self._channels = channels
        self._inference = inference

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
        """Whether ModelReady says yes; a no is looked into by the index and by ModelMetadata."""
        request = oip_pb2.ModelReadyRequest(name=target.model_name, version=target.model_version)
        answer = await self._yes_or_no(
            target, "ModelReady", request, oip_pb2.ModelReadyResponse.FromString, "ready"
        )
        if answer.verdict is not False:
            return answer
        told = await self._from_index(target)
        if told is None and answer.reason is AnswerReason.MODEL_NOT_FOUND:
            told = await self._version(target)
        if told is None and not answer.message:
            told = await self._why_not(target)
        return told or answer

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

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Whether the service is there."""
        request = oip_pb2.ServerLiveRequest()
        reply = await self._ask(
            target, "ServerLive", request, oip_pb2.ServerLiveResponse.FromString
        )
        return reply if isinstance(reply, Answer) else evidence(f"{SERVICE}/ServerLive answers")

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Nothing to do: the protocol has no offline state."""
        del target
        return False

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """The model's outputs, from raw or typed contents."""
        request = oip_messages.request_message(target.model_name, target.model_version, inputs)
        method = f"{SERVICE}/ModelInfer"
        reply = await self._inference.ask(
            target, method, request, oip_pb2.ModelInferResponse.FromString
        )
        if isinstance(reply, Answer):
            return reply
        try:
            return oip_messages.outputs_of_message(reply)
        except Unreadable as why:
            return unreadable(method, why)

    async def _from_index(self, target: ProbeTarget) -> Answer | None:
        parse = repository_pb2.RepositoryIndexResponse.FromString
        request = repository_pb2.RepositoryIndexRequest()
        reply = await self._ask(target, "RepositoryIndex", request, parse)
        if isinstance(reply, Answer):
            return None
        entries = [
            IndexEntry(each.name, each.version, each.state, each.reason) for each in reply.models
        ]
        return repository_index.verdict(target, entries)

    async def _version(self, target: ProbeTarget) -> Answer | None:
        # NOT_FOUND is said of an unknown model and of an unknown version alike.
        if not target.model_version:
            return None
        found = await self._metadata(target, "")
        if isinstance(found, Answer):
            return None
        return version_not_found(target, list(found.versions))

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
        return await self._channels.ask(target, f"{SERVICE}/{method}", request, parse)


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
