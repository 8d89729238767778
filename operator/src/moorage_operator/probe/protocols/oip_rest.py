"""The driver of the Open Inference Protocol over HTTP.

A server is ready if it answers HTTP 200 with no body, a word such as OK, or a JSON object in which
neither `ready` nor `live` is false. Triton and MLServer send an empty body, KServe `{"ready":
true}`. A 200 with a web page or another long body is not an answer of this protocol. Any other
status means not ready, and its message is reported.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from moorage_operator.api.smoke_tests import InputTensor
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
from moorage_operator.probe.transport.http_client import Reply, refusal, rejection
from moorage_operator.values.answers import Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs
from moorage_operator.values.words import quoted, word

from . import metadata, oip_tensors, repository_index
from .http_driver import HttpDriver

WORD_LIMIT_BYTES = 64

# States in the body of a model-ready answer; the bundled runtime and Triton's index use them.
_STATES = {"LOADING": AnswerReason.LOADING, "FAILED": AnswerReason.LOAD_FAILED}


class OipRest(HttpDriver):
    """Queries OpenInference servers over HTTP."""

    async def live(self, target: ProbeTarget) -> Answer:
        """Query the server's live endpoint."""
        return await self._yes_or_no(target, target.way.live_path)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query the server's ready endpoint."""
        return await self._yes_or_no(target, target.way.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query the model's ready endpoint; if the answer has no reason, find out why."""
        reply = await self._http.ask_health(target, target.way.model_ready_path)
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.NOT_FOUND:
            answer = _of_the_model(target, reply) or _judged(reply, target.way.model_ready_path)
            unexplained = answer.reason is AnswerReason.NOT_READY and "state" not in reply.document
            return (await self._from_index(target) if unexplained else None) or answer
        server = await self._http.get(target, target.way.server_path)
        if isinstance(server, Reply) and spending(metadata.server_from_json, server.body) is None:
            return Answer(
                None,
                AnswerReason.WRONG_PROTOCOL,
                f"an HTTP server answers 404 to {target.way.model_ready_path} and has no "
                f"Open Inference metadata at {target.way.server_path}",
            )
        return await self._not_found(target, reply)

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the metadata of the server and the model; an unreadable part is None."""
        server, model = await asyncio.gather(
            self._http.get(target, target.way.server_path),
            self._http.get(target, target.way.metadata_path),
        )
        found = spending(metadata.server_from_json, _body_of_ok(server))
        return Described(
            found,
            spending(metadata.model_from_json, _body_of_ok(model)),
            refused_for_token(model, server),
            "" if found is None else _proof(target),
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the server exposes its metadata."""
        reply = await self._http.get(target, target.way.server_path)
        if isinstance(reply, Answer):
            return reply
        if spending(metadata.server_from_json, _body_of_ok(reply)) is None:
            return refusal(reply, target.way.server_path, "server metadata")
        return evidence(_proof(target))

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Return the model's outputs, from a JSON body."""
        reply = await self._http.infer(target, oip_tensors.request_document(inputs))
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.OK:
            return rejection(reply, target.way.infer_path)
        try:
            return await aside(len(reply.body), oip_tensors.outputs_of_document, reply.document)
        except Unreadable as why:
            return unreadable(target.way.infer_path, why)

    async def _yes_or_no(self, target: ProbeTarget, path: str) -> Answer:
        reply = await self._http.ask_health(target, path)
        return reply if isinstance(reply, Answer) else _judged(reply, path)

    async def _not_found(self, target: ProbeTarget, reply: Reply) -> Answer:
        if target.model_version:
            path = target.way.metadata_path.removesuffix(f"/versions/{target.model_version}")
            other = await self._http.get(target, path)
            found = spending(metadata.model_from_json, _body_of_ok(other))
            if found is not None:
                return version_not_found(target, found.versions)
        message = reply.error or f"HTTP 404 from {target.way.model_ready_path}"
        answer = Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=message)
        return await self._from_index(target) or answer

    async def _from_index(self, target: ProbeTarget) -> Answer | None:
        # MLServer rejects an index request without a document.
        reply = await self._http.post(target, f"{target.way.server_path}/repository/index", {})
        entries = spending(repository_index.entries_from_json, _body_of_ok(reply))
        return None if entries is None else repository_index.verdict(target, entries)


def _proof(target: ProbeTarget) -> str:
    return f"GET {target.way.server_path} answers with server metadata"


def _body_of_ok(reply: Reply | Answer) -> bytes:
    return reply.body if isinstance(reply, Reply) and reply.code == HTTPStatus.OK else b""


def _is_word(body: bytes) -> bool:
    """Whether a body is empty or a short confirmation such as OK, true or {}."""
    return len(body) <= WORD_LIMIT_BYTES and not body.lstrip().startswith((b"<", b"false"))


def _of_the_model(target: ProbeTarget, reply: Reply) -> Answer | None:
    """Reject a positive answer that names another model; not all servers name the model."""
    name: object = reply.document.get("name")
    if reply.code != HTTPStatus.OK or name in (None, target.model_name):
        return None
    message = quoted(f"{target.way.model_ready_path} answers for model {word(name)!r}")
    return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=message)


def _judged(reply: Reply, path: str) -> Answer:
    """Judge the answer of a health endpoint by its status and body."""
    document, error = reply.document, reply.error
    if reply.is_redirect:
        message = f"HTTP {reply.code} from {path}: redirects are not followed"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, message)
    says_no = document.get("ready") is False or document.get("live") is False
    if reply.code == HTTPStatus.OK and not says_no:
        if document or _is_word(reply.body):
            return Answer(verdict=True, reason=AnswerReason.READY)
        message = f"HTTP 200 from {path} with neither an empty body nor a JSON object"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, message)
    stated = document.get("state")
    reason = _STATES.get(word(stated), AnswerReason.NOT_READY)
    if stated is None and document.get("ready") is False and error:
        # A server that reports an error for a model that is not ready has failed to load it:
        # there is no error while a model loads.
        reason = AnswerReason.LOAD_FAILED
    loads = reason is AnswerReason.LOADING
    unexplained = "the server is loading it" if loads else f"HTTP {reply.code} from {path}"
    return Answer(verdict=False, reason=reason, message=error or unexplained)
