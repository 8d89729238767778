"""GRPS over HTTP: one question as a request, and the status that the body carries.

Source: GRPS interface, "HTTP": the protobuf JSON form of GrpsMessage; `status` may be the name or
the number of the flag.
"""

from http import HTTPStatus
from typing import Any, cast

from google.protobuf import json_format

from moorage_operator._generated import grps_pb2
from moorage_operator.answers import Answer
from moorage_operator.planned import ProbeTarget

from .driver import unreadable
from .grps import GrpsReply, Question
from .http_client import HttpClient, Reply, refusal, rejection

ROOT = "/grps/v1/"
ONLINE_PATH = "/grps/v1/health/online"

# Status.StatusFlag by name and number; UNKNOWN is no status.
_FLAGS = {"SUCCESS": True, "FAILURE": False, 1: True, 2: False}


class GrpsRest:
    """The wire of GRPS over HTTP."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """The reply, or why there is none."""
        if question is Question.MODEL_METADATA:
            path = target.metadata_path
            reply = await self._http.post(target, path, {"str_data": text})
            return reply if isinstance(reply, Answer) else _read(reply, path)
        path = {
            Question.LIVE: target.live_path,
            Question.READY: target.ready_path,
            Question.ONLINE: ONLINE_PATH,
            Question.SERVER_METADATA: target.server_path,
        }[question]
        return await self.ask_path(target, path)

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """The reply of a path; outside of the protocol's own the HTTP status alone may tell."""
        reply = await self._http.get(target, path)
        return reply if isinstance(reply, Answer) else _read(reply, path)

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """The message of a success, or why there is none."""
        document = json_format.MessageToDict(message, preserving_proto_field_name=True)
        reply = await self._http.infer(target, document)
        if isinstance(reply, Answer):
            return reply
        status = _read(reply, target.infer_path)
        if isinstance(status, Answer):
            return rejection(reply, target.infer_path)
        if not status.succeeded:
            return status.as_answer()
        try:
            return json_format.ParseDict(
                reply.document, grps_pb2.GrpsMessage(), ignore_unknown_fields=True
            )
        except (json_format.ParseError, RecursionError) as why:
            return unreadable(target.infer_path, why)


def _read(reply: Reply, path: str) -> GrpsReply | Answer:
    document = reply.document
    told: object = document.get("status")
    status = cast("dict[str, Any]", told) if isinstance(told, dict) else {}
    flag: object = status.get("status")
    success = _FLAGS.get(flag) if isinstance(flag, str | int) else None
    if success is None and not path.startswith(ROOT):
        words = f"HTTP {reply.code} from {path}"
        return GrpsReply(reply.code == HTTPStatus.OK, reply.code, words)
    if success is None:
        return refusal(reply, path, "the status of a GrpsMessage")
    code: object = status.get("code")
    number = code if isinstance(code, int) else 0
    text: object = document.get("str_data", document.get("strData"))
    return GrpsReply(
        succeeded=success and number == HTTPStatus.OK,
        code=number,
        message=str(status.get("msg", "")),
        text=text if isinstance(text, str) else "",
    )
