"""GRPS over gRPC: one question as a call, and the status that the message carries.

Failures of the service travel in the message's status under gRPC's OK.

Source: GRPS interface, "gRPC"; `grps.proto`.
"""

from http import HTTPStatus

from moorage_operator._generated import grps_pb2
from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.planned import ProbeTarget

from .grpc_channels import GrpcChannels
from .grps import GrpsReply, Question

SERVICE = "grps.protos.v1.GrpsService"


class GrpsGrpc:
    """The wire of GRPS over gRPC."""

    def __init__(self, channels: GrpcChannels, inference: GrpcChannels) -> None:
        self._channels = channels
        self._inference = inference

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """The reply, or why there is none."""
        request = grps_pb2.GrpsMessage()
        if text:
            request.str_data = text
        method = f"{SERVICE}/{question}"
        reply = await self._channels.ask(target, method, request, grps_pb2.GrpsMessage.FromString)
        if isinstance(reply, Answer):
            return reply
        return _status_of(reply)

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """No path is asked over gRPC: the kubelet's probe alone takes it."""
        told = f"{path} is an HTTP path, and {target.model_name!r} is asked over gRPC"
        return Answer(None, AnswerReason.NOT_ASKED, told)

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """The message of a success, or why there is none."""
        parse = grps_pb2.GrpsMessage.FromString
        reply = await self._inference.ask(target, f"{SERVICE}/Predict", message, parse)
        if isinstance(reply, Answer):
            return reply
        status = _status_of(reply)
        return reply if status.succeeded else status.as_answer()


def _status_of(reply: grps_pb2.GrpsMessage) -> GrpsReply:
    status = reply.status
    succeeded = status.status == grps_pb2.Status.SUCCESS and status.code == HTTPStatus.OK
    message = status.msg or ("" if succeeded else "a message without a status")
    return GrpsReply(succeeded, status.code, message, reply.str_data)
