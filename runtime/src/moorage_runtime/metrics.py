"""The runtime's Prometheus metrics: their names, and the calls that move them.

Only models that the server knows become labels, so that a client cannot add series by asking for
names that do not exist.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from moorage_runtime.tally import OK, Tally

# 100 us to 10 s: from a small model in the event loop to a large one in a queue.
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
        registry: Where they are collected.

    Attributes:
        record: Counts an inference that has ended; see ``Tally.record``.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tally = Tally(_LATENCY_BUCKETS)
        registry.register(self._tally)
        self.record = self._tally.record
        self._batch_requests = Histogram(
            "moorage_batch_requests",
            "Requests that ran together, for each run in a worker thread.",
            ("model", "version"),
            buckets=_BATCH_BUCKETS,
            registry=registry,
        )
        self._queue_seconds = Histogram(
            "moorage_queue_seconds",
            "Time that a request waited for a worker thread.",
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
            "Loads that failed, by reason.",
            ("model", "version", "reason"),
            registry=registry,
        )
        self._ready = Gauge(
            "moorage_model_ready",
            "1 when the version can answer, 0 when not.",
            ("model", "version"),
            registry=registry,
        )
        self._in_flight = Gauge(
            "moorage_inferences_in_flight",
            "Requests that run or wait for the version now, those of quick models left out.",
            ("model", "version"),
            registry=registry,
        )
        # labels() takes a lock and hashes its arguments, so its children are kept
        self._runs: dict[tuple[str, str], tuple[Histogram, Histogram]] = {}

    def ran(self, model: str, version: str, requests: int, waited: Sequence[float]) -> None:
        """One run in a worker thread begins, of so many requests that waited so many seconds."""
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
        """One load has ended."""
        if outcome == OK:
            self._load_seconds.labels(model, version).observe(seconds)
        else:
            self._load_failures.labels(model, version, outcome).inc()

    def set_ready(self, states: dict[tuple[str, str], bool]) -> None:
        """Replace the gauge of ready versions."""
        self._ready.clear()
        for (model, version), is_ready in states.items():
            self._ready.labels(model, version).set(is_ready)

    def set_in_flight(self, counts: Mapping[tuple[str, str], Callable[[], int]]) -> None:
        """Replace what the gauge of requests in flight reads when it is asked.

        Nothing is counted for it: the runners know, because they bound how many may wait. A run
        in the event loop is over before anybody could ask.
        """
        self._in_flight.clear()
        for (model, version), count in counts.items():
            self._in_flight.labels(model, version).set_function(count)


def new_registry() -> CollectorRegistry:
    """A registry with the process's own metrics (memory, CPU, garbage collection)."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry
