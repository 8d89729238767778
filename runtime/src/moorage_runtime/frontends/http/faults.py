"""Errors of the listener and the router, in the form of the path's protocol."""

from collections.abc import Callable

import orjson

from moorage_runtime.frontends.http.message import HttpResponse

# From path ("" if unknown), status and message to the response.
FaultRenderer = Callable[[str, int, str], HttpResponse]


def render_json(path: str, status: int, message: str) -> HttpResponse:  # noqa: ARG001 - a FaultRenderer; one body for all paths
    """``{"error": message}``, the form of OIP and TensorFlow Serving."""
    return HttpResponse(status, orjson.dumps({"error": message}))
