"""Reads the figures of the status page from the metrics. Pure.

    samples of the Prometheus registry -> Snapshot; Figures -> rates, percentiles, shares

Source: GRPS interface, "metrics page": requests per second, failure rate, latency (average,
maximum, distribution), processor and memory.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from prometheus_client.samples import Sample

from moorage_runtime.dataplane.tally import OK

_OUTCOMES: Final = "moorage_inferences_total"
_LATENCY: Final = "moorage_inference_seconds"
_READY: Final = "moorage_model_ready"
_PROCESSOR: Final = "process_cpu_seconds_total"
_MEMORY: Final = "process_resident_memory_bytes"

Model = tuple[str, str]


class Figures(msgspec.Struct):
    """One version's counters, or the sum of several.

    Attributes:
        requests: All requests.
        failures: Requests with an outcome other than ok.
        seconds: Sum of the latencies.
        timed: Number of latencies.
        buckets: (upper bound in seconds, requests up to it), ascending, the last bound infinite.
        is_ready: Whether it can answer; None for unknown names.
    """

    requests: float = 0.0
    failures: float = 0.0
    seconds: float = 0.0
    timed: float = 0.0
    buckets: list[tuple[float, float]] = []
    is_ready: bool | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """All figures at one time."""

    models: Mapping[Model, Figures]
    processor_seconds: float
    memory_bytes: float

    @property
    def requests(self) -> float:
        """Requests to every model."""
        return sum(figures.requests for figures in self.models.values())

    @property
    def failures(self) -> float:
        """Failures of every model."""
        return sum(figures.failures for figures in self.models.values())


def read(given: Iterable[Sample]) -> Snapshot:
    """Read the figures from the samples; other samples are ignored."""
    models: dict[Model, Figures] = {}
    processor = memory = 0.0
    for sample in given:
        if sample.name == _PROCESSOR:
            processor = sample.value
        elif sample.name == _MEMORY:
            memory = sample.value
        elif sample.name.startswith((_OUTCOMES, _LATENCY, _READY)):
            model = (sample.labels["model"], sample.labels["version"])
            _count(models.setdefault(model, Figures()), sample)
    return Snapshot(models, processor, memory)


def share(part: float, whole: float) -> float | None:
    """The fraction of the whole; None if the whole is 0."""
    return part / whole if whole else None


def percentile(buckets: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """The latency in seconds that this share of the requests does not exceed.

    Args:
        buckets: As in Figures.
        wanted: From 0 to 1.

    Returns:
        A linear interpolation within the bucket, as in Prometheus; infinity above the last
        finite bound; None without requests.
    """
    everything = buckets[-1][1] if buckets else 0.0
    if not everything:
        return None
    rank = wanted * everything
    below, under = 0.0, 0.0
    for bound, count in buckets:
        if count >= rank and count > under:
            return below + (bound - below) * (rank - under) / (count - under)
        below, under = bound, count
    return math.inf


def largest(buckets: Sequence[tuple[float, float]]) -> float | None:
    """The upper bound of the slowest request's bucket; None without requests."""
    everything = buckets[-1][1] if buckets else 0.0
    if not everything:
        return None
    return next(bound for bound, count in buckets if count == everything)


def distribution(buckets: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """(bound in seconds, share of the requests up to it) for every finite bound."""
    everything = buckets[-1][1] if buckets else 0.0
    return [(bound, count / everything) for bound, count in buckets[:-1]] if everything else []


def _count(figures: Figures, sample: Sample) -> None:
    match sample.name:
        case "moorage_inference_seconds_sum":
            figures.seconds = sample.value
        case "moorage_inference_seconds_count":
            figures.timed = sample.value
        case "moorage_inference_seconds_bucket":
            figures.buckets.append((float(sample.labels["le"]), sample.value))
        case "moorage_model_ready":
            figures.is_ready = bool(sample.value)
        case "moorage_inferences_total":
            figures.requests += sample.value
            if sample.labels["outcome"] != OK:
                figures.failures += sample.value
        case _:  # creation time of the series
            pass
