"""The driver of the Open Inference Protocol over gRPC."""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.message import Message

from moorage_operator.api.smoke_tests import InputTensor, SmokeTest
from moorage_operator.probe.driver import (
    ANSWER_LIMIT_BYTES,
    HEALTH_LIMIT_BYTES,
    Described,
    evidence,
    no_requests,
    refused_for_token,
    unreadable,
    version_not_found,
)
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.reading.elements import Unreadable
from moorage_operator.probe.transport.grpc_channels import GrpcChannels
from moorage_operator.values.answers import Answer, AnswerReason, TensorInfo
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs

from . import metadata, oip_messages, repository_index
from ._generated import oip_pb2, repository_pb2
from .repository_index import IndexEntry

SERVICE = "inference.GRPCInferenceService"

# After an answer to ModelReady, UNAVAILABLE refers to the model and not to the server.
_REFUSALS = frozenset({AnswerReason.NOT_READY, AnswerReason.REFUSED})

# Part of the message of the bundled runtime and Triton for a failed load.
_LOAD_FAILED = "failed to load"

M = TypeVar("M", bound=Message)


class OipGrpc:
    """Queries OpenInference servers over gRPC."""

    def __init__(self, channels: GrpcChannels, inference: GrpcChannels) -> None:
        self._channels = channels
        self._inference = inference

    async def live(self, target: ProbeTarget) -> Answer:
        """Query ServerLive."""
        request = oip_pb2.ServerLiveRequest()
        return await self._yes_or_no(
            target, "ServerLive", request, oip_pb2.ServerLiveResponse, "live"
        )

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query ServerReady."""
        request = oip_pb2.ServerReadyRequest()
        return await self._yes_or_no(
            target, "ServerReady", request, oip_pb2.ServerReadyResponse, "ready"
        )

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query ModelReady; if it is false, the index and ModelMetadata explain why."""
        request = oip_pb2.ModelReadyRequest(name=target.model_name, version=target.model_version)
        answer = await self._yes_or_no(
            target, "ModelReady", request, oip_pb2.ModelReadyResponse, "ready"
        )
        if answer.verdict is not False:
            return answer
        explained = await self._from_index(target)
        if explained is None and answer.reason is AnswerReason.MODEL_NOT_FOUND:
            explained = await self._version(target)
        if explained is None and not answer.message:
            explained = await self._why_not(target)
        return explained or answer

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the metadata of the server and the model; an unreadable part is None."""
        server, model = await asyncio.gather(
            self._ask(
                target,
                "ServerMetadata",
                oip_pb2.ServerMetadataRequest(),
                oip_pb2.ServerMetadataResponse,
            ),
            self._metadata(target, target.model_version),
        )
        return Described(
            None if isinstance(server, Answer) else _server(server),
            None if isinstance(model, Answer) else _model(model),
            refused_for_token(model, server),
            "" if isinstance(server, Answer) else f"{SERVICE}/ServerMetadata answers",
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the server has the service."""
        request = oip_pb2.ServerLiveRequest()
        reply = await self._ask(
            target, "ServerLive", request, oip_pb2.ServerLiveResponse, HEALTH_LIMIT_BYTES
        )
        return reply if isinstance(reply, Answer) else evidence(f"{SERVICE}/ServerLive answers")

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Do nothing: the protocol has no offline state."""
        del target
        return False

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Return the model's outputs, from raw or typed contents."""
        request = oip_messages.request_message(target.model_name, target.model_version, inputs)
        method = f"{SERVICE}/ModelInfer"
        reply = await self._inference.ask(target, method, request, oip_pb2.ModelInferResponse)
        if isinstance(reply, Answer):
            return reply
        try:
            return await aside(reply.ByteSize(), oip_messages.outputs_of_message, reply)
        except Unreadable as why:
            return unreadable(method, why)

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Refuse: a request is sent over HTTP."""
        del target, test
        return no_requests()

    async def _from_index(self, target: ProbeTarget) -> Answer | None:
        request = repository_pb2.RepositoryIndexRequest()
        reply = await self._ask(
            target, "RepositoryIndex", request, repository_pb2.RepositoryIndexResponse
        )
        if isinstance(reply, Answer):
            return None
        entries = [
            IndexEntry(each.name, each.version, each.state, each.reason)
            for each in islice(reply.models, repository_index.ENTRY_LIMIT)
        ]
        return repository_index.verdict(target, entries)

    async def _version(self, target: ProbeTarget) -> Answer | None:
        # NOT_FOUND is the status for an unknown model and for an unknown version.
        if not target.model_version:
            return None
        found = await self._metadata(target, "")
        if isinstance(found, Answer):
            return None
        return version_not_found(target, list(found.versions))

    async def _why_not(self, target: ProbeTarget) -> Answer | None:
        # ModelReady has no field for a reason; a failed ModelMetadata call often has one.
        found = await self._metadata(target, target.model_version)
        if not isinstance(found, Answer) or found.reason not in _REFUSALS:
            return None
        failed = _LOAD_FAILED in found.message.lower()
        reason = AnswerReason.LOAD_FAILED if failed else AnswerReason.NOT_READY
        return Answer(verdict=False, reason=reason, message=found.message)

    async def _metadata(self, target: ProbeTarget, version: str) -> Any:
        request = oip_pb2.ModelMetadataRequest(name=target.model_name, version=version)
        return await self._ask(target, "ModelMetadata", request, oip_pb2.ModelMetadataResponse)

    async def _yes_or_no(
        self,
        target: ProbeTarget,
        method: str,
        request: Any,
        response: type[Any],
        field: str,
    ) -> Answer:
        reply = await self._ask(target, method, request, response, HEALTH_LIMIT_BYTES)
        if isinstance(reply, Answer):
            return reply
        if getattr(reply, field):
            return Answer(verdict=True, reason=AnswerReason.READY)
        return Answer(verdict=False, reason=AnswerReason.NOT_READY)

    async def _ask(
        self,
        target: ProbeTarget,
        method: str,
        request: Any,
        reply: type[M],
        limit_bytes: int = ANSWER_LIMIT_BYTES,
    ) -> M | Answer:
        return await self._channels.ask(target, f"{SERVICE}/{method}", request, reply, limit_bytes)


def _server(reply: oip_pb2.ServerMetadataResponse) -> Any:
    try:
        return metadata.server(reply.name, reply.version, list(reply.extensions))
    except metadata.NotMetadata:
        return None


def _model(reply: oip_pb2.ModelMetadataResponse) -> Any:
    try:
        inputs, outputs = _tensors(reply.inputs), _tensors(reply.outputs)
        return metadata.model(reply.name, list(reply.versions), reply.platform, inputs, outputs)
    except metadata.NotMetadata:
        return None


def _tensors(
    found: Sequence[oip_pb2.ModelMetadataResponse.TensorMetadata],
) -> tuple[TensorInfo, ...]:
    if len(found) > metadata.TENSOR_LIMIT:
        raise metadata.NotMetadata
    return tuple(
        # One size above the limit is enough for the shape to be rejected.
        metadata.tensor(each.name, each.datatype, each.shape[: metadata.RANK_LIMIT + 1])
        for each in found
    )
