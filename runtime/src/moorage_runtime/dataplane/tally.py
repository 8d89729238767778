"""Counts and times of inferences as Prometheus metrics.

    dataplane -> Recording -> Tally.record; registry -> Tally.collect -> samples

The counters of the Prometheus library take a lock and look up labels for each value, which was 5%
of the cost of a small request. Here, the event loop updates one list per version, which becomes
samples on scrape.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate
from types import TracebackType
from typing import Final, Self

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from moorage_runtime.values.errors import reason_of

OK: Final = "ok"
_CANCELLED: Final = "Cancelled"
# Outcomes in which the client, not the server, chose the name.
_UNKNOWN: Final = frozenset({"ModelNotFound", "VersionNotFound", "RepositoryUnread"})
_VERSION: Final = ("model", "version")


class _Times:
    """Answered requests of one version: counts per bucket, and the sum of seconds."""

    __slots__ = ("buckets", "seconds")

    def __init__(self, bounds: int) -> None:
        self.buckets = [0] * (bounds + 1)
        self.seconds = 0.0


class Recording:
    """One inference: recorded when its ``with`` block ends, with the outcome of the block.

    Args:
        record: As ``Tally.record``.
        model: Name in the request.
        version: Version in the request.

    Attributes:
        version: The version that answers, once it is known.
    """

    __slots__ = ("_is_suspended", "_model", "_record", "_started", "version")

    def __init__(
        self, record: Callable[[str, str, str, float], None], model: str, version: str
    ) -> None:
        self.version = version
        self._record = record
        self._model = model
        self._is_suspended = False
        self._started = time.perf_counter()

    def suspended(self) -> Self:
        """Leave it to the next ``with`` block to record the inference."""
        self._is_suspended = True
        return self

    def __enter__(self) -> Self:
        """Enter the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Record the outcome; what is no Exception cancels the inference."""
        if self._is_suspended:
            self._is_suspended = False
            return
        outcome = OK
        if error is not None:
            outcome = reason_of(error) if isinstance(error, Exception) else _CANCELLED
        self._record(self._model, self.version, outcome, time.perf_counter() - self._started)


class Tally(Collector):
    """Inferences by model, version and outcome, and the latencies of answered ones.

    Args:
        bounds: Upper bounds of the buckets in seconds, ascending; each includes its bound.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._answered: dict[tuple[str, str], _Times] = {}
        self._failed: dict[tuple[str, str, str], int] = {}

    def record(self, model: str, version: str, outcome: str, seconds: float) -> None:
        """Record a finished inference; the seconds count only if it was answered."""
        if outcome != OK:
            key = ("", "", outcome) if outcome in _UNKNOWN else (model, version, outcome)
            self._failed[key] = self._failed.get(key, 0) + 1
            return
        times = self._answered.get((model, version))
        if times is None:
            times = self._answered[model, version] = _Times(len(self._bounds))
        times.buckets[bisect_left(self._bounds, seconds)] += 1
        times.seconds += seconds

    def keep(self, known: Collection[tuple[str, str]]) -> None:
        """Drop the series of all other versions.

        Those without a version are of requests that failed before one was chosen.
        """
        known = {*known, *((model, "") for model, _ in known), ("", "")}
        self._answered = {key: times for key, times in self._answered.items() if key in known}
        self._failed = {key: number for key, number in self._failed.items() if key[:2] in known}

    def describe(self) -> Iterable[Metric]:
        """The metric names, which let the registry detect duplicates."""
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
            "Time from the decoded request to the model's response, including waiting.",
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
