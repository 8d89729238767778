"""The driver of TensorFlow Serving's REST API.

The API has no health endpoints: a server that answers is live, and a model is ready if its status
lists the wanted version as AVAILABLE.

Source: TensorFlow Serving RESTful API, "Model status API" and "Model Metadata API".
"""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.driver import Described, evidence, refused_for_token, unreadable
from moorage_operator.probe.reading.aside import aside
from moorage_operator.probe.reading.elements import Unreadable
from moorage_operator.probe.transport.http_client import (
    Reply,
    judged_by_status,
    refusal,
    rejection,
)
from moorage_operator.values.answers import NOT_ASKED, Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs

from . import tensorflow_metadata as tensorflow
from . import tensorflow_tensors
from .http_driver import HttpDriver


class TensorflowRest(HttpDriver):
    """Queries TensorFlow Serving and compatible servers over HTTP.

    The target's server path is the model's status URL.
    """

    async def live(self, target: ProbeTarget) -> Answer:
        """Query whether the server answers, or the custom live path."""
        reply = await self._http.get(target, target.way.live_path or target.way.server_path)
        if isinstance(reply, Answer):
            return reply
        if target.way.live_path:
            return judged_by_status(reply, target.way.live_path)
        return Answer(verdict=True, reason=AnswerReason.READY)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query the custom ready path; the protocol has no such query."""
        if not target.way.ready_path:
            return NOT_ASKED
        reply = await self._http.ask_health(target, target.way.ready_path)
        return (
            reply if isinstance(reply, Answer) else judged_by_status(reply, target.way.ready_path)
        )

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query whether the wanted version is AVAILABLE, or the custom path."""
        path = target.way.model_ready_path or target.way.server_path
        reply = await self._http.get(target, path)
        if isinstance(reply, Answer):
            return reply
        if reply.code == HTTPStatus.OK:
            statuses = tensorflow.version_statuses(reply.document)
            if statuses is not None:
                return tensorflow.judged(target, statuses)
        if target.way.model_ready_path:
            return judged_by_status(reply, path)
        if _is_not_found(reply):
            return Answer(verdict=False, reason=AnswerReason.MODEL_NOT_FOUND, message=reply.error)
        return refusal(reply, path, "model_version_status")

    async def describe(self, target: ProbeTarget) -> Described:
        """Query the model's signature; the protocol has no metadata of the server."""
        status, found = await asyncio.gather(
            self._http.get(target, target.way.server_path),
            self._http.get(target, target.way.metadata_path),
        )
        if isinstance(status, Answer) or isinstance(found, Answer):
            return Described(unauthorized=refused_for_token(status, found))
        statuses = tensorflow.version_statuses(status.document)
        versions = tensorflow.available(statuses or ())
        return Described(
            model=tensorflow.model_of(found.document, target.model_name, versions),
            evidence="" if statuses is None else _proof(target),
        )

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether the status URL lists versions or reports that the model does not exist."""
        path = target.way.server_path
        reply = await self._http.get(target, path)
        if isinstance(reply, Answer):
            return reply
        if tensorflow.version_statuses(reply.document) is not None:
            return evidence(_proof(target))
        if _is_not_found(reply):
            return evidence(f"GET {path} reports that the model does not exist")
        return refusal(reply, path, "model_version_status")

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Return the model's outputs: in row format if the inputs are batches, else columnar."""
        reply = await self._http.infer(target, tensorflow_tensors.request_document(inputs))
        if isinstance(reply, Answer):
            return reply
        if reply.code != HTTPStatus.OK:
            return rejection(reply, target.way.infer_path)
        try:
            return await aside(
                len(reply.body), tensorflow_tensors.outputs_of_document, reply.document
            )
        except Unreadable as why:
            return unreadable(target.way.infer_path, why)


def _proof(target: ProbeTarget) -> str:
    return f"GET {target.way.server_path} lists versions and their states"


def _is_not_found(reply: Reply) -> bool:
    """Whether TensorFlow Serving reports that the model does not exist.

    Other servers answer 404 to this URL too, but with another message.
    """
    error = reply.error.lower()
    return reply.code == HTTPStatus.NOT_FOUND and (
        "of model" in error or "servable not found" in error
    )
