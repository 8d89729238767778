"""``GET /``: the server's figures as a page for people, as GRPS servers have it.

    Prometheus registry -> Snapshot -> rows -> HTML

The figures are those of ``/metrics``; the page only reads them. It reloads itself, and rates are
of the time since it was read last, or since the process began.

Source: GRPS interface, "metrics page": requests per second, share of failures, latency (average,
largest, distribution), processor and memory.
"""

import html
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from moorage_runtime import dataplane
from moorage_runtime.frontends.http.faults import render_json
from moorage_runtime.frontends.http.message import HttpRequest, HttpResponse

_HTML: Final = b"text/html; charset=utf-8"
_RELOAD_SECONDS: Final = 5
# Reading twice within this would make rates of nothing.
_SHORTEST_SECONDS: Final = 1.0
_OUTCOMES: Final = "moorage_inferences_total"
_LATENCY: Final = "moorage_inference_seconds"
_PROCESSOR: Final = "process_cpu_seconds_total"
_MEMORY: Final = "process_resident_memory_bytes"
_MIB: Final = 1024 * 1024
_COLUMNS: Final = (
    "model",
    "version",
    "requests",
    "qps",
    "fail rate",
    "latency avg",
    "latency max",
    "latency cdf",
)

Model = tuple[str, str]


class Figures(msgspec.Struct):
    """One version's counters.

    Attributes:
        requests: All requests.
        failures: Those with another outcome than ok.
        seconds: Sum of the latencies.
        timed: How many latencies there are.
        buckets: (upper bound in seconds, requests up to it), ascending.
    """

    requests: float = 0.0
    failures: float = 0.0
    seconds: float = 0.0
    timed: float = 0.0
    buckets: list[tuple[float, float]] = []


class Snapshot(msgspec.Struct, frozen=True):
    """All figures at one time."""

    models: Mapping[Model, Figures]
    processor_seconds: float
    memory_bytes: float


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
        self._read = read(samples(registry))
        self._rates_of: tuple[Snapshot, Snapshot, float] | None = None

    def handle(self, request: HttpRequest) -> HttpResponse:
        """The page; 405 for any method but GET."""
        if request.method != "GET":
            answer = render_json(request.path, 405, f"{request.method} is not allowed; use GET")
            answer.headers = ((b"Allow", b"GET, HEAD"),)
            return answer
        elapsed = self._clock() - self._read_at
        if elapsed >= _SHORTEST_SECONDS or self._rates_of is None:
            now = read(samples(self._registry))
            self._rates_of = (self._read, now, max(elapsed, _SHORTEST_SECONDS))
            self._read, self._read_at = now, self._read_at + elapsed
        before, now, seconds = self._rates_of
        return HttpResponse(200, render(before, now, seconds), _HTML)


def samples(registry: CollectorRegistry) -> Iterable[Sample]:
    """Every sample of the registry."""
    return (sample for metric in registry.collect() for sample in metric.samples)


def read(given: Iterable[Sample]) -> Snapshot:
    """The figures that the samples hold; others are passed over."""
    models: dict[Model, Figures] = {}
    processor = memory = 0.0
    for sample in given:
        if sample.name == _PROCESSOR:
            processor = sample.value
        elif sample.name == _MEMORY:
            memory = sample.value
        elif sample.name.startswith((_OUTCOMES, _LATENCY)):
            model = (sample.labels["model"], sample.labels["version"])
            _count(models.setdefault(model, Figures()), sample)
    return Snapshot(models, processor, memory)


def render(before: Snapshot, now: Snapshot, seconds: float) -> bytes:
    """The page; rates are of the time between the snapshots."""
    used = (now.processor_seconds - before.processor_seconds) / seconds
    rows = [
        _row(model, before.models.get(model, Figures()), figures, seconds)
        for model, figures in sorted(now.models.items())
    ]
    head = "".join(f"<th>{column}</th>" for column in _COLUMNS)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{_RELOAD_SECONDS}"><title>Moorage</title></head>'
        f"<body><h1>Moorage</h1><p>cpu: {used:.1%} of a core; memory: "
        f"{now.memory_bytes / _MIB:.1f} MiB; rates of the last {seconds:.0f} s</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></body></html>\n"
    ).encode()


def _count(figures: Figures, sample: Sample) -> None:
    match sample.name.removeprefix(_LATENCY):
        case "_sum":
            figures.seconds = sample.value
        case "_count":
            figures.timed = sample.value
        case "_bucket":
            figures.buckets.append((float(sample.labels["le"]), sample.value))
        case name if name == _OUTCOMES:
            figures.requests += sample.value
            if sample.labels["outcome"] != dataplane.OK:
                figures.failures += sample.value
        case _:  # when the series began
            pass


def _row(model: Model, before: Figures, now: Figures, seconds: float) -> Sequence[str]:
    average = f"{now.seconds / now.timed * 1000:.2f} ms" if now.timed else ""
    rate = f"{now.failures / now.requests:.1%}" if now.requests else ""
    name, version = model
    return (
        # requests for names that do not exist are counted together, without a name
        name or "(unknown)",
        version,
        f"{now.requests:.0f}",
        f"{(now.requests - before.requests) / seconds:.1f}",
        rate,
        average,
        _largest(now.buckets),
        _distribution(now.buckets),
    )


def _largest(buckets: Sequence[tuple[float, float]]) -> str:
    """Between which bounds the slowest request lies: all that buckets can tell."""
    if not buckets or not buckets[-1][1]:
        return ""
    everything = buckets[-1][1]
    index = next(i for i, (_, count) in enumerate(buckets) if count == everything)
    if index == len(buckets) - 1:
        return f"over {_milliseconds(buckets[-2][0])}" if index else ""
    return f"up to {_milliseconds(buckets[index][0])}"


def _distribution(buckets: Sequence[tuple[float, float]]) -> str:
    """Share of the requests up to each bound, from the first that any is under to the last."""
    everything = buckets[-1][1] if buckets else 0
    if not everything:
        return ""
    shares = [(bound, count / everything) for bound, count in buckets[:-1] if count]
    stop = next((i for i, (_, share) in enumerate(shares) if share == 1), len(shares) - 1)
    return ", ".join(f"{_milliseconds(bound)}: {share:.1%}" for bound, share in shares[: stop + 1])


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:g} ms"
