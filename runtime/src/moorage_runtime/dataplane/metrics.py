"""The Prometheus metrics of the runtime.

Only known models become labels, so a client cannot create series with names that do not exist. The
series of a version that was removed are dropped at the next scrape: a server whose models come and
go would otherwise collect series until it restarts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from moorage_runtime.dataplane.tally import OK, Tally

# 100 us to 10 s: from a small model in the event loop to a large model with a queue.
_LATENCY_BUCKETS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
_BATCH_BUCKETS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
_LOAD_BUCKETS: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class InferenceMetrics:
    """Counts and times of inferences and loads.

    Args:
        registry: The collector registry.

    Attributes:
        record: Records a finished inference; see ``Tally.record``.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        # first, so that it drops series before the others are collected
        registry.register(_Scrape(self._drop_removed))
        self._tally = Tally(_LATENCY_BUCKETS)
        registry.register(self._tally)
        self.record = self._tally.record
        self._batch_requests = Histogram(
            "moorage_batch_requests",
            "Number of merged requests per run in a worker thread.",
            ("model", "version"),
            buckets=_BATCH_BUCKETS,
            registry=registry,
        )
        self._queue_seconds = Histogram(
            "moorage_queue_seconds",
            "Time for which a request waited for a worker thread.",
            ("model", "version"),
            buckets=_LATENCY_BUCKETS,
            registry=registry,
        )
        self._load_seconds = Histogram(
            "moorage_model_load_seconds",
            "Time to load a version of a model.",
            ("model", "version"),
            buckets=_LOAD_BUCKETS,
            registry=registry,
        )
        self._load_failures = Counter(
            "moorage_model_load_failures",
            "Failed loads, by reason.",
            ("model", "version", "reason"),
            registry=registry,
        )
        self._states = States()
        registry.register(self._states)
        self._read: ReadStates | None = None
        self._loads: dict[tuple[str, str], set[str]] = {}
        # labels() takes a lock and hashes its arguments, so its children are cached
        self._runs: dict[tuple[str, str], tuple[Histogram, Histogram]] = {}

    def watch(self, read: "ReadStates") -> None:
        """Set the source of the versions' states; see ``States.watch``."""
        self._read = read
        self._states.watch(read)

    def ran(self, model: str, version: str, requests: int, waited: Sequence[float]) -> None:
        """Record the start of a run in a worker thread."""
        histograms = self._runs.get((model, version))
        if histograms is None:
            histograms = (
                self._batch_requests.labels(model, version),
                self._queue_seconds.labels(model, version),
            )
            self._runs[model, version] = histograms
        histograms[0].observe(requests)
        for seconds in waited:
            histograms[1].observe(seconds)

    def loaded(self, model: str, version: str, outcome: str, seconds: float) -> None:
        """Record the end of a load."""
        self._loads.setdefault((model, version), set()).add(outcome)
        if outcome == OK:
            self._load_seconds.labels(model, version).observe(seconds)
        else:
            self._load_failures.labels(model, version, outcome).inc()

    def _drop_removed(self) -> None:
        """Drop the series of versions that the source no longer has."""
        if self._read is None:
            return
        known = {(model, version) for model, version, _, _ in self._read()}
        self._tally.keep(known)
        for key in self._runs.keys() - known:
            del self._runs[key]
            self._batch_requests.remove(*key)
            self._queue_seconds.remove(*key)
        for key in self._loads.keys() - known:
            for outcome in self._loads.pop(key):
                if outcome == OK:
                    self._load_seconds.remove(*key)
                else:
                    self._load_failures.remove(*key, outcome)


class _Scrape(Collector):
    """Calls a function at each scrape; has no metrics.

    Args:
        begin: The function.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin

    def describe(self) -> Iterable[Metric]:
        """No names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """No metrics."""
        self._begin()
        return ()


class States(Collector):
    """Collects readiness and current requests of each version on scrape.

    Setting gauges on every change would take time proportional to the number of models.
    """

    def __init__(self) -> None:
        self._read: ReadStates = tuple

    def watch(self, read: "ReadStates") -> None:
        """Set the source: model, version, ready, and current requests or None."""
        self._read = read

    def describe(self) -> Iterable[Metric]:
        """The metric names, which let the registry detect duplicates."""
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """The current gauges."""
        ready, in_flight = families = self._families()
        for model, version, is_ready, requests in self._read():
            ready.add_metric((model, version), float(is_ready))
            if requests is not None:
                in_flight.add_metric((model, version), requests)
        return families

    def _families(self) -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        return (
            GaugeMetricFamily(
                "moorage_model_ready",
                "1 if the version can answer, otherwise 0.",
                labels=("model", "version"),
            ),
            GaugeMetricFamily(
                "moorage_inferences_in_flight",
                "Requests that currently run or wait for the version, without those that "
                "run in the event loop.",
                labels=("model", "version"),
            ),
        )


ReadStates = Callable[[], Iterable[tuple[str, str, bool, int | None]]]


def new_registry() -> CollectorRegistry:
    """A registry with the process's own metrics (memory, CPU, garbage collection)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
