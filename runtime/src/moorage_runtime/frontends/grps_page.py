"""``GET /``: the server's figures as a page for people, as GRPS servers have it.

    Prometheus registry -> grps_figures.Snapshot -> grps_page_html -> HttpResponse

The figures are those of ``/metrics``; the page only reads them. Rates are of the time since the
page was read last, or since the process began.

Source: GRPS interface, "metrics page".
"""

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from moorage_runtime.frontends.grps_figures import Snapshot, read
from moorage_runtime.frontends.grps_page_html import render
from moorage_runtime.frontends.http.faults import render_json
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse

_HTML: Final = b"text/html; charset=utf-8"
# Reading twice within this would make rates of nothing.
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
        """The page; 405 for any method but GET."""
        if request.method != "GET":
            answer = render_json(request.path, 405, f"{request.method} is not allowed; use GET")
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
