"""TensorFlow Serving's REST API, as a driver.

It has no health endpoints: a server that answers at all lives, and a model is ready when its
status lists the wanted version as AVAILABLE.

Source: TensorFlow Serving RESTful API, "Model status API" and "Model Metadata API".
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from moorage_operator.answers import NOT_ASKED, Answer, AnswerReason
from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.planned import ProbeTarget
from moorage_operator.smoke import Outputs

from . import tensorflow_metadata as tensorflow
from . import tensorflow_tensors
from .driver import Described, evidence, unreadable
from .elements import Unreadable
from .http_client import HttpClient, Reply, refusal, rejection


class TensorflowRest:
    """Asks TensorFlow Serving, and what speaks as it does, over HTTP.

    The target's server path is the model's status URL.
    """

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def live(self, target: ProbeTarget) -> Answer:
        """Whether anything answers; with a path of the spec, whether it says yes."""
        reply = await self._http.get(target, target.live_path or target.server_path)
        if isinstance(reply, Answer):
            return reply
        if target.live_path:
            return _by_code(reply, target.live_path)
        return Answer(verdict=True, reason=AnswerReason.READY)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Whether the path of the spec says yes; the protocol has no such question."""
        if not target.ready_path:
            return NOT_ASKED
        reply = await self._http.get(target, target.ready_path)
        return reply if isinstance(reply, Answer) else _by_code(reply, target.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Whether the wanted version is AVAILABLE, or the path of the spec says yes."""
        path = target.model_ready_path or target.server_path
        reply = await self._http.get(target, path)
        if isinstance(reply, Answer):
            return reply
        if reply.code == HTTPStatus.OK:
            statuses = tensorflow.version_statuses(reply.document)
            if statuses is not None:
                return tensorflow.judged(target, statuses)
        if target.model_ready_path:
            return _by_code(reply, path)
        if _is_not_found(reply):
            return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=reply.words)
        return refusal(reply, path, "model_version_status")

    async def describe(self, target: ProbeTarget) -> Described:
        """The model's signature; the protocol tells nothing of the server."""
        status, told = await asyncio.gather(
            self._http.get(target, target.server_path),
            self._http.get(target, target.metadata_path),
        )
        if isinstance(status, Answer) or isinstance(told, Answer):
            return Described()
        versions = tensorflow.available(tensorflow.version_statuses(status.document) or ())
        return Described(model=tensorflow.model_of(told.document, target.model_name, versions))

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Whether the status URL lists versions, or says that there is no such model."""
        path = target.server_path
        reply = await self._http.get(target, path)
        if isinstance(reply, Answer):
            return reply
        if tensorflow.version_statuses(reply.document) is not None:
            return evidence(f"GET {path} lists versions and their states")
        if _is_not_found(reply):
            return evidence(f"GET {path} says that there is no such model")
        return refusal(reply, path, "model_version_status")

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Nothing to do: the protocol has no offline state."""
        del target
        return False

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """The model's outputs: by rows where the inputs are batches, else by columns."""
        reply = await self._http.infer(target, tensorflow_tensors.request_document(inputs))
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.OK:
            return rejection(reply, target.infer_path)
        try:
            return tensorflow_tensors.outputs_of_document(reply.document)
        except Unreadable as why:
            return unreadable(target.infer_path, why)


def _by_code(reply: Reply, path: str) -> Answer:
    if reply.code == HTTPStatus.OK:
        return Answer(verdict=True, reason=AnswerReason.READY)
    words = reply.words or f"HTTP {reply.code} from {path}"
    return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=words)


def _is_not_found(reply: Reply) -> bool:
    """Whether the server speaks of a model that it does not have.

    Other servers answer 404 to this URL too; what it says tells them apart.
    """
    said = reply.words.lower()
    return reply.code == HTTPStatus.NOT_FOUND and (
        "of model" in said or "servable not found" in said
    )
