"""``GET /metrics``: the Prometheus text format, or OpenMetrics for clients that request it."""

import orjson
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse


class MetricsFrontend:
    """Answers with the metrics of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def handle(self, request: HttpRequest) -> HttpResponse:
        """The metrics; 405 for methods other than GET, 404 below the path."""
        if request.path != "/metrics":
            return _error(404, f"unknown path '{request.path[:200]}'")
        if request.method != "GET":
            response = _error(405, f"method {request.method} is not allowed on /metrics: use GET")
            response.headers = ((b"Allow", b"GET, HEAD"),)
            return response
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        return HttpResponse(200, encode(self._registry), content_type.encode())


def _error(status: int, message: str) -> HttpResponse:
    return HttpResponse(status, orjson.dumps({"error": message}))
