"""GRPS, as a driver over either transport.

GRPS has no question for one model's readiness. A model is ready when the server is, and knows the
model; a server that tells more (`ready` in a model's metadata) is believed. What counts is the
status in the body: a server may put a failure into an HTTP 200.

Source: GRPS interface, "health", "metadata", "model selection".
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from moorage_operator._generated import grps_pb2
from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import Outputs

from . import grps_metadata, grps_tensors
from .driver import Described, evidence, quoted, unreadable, version_not_found
from .elements import Unreadable
from .grps_metadata import GrpsModel

NOT_FOUND = 404


class Question(StrEnum):
    """What is asked of a server; the values are the gRPC methods."""

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
        """The reply as yes, or as no with its words."""
        if self.succeeded:
            return Answer(verdict=True, reason=AnswerReason.READY)
        words = quoted(f"{self.code} {self.message}")
        return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=words)


class Wire(Protocol):
    """One transport."""

    async def ask(
        self, target: ProbeTarget, question: Question, text: str = ""
    ) -> GrpsReply | Answer:
        """The reply, or why there is none; `text` is the request's `str_data`."""
        ...

    async def ask_path(self, target: ProbeTarget, path: str) -> GrpsReply | Answer:
        """The reply of a path of the spec."""
        ...

    async def infer(
        self, target: ProbeTarget, message: grps_pb2.GrpsMessage
    ) -> grps_pb2.GrpsMessage | Answer:
        """The message of a success, or why there is none."""
        ...


class Grps:
    """Asks GRPS servers over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether the server lives."""
        return await self._health(target, Question.LIVE)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether the server is online and ready."""
        return await self._health(target, Question.READY)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether the server is ready and has the model."""
        if target.model_ready_path:
            reply = await self._wire.ask_path(target, target.model_ready_path)
            return reply if isinstance(reply, Answer) else reply.as_answer()
        ready, found = await asyncio.gather(self.ready(target), self._find(target))
        if ready.verdict is not True:
            return ready
        if isinstance(found, Answer):
            return found
        if found.ready is False:
            words = f"the server does not list model {found.name!r} as ready"
            return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=quoted(words))
        return Answer(verdict=True, reason=AnswerReason.READY)

    async def describe(self, target: ProbeTarget) -> Described:
        """Server and model metadata; a part that cannot be read is None."""
        found, server = await asyncio.gather(
            self._find(target), self._wire.ask(target, Question.SERVER_METADATA)
        )
        text = "" if isinstance(server, Answer) else server.text
        return Described(
            server=grps_metadata.read_server(text),
            model=None if isinstance(found, Answer) else found.info,
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Whether the server's metadata answers with a status."""
        reply = await self._wire.ask(target, Question.SERVER_METADATA)
        if isinstance(reply, Answer):
            return reply
        where = target.server_path or str(Question.SERVER_METADATA)
        return evidence(f"{where} answers with the status of a GrpsMessage")

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Tell a server that lives to take traffic; whether it said that it does."""
        live = await self.live(target)
        if live.verdict is not True:
            return False
        reply = await self._wire.ask(target, Question.ONLINE)
        return isinstance(reply, GrpsReply) and reply.succeeded

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """The model's outputs, as gtensors."""
        try:
            message = grps_tensors.request_message(target, inputs)
        except ValueError as why:
            told = quoted(f"GRPS has no type that could carry the inputs: {why}")
            return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=told)
        reply = await self._wire.infer(target, message)
        if isinstance(reply, Answer):
            return reply
        try:
            return grps_tensors.outputs_of_message(reply)
        except Unreadable as why:
            return unreadable("the GRPS server", why)

    async def _health(self, target: ProbeTarget, question: Question) -> Answer:
        reply = await self._wire.ask(target, question)
        return reply if isinstance(reply, Answer) else reply.as_answer()

    async def _find(self, target: ProbeTarget) -> GrpsModel | Answer:
        """The model in the wanted version, or why it is not there."""
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
            found = grps_metadata.read_model(reply.text, name)
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
        return () if isinstance(reply, Answer) else grps_metadata.read_models(reply.text)


def _not_found(refused: GrpsReply, listed: Sequence[GrpsModel]) -> Answer:
    if not listed and refused.code != NOT_FOUND:
        return refused.as_answer()
    has = ", ".join(f"{each.name}-{each.version}" for each in listed)
    words = f"the server has {has}" if has else refused.message
    return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=quoted(words))
