"""The Open Inference Protocol over HTTP, as a driver.

What body means ready: HTTP 200 and (no body, or a word such as OK, or a JSON object in which
neither `ready` nor `live` is false). Triton and MLServer send an empty body, KServe
`{"ready": true}`. A 200 with a web page, or anything else of some length, is no answer of this
protocol. Any other status answers no, and its words are passed on.
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from moorage_operator.answers import Answer, AnswerReason
from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import Outputs

from . import metadata, oip_tensors, repository_index
from .driver import Described, evidence, quoted, unreadable, version_not_found
from .elements import Unreadable
from .http_client import HttpClient, Reply, refusal, rejection

WORD_LIMIT_BYTES = 64

# The registry's states in a model-ready body; the bundled runtime and Triton's index use them.
_STATES = {"LOADING": AnswerReason.LOADING, "FAILED": AnswerReason.LOAD_FAILED}


class OipRest:
    """Asks OpenInference servers over HTTP."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether the live endpoint says yes."""
        return await self._yes_or_no(target, target.live_path)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether the server's ready endpoint says yes."""
        return await self._yes_or_no(target, target.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether the model's ready endpoint says yes; a no without a reason is looked into."""
        reply = await self._http.get(target, target.model_ready_path)
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.NOT_FOUND:
            answer = _judged(reply, target.model_ready_path)
            unexplained = answer.reason is AnswerReason.NOT_READY and "state" not in reply.document
            return (await self._from_index(target) if unexplained else None) or answer
        server = await self._http.get(target, target.server_path)
        if isinstance(server, Reply) and metadata.server_from_json(server.body) is None:
            return Answer(
                None,
                AnswerReason.WRONG_PROTOCOL,
                f"an HTTP server answers 404 to {target.model_ready_path} and has no "
                f"Open Inference metadata at {target.server_path}",
            )
        return await self._not_found(target, reply)

    async def describe(self, target: ProbeTarget) -> Described:
        """Server and model metadata; a part that cannot be read is None."""
        server, model = await asyncio.gather(
            self._http.get(target, target.server_path),
            self._http.get(target, target.metadata_path),
        )
        return Described(
            metadata.server_from_json(_body_of_ok(server)),
            metadata.model_from_json(_body_of_ok(model)),
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Whether the server's own metadata is there."""
        reply = await self._http.get(target, target.server_path)
        if isinstance(reply, Answer):
            return reply
        if metadata.server_from_json(_body_of_ok(reply)) is None:
            return refusal(reply, target.server_path, "server metadata")
        return evidence(f"GET {target.server_path} answers with server metadata")

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Nothing to do: the protocol has no offline state."""
        del target
        return False

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """The model's outputs, from a JSON body."""
        reply = await self._http.infer(target, oip_tensors.request_document(inputs))
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.OK:
            return rejection(reply, target.infer_path)
        try:
            return oip_tensors.outputs_of_document(reply.document)
        except Unreadable as why:
            return unreadable(target.infer_path, why)

    async def _yes_or_no(self, target: ProbeTarget, path: str) -> Answer:
        reply = await self._http.get(target, path)
        return reply if isinstance(reply, Answer) else _judged(reply, path)

    async def _not_found(self, target: ProbeTarget, reply: Reply) -> Answer:
        said = quoted(metadata.error_text(reply.body))
        if target.model_version:
            path = target.metadata_path.removesuffix(f"/versions/{target.model_version}")
            other = await self._http.get(target, path)
            found = metadata.model_from_json(_body_of_ok(other))
            if found is not None:
                return version_not_found(target, found.versions)
        words = said or f"HTTP 404 from {target.model_ready_path}"
        answer = Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=words)
        return await self._from_index(target) or answer

    async def _from_index(self, target: ProbeTarget) -> Answer | None:
        # MLServer refuses an index request without a document.
        reply = await self._http.post(target, f"{target.server_path}/repository/index", {})
        entries = repository_index.entries_from_json(_body_of_ok(reply))
        return None if entries is None else repository_index.verdict(target, entries)


def _body_of_ok(reply: Reply | Answer) -> bytes:
    return reply.body if isinstance(reply, Reply) and reply.code == HTTPStatus.OK else b""


def _is_word(body: bytes) -> bool:
    """Whether a body says no more than a person would: nothing, OK, true, {}."""
    return len(body) <= WORD_LIMIT_BYTES and not body.lstrip().startswith((b"<", b"false"))


def _judged(reply: Reply, path: str) -> Answer:
    """The answer of a health endpoint, from its status and body."""
    document, words = reply.document, reply.words
    if reply.is_redirect:
        told = f"HTTP {reply.code} from {path}: redirects are not followed"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, told)
    says_no = document.get("ready") is False or document.get("live") is False
    if reply.code == HTTPStatus.OK and not says_no:
        if document or _is_word(reply.body):
            return Answer(verdict=True, reason=AnswerReason.READY)
        told = f"HTTP 200 from {path} with neither an empty body nor a JSON object"
        return Answer(None, AnswerReason.WRONG_PROTOCOL, told)
    stated = document.get("state")
    reason = _STATES.get(str(stated), AnswerReason.NOT_READY)
    if stated is None and document.get("ready") is False and words:
        # A server that knows the model, says that it is not ready and says why, has failed to
        # load it: one that still loads has no error to tell.
        reason = AnswerReason.LOAD_FAILED
    return Answer(verdict=False, reason=reason, message=words or f"HTTP {reply.code} from {path}")
