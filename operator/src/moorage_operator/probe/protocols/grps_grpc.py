"""GRPS over gRPC: a query as a call, and the status in its message.

The service reports failures in the status of the message, with the gRPC status OK.

Source: GRPS interface, "gRPC"; `grps.proto`.
"""

from http import HTTPStatus

from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import no_requests
from moorage_operator.probe.transport.grpc_channels import GrpcChannels
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget

from ._generated import grps_pb2
from .grps import GrpsReply, Question

SERVICE = "grps.protos.v1.GrpsService"


class GrpsGrpc:
    """The gRPC transport of GRPS."""

    def __init__(self, channels: GrpcChannels, inference: GrpcChannels) -> None:
        self._channels = channels
        self._inference = inference

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """Return the reply, or why there is none."""
        request = grps_pb2.GrpsMessage()
        if text:
            request.str_data = text
        method = f"{SERVICE}/{question}"
        reply = await self._channels.ask(target, method, request, grps_pb2.GrpsMessage)
        if isinstance(reply, Answer):
            return reply
        return _status_of(reply)

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """Return no reply: only the kubelet's probe uses a path with gRPC."""
        message = f"{path} is an HTTP path, but model {target.model_name!r} is queried over gRPC"
        return Answer(None, AnswerReason.NOT_ASKED, message)

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """Return the message of a successful reply, or why there is none."""
        reply = await self._inference.ask(
            target, f"{SERVICE}/Predict", message, grps_pb2.GrpsMessage
        )
        if isinstance(reply, Answer):
            return reply
        status = _status_of(reply)
        return reply if status.succeeded else status.as_answer()

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Refuse: a request is sent over HTTP."""
        del target, test
        return no_requests()


def _status_of(reply: grps_pb2.GrpsMessage) -> GrpsReply:
    status = reply.status
    succeeded = status.status == grps_pb2.Status.SUCCESS and status.code == HTTPStatus.OK
    message = status.msg or ("" if succeeded else "the message has no status")
    return GrpsReply(succeeded, status.code, message, reply.str_data)
