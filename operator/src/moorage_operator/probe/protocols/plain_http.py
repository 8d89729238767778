"""The driver of the protocol None: the health of any HTTP server.

Only the paths in the spec are known, so readiness is that of the server, and metadata is not
available. Only the HTTP status counts: 200 to 299 is a positive answer.
"""

from collections.abc import Sequence

from moorage_operator.api.smoke_tests import InputTensor
from moorage_operator.probe.driver import Described, no_tensors
from moorage_operator.probe.transport.http_client import judged_by_status
from moorage_operator.values.answers import BARRED, Answer, AnswerReason
from moorage_operator.values.plan import ProbeTarget
from moorage_operator.values.smoke import Outputs

from .http_driver import HttpDriver

_SILENCE = (AnswerReason.REFUSED, AnswerReason.TIMED_OUT)


class PlainHttp(HttpDriver):
    """Queries the health of a server of an unknown protocol."""

    async def live(self, target: ProbeTarget) -> Answer:
        """Query the live path; without one, any answer at the ready path means live."""
        if target.way.live_path:
            return await self._health(target, target.way.live_path)
        reply = await self._http.ask_health(target, target.way.ready_path)
        if isinstance(reply, Answer):
            return _not_ready(reply)
        return Answer(verdict=True, reason=AnswerReason.READY)

    async def ready(self, target: ProbeTarget) -> Answer:
        """Query the ready path."""
        return await self._health(target, target.way.ready_path)

    async def model_ready(self, target: ProbeTarget) -> Answer:
        """Query the ready path, because nothing is known of models."""
        return await self._health(target, target.way.ready_path)

    async def describe(self, target: ProbeTarget) -> Described:
        """Return nothing, because plain HTTP has no metadata."""
        del target
        return Described()

    async def speaks(self, target: ProbeTarget) -> Answer:
        """Query whether an HTTP server answers, which proves no protocol."""
        reply = await self._http.ask_health(target, target.way.ready_path)
        return reply if isinstance(reply, Answer) else Answer(None, AnswerReason.NOT_ASKED)

    async def infer(self, target: ProbeTarget, inputs: Sequence[InputTensor]) -> Outputs | Answer:
        """Refuse: there are no tensors."""
        del inputs
        return no_tensors(target.way.protocol)

    async def _health(self, target: ProbeTarget, path: str) -> Answer:
        reply = await self._http.ask_health(target, path)
        return _not_ready(reply) if isinstance(reply, Answer) else judged_by_status(reply, path)


def _not_ready(answer: Answer) -> Answer:
    """Convert an answer that is not HTTP or is too large; no protocol can mismatch."""
    if answer.reason in _SILENCE or answer.reason in BARRED:
        return answer
    return Answer(verdict=False, reason=AnswerReason.NOT_READY, message=answer.message)
