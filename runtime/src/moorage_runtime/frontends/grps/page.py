"""``GET /``: a status page for people, as in other GRPS servers.

    Prometheus registry -> grps.page_figures.Snapshot -> grps.page_html -> HttpResponse

The page shows the metrics of ``/metrics``. Rates are since the page was last read, or since the
process started.

Source: GRPS interface, "metrics page".
"""

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from moorage_runtime.frontends.grps.page_figures import Snapshot, read
from moorage_runtime.frontends.grps.page_html import render
from moorage_runtime.frontends.http.faults import render_json
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse

_HTML: Final = b"text/html; charset=utf-8"
# A shorter interval between two reads would give no useful rates.
_SHORTEST_SECONDS: Final = 1.0


class GrpsPage:
    """Answers ``GET /``.

    Args:
        registry: The metrics.
        clock: Seconds of a monotonic clock.
    """

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._registry = registry
        self._clock = clock
        self._read_at = clock()
        self._read = self._snapshot()
        self._rates_of: tuple[Snapshot, Snapshot, float] | None = None

    def handle(self, request: HttpRequest) -> HttpResponse:
        """The page; 405 for methods other than GET."""
        if request.method != "GET":
            answer = render_json(
                request.path, 405, f"method {request.method} is not allowed: use GET"
            )
            answer.headers = ((b"Allow", b"GET, HEAD"),)
            return answer
        elapsed = self._clock() - self._read_at
        if elapsed >= _SHORTEST_SECONDS or self._rates_of is None:
            now = self._snapshot()
            self._rates_of = (self._read, now, max(elapsed, _SHORTEST_SECONDS))
            self._read, self._read_at = now, self._read_at + elapsed
        before, now, seconds = self._rates_of
        return HttpResponse(200, render(before, now, seconds), _HTML)

    def _snapshot(self) -> Snapshot:
        return read(s for metric in self._registry.collect() for s in metric.samples)
