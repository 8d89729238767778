"""GRPS over HTTP: a query as a request, and the status in its body.

Source: GRPS interface, "HTTP": the protobuf JSON form of GrpsMessage; `status` may be the name or
the number of the flag.
"""

from http import HTTPStatus
from typing import Any, cast

from google.protobuf import json_format

from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import unreadable
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.transport.http_client import HttpClient, Reply, refusal, rejection
from moorage_operator.values.answers import Answer
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.words import word

from ._generated import grps_pb2
from .grps import GrpsReply, Question
from .http_driver import send

ROOT = "/grps/v1/"
ONLINE_PATH = "/grps/v1/health/online"

# Status.StatusFlag by name and number; UNKNOWN does not count as a status.
_FLAGS = {"SUCCESS": True, "FAILURE": False, 1: True, 2: False}


class GrpsRest:
    """The HTTP transport of GRPS."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """Return the reply, or why there is none."""
        if question is Question.MODEL_METADATA:
            path = target.way.metadata_path
            reply = await self._http.post(target, path, {"str_data": text})
            return reply if isinstance(reply, Answer) else _read(reply, path)
        path = {
            Question.LIVE: target.way.live_path,
            Question.READY: target.way.ready_path,
            Question.ONLINE: ONLINE_PATH,
            Question.SERVER_METADATA: target.way.server_path,
        }[question]
        return await self.ask_path(target, path)

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """Return the reply at a path; at a custom path the HTTP status alone is sufficient."""
        ask = self._http.get if path == target.way.server_path else self._http.ask_health
        reply = await ask(target, path)
        return reply if isinstance(reply, Answer) else _read(reply, path)

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """Return the message of a successful reply, or why there is none."""
        document = json_format.MessageToDict(message, preserving_proto_field_name=True)
        reply = await self._http.infer(target, document)
        if isinstance(reply, Answer):
            return reply
        status = _read(reply, target.way.infer_path)
        if isinstance(status, Answer):
            return rejection(reply, target.way.infer_path)
        if not status.succeeded:
            return status.as_answer()
        try:
            return await aside(len(reply.body), _message_of, reply.document)
        except (json_format.ParseError, RecursionError) as why:
            return unreadable(target.way.infer_path, why)

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Return the answer to the JSON request of a smoke test, or why there is none."""
        return await send(self._http, target, test)


def _message_of(document: dict[str, Any]) -> grps_pb2.GrpsMessage:
    return json_format.ParseDict(document, grps_pb2.GrpsMessage(), ignore_unknown_fields=True)


def _read(reply: Reply, path: str) -> GrpsReply | Answer:
    document = reply.document
    found: object = document.get("status")
    status = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    flag: object = status.get("status")
    success = _FLAGS.get(flag) if isinstance(flag, str | int) else None
    if success is None and not path.startswith(ROOT):
        message = f"HTTP {reply.code} from {path}"
        return GrpsReply(reply.code == HTTPStatus.OK, reply.code, message)
    if success is None:
        return refusal(reply, path, "the status of a GrpsMessage")
    code: object = status.get("code")
    number = code if isinstance(code, int) and word(code) else 0
    text: object = document.get("str_data", document.get("strData"))
    return GrpsReply(
        succeeded=success and number == HTTPStatus.OK,
        code=number,
        message=word(status.get("msg")),
        text=text if isinstance(text, str) else "",
    )
