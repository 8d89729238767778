"""The model repository extension over HTTP: lists, loads and unloads models at run time.

    POST /v2/repository/index                    {"ready": true} lists only models that are ready
    POST /v2/repository/models/{name}/load
    POST /v2/repository/models/{name}/unload

Disabled by default, because any client could otherwise unload a model. Source: Triton's model
repository extension; overrides of a model's files or configuration are refused.
"""

import re
from collections.abc import Awaitable, Collection
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from moorage_runtime.codec.url_text import decoded
from moorage_runtime.frontends.http.message import Answer, Handler, HttpRequest, HttpResponse
from moorage_runtime.frontends.oip import rest as oip_rest
from moorage_runtime.values import errors
from moorage_runtime.values.inference import ModelStatus

if TYPE_CHECKING:
    from moorage_runtime.dataplane import Dataplane

PREFIX: Final = "/v2/repository/"
_INDEX: Final = "/v2/repository/index"
_CONTROL: Final = re.compile(r"/v2/repository/models/([^/]+)/(load|unload)")
# Triton's clients send it with every unload; no model depends on another.
_UNLOAD_PARAMETERS: Final = ("unload_dependents",)
# Spec: UNKNOWN, READY, UNAVAILABLE, LOADING, UNLOADING.
_STATES: Final = {"FAILED": "UNAVAILABLE", "UNLOADED": "UNAVAILABLE"}


class RepositoryRestFrontend:
    """Handles the requests below ``/v2/repository``, and passes others to another handler.

    Args:
        dataplane: The models.
        rest: Handler of every other path.
    """

    def __init__(self, dataplane: "Dataplane", rest: Handler) -> None:
        self._dataplane = dataplane
        self._rest = rest

    def handle(self, request: HttpRequest) -> Answer | Awaitable[Answer]:
        """The response to one request."""
        if not request.path.startswith(PREFIX):
            return self._rest(request)
        return self._control(request)

    async def _control(self, request: HttpRequest) -> HttpResponse:
        try:
            found = _CONTROL.fullmatch(request.path)
            if request.path != _INDEX and found is None:
                raise errors.NotFound(f"no such path: {request.path}")
            if request.method != "POST":
                message = f"method {request.method} is not allowed on {request.path}: use POST"
                body = orjson.dumps({"error": message})
                return HttpResponse(405, body, headers=((b"Allow", b"POST"),))
            body = _parse(request.body)
            if found is None:
                return HttpResponse(200, self._index(body))
            name, operation = decoded(found[1]), found[2]
            _check_parameters(body, _UNLOAD_PARAMETERS if operation == "unload" else ())
            if operation == "load":
                await self._dataplane.load(name)
            else:
                await self._dataplane.unload(name)
        except errors.RuntimeFault as fault:
            return oip_rest.error_response(fault)
        return HttpResponse(200, b"{}")

    def _index(self, body: dict[str, Any]) -> bytes:
        ready = body.get("ready", False)
        if not isinstance(ready, bool):
            raise errors.InvalidRequest(f"ready is {ready!r:.100}: must be true or false")
        statuses = self._dataplane.model_index()
        return orjson.dumps([_entry(s) for s in statuses if s.state == "READY" or not ready])


def _check_parameters(body: dict[str, Any], allowed: Collection[str]) -> None:
    parameters: object = body.get("parameters") or {}
    if not isinstance(parameters, dict) or not set(cast("dict[str, Any]", parameters)).issubset(
        allowed
    ):
        raise errors.InvalidRequest("parameters cannot override files or configuration: send none")


def _parse(body: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The body as an object; it may be empty."""
    if not len(body):
        return {}
    try:
        document: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.InvalidRequest(f"the body is not valid JSON: {error}") from error
    if not isinstance(document, dict):
        raise errors.InvalidRequest("the body is not a JSON object")
    return cast("dict[str, Any]", document)


def _entry(status: ModelStatus) -> dict[str, str]:
    entry = {
        "name": status.name,
        "version": status.version,
        "state": _STATES.get(status.state, status.state),
    }
    reason = "unloaded" if status.state == "UNLOADED" else status.message
    return {**entry, "reason": reason} if reason else entry
