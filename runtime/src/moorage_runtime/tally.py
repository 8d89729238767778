"""Counts and times of inferences, and how Prometheus sees them.

    dataplane -> InferenceMetrics -> Tally.record; registry -> Tally.collect -> samples

The library's counters take a lock for each figure and look their labels up; together that was a
twentieth of what a small request costs. Here one list holds what is counted of a version, moved
in the event loop alone, and becomes samples when somebody asks.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

OK: Final = "ok"
# Outcomes in which the client, not the server, chose the name.
_UNKNOWN: Final = frozenset({"ModelNotFound", "VersionNotFound", "RepositoryUnread"})
_VERSION: Final = ("model", "version")


class _Times:
    """Of the answered requests of one version: how many per bucket, and their seconds."""

    __slots__ = ("buckets", "seconds")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.seconds = 0.0


class Tally(Collector):
    """Inferences by model, version and outcome, and the times of those that were answered.

    Args:
        bounds: Upper bounds of the buckets in seconds, ascending; each includes its bound.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._answered: dict[tuple[str, str], _Times] = {}
        self._failed: dict[tuple[str, str, str], int] = {}

    def record(self, model: str, version: str, outcome: str, seconds: float) -> None:
        """One inference has ended; the seconds count where it was answered."""
        if outcome != OK:
            key = ("", "", outcome) if outcome in _UNKNOWN else (model, version, outcome)
            self._failed[key] = self._failed.get(key, 0) + 1
            return
        times = self._answered.get((model, version))
        if times is None:
            times = self._answered[model, version] = _Times(len(self._bounds))
        times.buckets[bisect_left(self._bounds, seconds)] += 1
        times.seconds += seconds

    def describe(self) -> Iterable[Metric]:
        """The metrics' names, for the registry to keep apart from others."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """The counter and the histogram."""
        count = CounterMetricFamily(
            "moorage_inferences",
            "Inference requests by outcome: ok, Cancelled, or the reason of the error.",
            labels=(*_VERSION, "outcome"),
        )
        seconds = HistogramMetricFamily(
            "moorage_inference_seconds",
            "Time from the decoded request to the model's answer, waiting included.",
            labels=_VERSION,
        )
        names = [floatToGoString(bound) for bound in self._bounds] + ["+Inf"]
        for version, times in self._answered.items():
            count.add_metric((*version, OK), sum(times.buckets))
            upto = zip(names, accumulate(times.buckets), strict=True)
            seconds.add_metric(version, list(upto), times.seconds)
        for key, number in self._failed.items():
            count.add_metric(key, number)
        return count, seconds
