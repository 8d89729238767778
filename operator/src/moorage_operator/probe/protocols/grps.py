"""The GRPS driver, over either transport.

GRPS has no query for the readiness of one model. A model is ready if the server is ready and has
the model; a `ready` field in the model's metadata counts as well. The status in the body decides,
because a server may report a failure with HTTP 200.

Source: GRPS interface, "health", "metadata", "model selection".
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from moorage_operator.api.smoke_tests import InputTensor, SmokeTest
from moorage_operator.probe.driver import (
    Described,
    evidence,
    refused_for_token,
    unreadable,
    version_not_found,
)
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.reading.cost import spending
from moorage_operator.probe.reading.elements import Unreadable
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs
from moorage_operator.values.words import quoted

from . import grps_metadata, grps_tensors
from ._generated import grps_pb2
from .grps_metadata import GrpsModel

NOT_FOUND = 404


class Question(StrEnum):
    """Queries to a server; the values are the gRPC methods."""

    LIVE = "CheckLiveness"
    READY = "CheckReadiness"
    ONLINE = "Online"
    SERVER_METADATA = "ServerMetadata"
    MODEL_METADATA = "ModelMetadata"


@dataclass(frozen=True, slots=True)
class GrpsReply:
    """The status of a GrpsMessage and its `str_data`."""

    succeeded: bool
    code: int
    message: str
    text: str = ""

    def as_answer(self) -> Answer:
        """Convert the reply to an answer with its message."""
        if self.succeeded:
            return Answer(verdict=True, reason=AnswerReason.READY)
        message = quoted(f"{self.code} {self.message}")
        return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)


class Wire(Protocol):
    """A transport of GRPS."""

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """Return the reply, or why there is none; `text` is the request's `str_data`."""
        ...

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """Return the reply at a custom path."""
        ...

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """Return the message of a successful reply, or why there is none."""
        ...

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Return the answer to the JSON request of a smoke test, or why there is none."""
        ...


class Grps:
    """Queries GRPS servers over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def live(self, target: ProbeTarget) -> Answer:
        """Query whether the server is live."""
        return await self._health(target, Question.LIVE)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query whether the server is online and ready."""
        return await self._health(target, Question.READY)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query whether the server is ready and has the model."""
        if target.way.model_ready_path:
            reply = await self._wire.ask_path(target, target.way.model_ready_path)
            return reply if isinstance(reply, Answer) else reply.as_answer()
        ready, found = await asyncio.gather(self.ready(target), self._find(target))
        if ready.verdict is not True:
            return ready
        if isinstance(found, Answer):
            return found
        if found.ready is False:
            message = quoted(f"the server does not list model {found.name!r} as ready")
            return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)
        return Answer(verdict=True, reason=AnswerReason.READY)

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the metadata of the server and the model; an unreadable part is None."""
        found, server = await asyncio.gather(
            self._find(target), self._wire.ask(target, Question.SERVER_METADATA)
        )
        text = "" if isinstance(server, Answer) else server.text
        return Described(
            server=spending(grps_metadata.read_server, text),
            model=None if isinstance(found, Answer) else found.info,
            unauthorized=refused_for_token(found, server),
            evidence="" if isinstance(server, Answer) else _proof(target),
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the server answers a metadata request with a status."""
        reply = await self._wire.ask(target, Question.SERVER_METADATA)
        return reply if isinstance(reply, Answer) else evidence(_proof(target))

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Set a live server online; whether it confirmed this."""
        live = await self.live(target)
        if live.verdict is not True:
            return False
        reply = await self._wire.ask(target, Question.ONLINE)
        return isinstance(reply, GrpsReply) and reply.succeeded

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Return the model's outputs, sent as gtensors."""
        try:
            message = grps_tensors.request_message(target, inputs)
        except ValueError as why:
            message = quoted(f"GRPS has no datatype for the inputs: {why}")
            return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)
        reply = await self._wire.infer(target, message)
        if isinstance(reply, Answer):
            return reply
        try:
            return await aside(reply.ByteSize(), grps_tensors.outputs_of_message, reply)
        except Unreadable as why:
            return unreadable("the GRPS server", why)

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Return the answer to a JSON request."""
        return await self._wire.send(target, test)

    async def _health(self, target: ProbeTarget, question: Question) -> Answer:
        reply = await self._wire.ask(target, question)
        return reply if isinstance(reply, Answer) else reply.as_answer()

    async def _find(self, target: ProbeTarget) -> GrpsModel | Answer:
        """Find the model in the wanted version, or the reason why it is missing."""
        name, version = target.model_name, target.model_version
        refused = GrpsReply(succeeded=False, code=NOT_FOUND, message="")
        others: list[str] = []
        for asked in (name, f"{name}-{version}") if version else (name,):
            reply = await self._wire.ask(target, Question.MODEL_METADATA, asked)
            if isinstance(reply, Answer):
                return reply
            if not reply.succeeded:
                refused = reply
                continue
            found = spending(grps_metadata.read_model, reply.text, name)
            if not version or found.version in ("", version):
                return found
            others.append(found.version)
        listed = await self._listed(target)
        others += [each.version for each in listed if each.name == name]
        if version and others:
            return version_not_found(target, list(dict.fromkeys(others)))
        return _not_found(refused, listed)

    async def _listed(self, target: ProbeTarget) -> Sequence[GrpsModel]:
        reply = await self._wire.ask(target, Question.SERVER_METADATA)
        if isinstance(reply, Answer):
            return ()
        return spending(grps_metadata.read_models, reply.text)


def _proof(target: ProbeTarget) -> str:
    where = target.way.server_path or str(Question.SERVER_METADATA)
    return f"{where} answers with the status of a GrpsMessage"


def _not_found(refused: GrpsReply, listed: Sequence[GrpsModel]) -> Answer:
    if not listed and refused.code != NOT_FOUND:
        return refused.as_answer()
    has = ", ".join("-".join(filter(None, (each.name, each.version))) for each in listed)
    message = quoted(f"the server has {has}" if has else refused.message)
    return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=message)
