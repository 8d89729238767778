"""What all drivers over HTTP have in common: requests of smoke tests, and no offline state."""

from moorage_operator.api.smoke_tests import SmokeTest
from moorage_operator.probe.driver import unreadable
from moorage_operator.probe.reading import json_text
from moorage_operator.probe.reading.cost import spending
from moorage_operator.probe.transport.http_client import HttpClient, rejection
from moorage_operator.values.answers import Answer
from moorage_operator.values.json_answers import JsonAnswer
from moorage_operator.values.plan import ProbeTarget

__all__ = ["HttpDriver", "send"]


class HttpDriver:
    """The base of a driver over HTTP."""

    def __init__(self, http: HttpClient) -> None:
        self._http = http

    async def bring_online(self, target: ProbeTarget) -> bool:
        """Do nothing: the protocol has no offline state."""
        del target
        return False

    async def send(self, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
        """Return the answer to the JSON request of a smoke test, or the server's error."""
        return await send(self._http, target, test)


async def send(http: HttpClient, target: ProbeTarget, test: SmokeTest) -> JsonAnswer | Answer:
    """Send the request of a smoke test, to the protocol's own path if it names none.

    Any status from 200 to 299 is an answer. It must be JSON only if the test expects something.
    """
    request = test.request
    path = (request.path if request else "") or target.way.infer_path
    reply = await http.request(target, path, request.body if request else None)
    if isinstance(reply, Answer):
        return reply
    if not reply.is_success:
        return rejection(reply, path)
    if not test.expect:
        return JsonAnswer(None, len(reply.body))
    try:
        found = spending(json_text.decode, reply.body, value_limit=reply.value_limit)
    except json_text.NotJson as why:
        return unreadable(path, why)
    return JsonAnswer(found, len(reply.body))
