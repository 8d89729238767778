"""The driver of OpenAI-compatible servers, such as vLLM and llama.cpp.

A model is ready if the server is ready and lists the model. Neither suffices: llama.cpp lists its
model while it loads, and a server that is ready may have another model. The API has no health
endpoint; most servers answer at `/health`, and the spec names the path of others.

Source: OpenAI API reference, "Models"; vLLM, "OpenAI-Compatible Server"; llama.cpp, server README.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.driver import Described, evidence, no_tensors, refused_for_token
from moorage_operator.probe.reading.cost import spending
from moorage_operator.probe.transport.http_client import Reply, judged_by_status, refusal
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs

from . import openai_models
from .http_driver import HttpDriver
from .openai_models import Entry

WANTED = "a list of models"


class OpenAiRest(HttpDriver):
    """Queries OpenAI-compatible servers over HTTP; the target's server path is the list."""

    async def live(self, target: ProbeTarget) -> Answer:
        """Query the live path."""
        return await self._health(target, target.way.live_path)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query the ready path."""
        return await self._health(target, target.way.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query whether the server is ready and lists the model."""
        ready, listed = await asyncio.gather(self.ready(target), self._list(target))
        if isinstance(listed, Answer):
            # A server that loads may answer 503 to every request; its health has the cause.
            return ready if listed.reason is AnswerReason.NOT_READY and _is_no(ready) else listed
        return openai_models.judged(target, listed) if ready.verdict is True else ready

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the model's entry in the list; the API has no metadata of the server."""
        listed = await self._list(target)
        if isinstance(listed, Answer):
            return Described(unauthorized=refused_for_token(listed))
        info = openai_models.info_of(target.model_name, listed)
        return Described(model=info, evidence=_proof(target))

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the server lists its models."""
        listed = await self._list(target)
        if isinstance(listed, Answer):
            return listed
        return evidence(_proof(target))

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Refuse: the API has no tensors."""
        del inputs
        return no_tensors(target.way.protocol)

    async def _health(self, target: ProbeTarget, path: str) -> Answer:
        reply = await self._http.ask_health(target, path)
        if isinstance(reply, Answer):
            return reply
        answer = judged_by_status(reply, path)
        if answer.verdict is True:
            return answer
        message = openai_models.error_of(reply.document) or answer.message
        if reply.code == HTTPStatus.NOT_FOUND:
            message = (
                f"HTTP 404 from {path}: if the server has no such path, set paths.live and "
                f"paths.ready to one that it has, such as {target.way.server_path}"
            )
        return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=message)

    async def _list(self, target: ProbeTarget) -> Sequence[Entry] | Answer:
        path = target.way.server_path
        reply = await self._http.get(target, path)
        if isinstance(reply, Answer):
            return reply
        found = spending(openai_models.listed_models, _document_of_ok(reply))
        return refusal(reply, path, WANTED) if found is None else found


def _proof(target: ProbeTarget) -> str:
    return f"GET {target.way.server_path} answers with {WANTED}"


def _document_of_ok(reply: Reply) -> dict[str, object]:
    return reply.document if reply.code == HTTPStatus.OK else {}


def _is_no(answer: Answer) -> bool:
    return answer.verdict is False
