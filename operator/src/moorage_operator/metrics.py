"""The operator's Prometheus metrics: every name in one place.

No metric has a label for a model: ten thousand models with three replicas would make more series
than a Prometheus likes. What concerns one model stands in its status.
"""

from collections import Counter
from collections.abc import Callable, Sequence

import prometheus_client as prometheus
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from .kube.client import Call
from .probe.poller import Polled
from .smoke import SmokeVerdict

# A pass takes milliseconds while the API server is well, and up to its timeouts when not.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

# From a model that starts to one of tens of thousands that nothing happens to.
_AGES = (0.25, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics:
    """All metrics of a process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        counter, histogram, gauge = self._makers()
        self._passes = counter(
            "moorage_reconciles", "Passes over a model, by outcome (ok, retry, error).", "outcome"
        )
        self._pass_seconds = histogram(
            "moorage_reconcile_seconds", "Seconds that a pass over a model takes."
        )
        self.queue_depth = gauge("moorage_queue_depth", "Models that wait for a pass.")
        self.queue_oldest = gauge(
            "moorage_queue_oldest_seconds", "Seconds that the first of them has waited."
        )
        self._requests = counter(
            "moorage_api_requests",
            "Finished requests to the API server; code 0: no answer.",
            "verb",
            "resource",
            "code",
        )
        self._request_seconds = histogram(
            "moorage_api_request_seconds",
            "Seconds that a request to the API server takes, watches left out.",
            "verb",
        )
        self._watch_restarts = counter(
            "moorage_watch_restarts",
            "Ends of a watch: ended by the server in order, expired (410), failed.",
            "resource",
            "reason",
        )
        self._child_writes = counter(
            "moorage_child_writes", "Children applied or deleted, by kind.", "kind"
        )
        self._status_writes = counter("moorage_status_writes", "Statuses written.")
        self._polls = counter(
            "moorage_polls",
            "Polls of replicas by the reason of the model-ready answer.",
            "protocol",
            "transport",
            "result",
        )
        self._poll_seconds = histogram(
            "moorage_poll_seconds", "Seconds that a poll of a replica takes.", "transport"
        )
        self._poll_late = histogram(
            "moorage_poll_late_seconds", "Seconds between a poll's due time and its start."
        )
        self._poll_age = histogram(
            "moorage_poll_age_seconds",
            "Seconds between two polls of a replica: how old an answer grows before the next.",
            buckets=_AGES,
        )
        self.poll_targets = gauge("moorage_poll_targets", "Replicas that are polled.")
        self.poll_least_interval = gauge(
            "moorage_poll_least_interval_seconds",
            "Interval below which the budget of polls asks no replica that serves.",
        )
        self._smoke_runs = counter(
            "moorage_smoke_runs",
            "Runs of a container's smoke tests by the reason of the condition.",
            "result",
        )
        self._smoke_seconds = histogram(
            "moorage_smoke_seconds",
            "Seconds that a container's smoke tests take, the wait for their turn left out.",
            buckets=(*_SECONDS, 60, 120),
        )
        self.leading = gauge(
            "moorage_operator_leading",
            "1 in the process that works on models, 0 in those that wait.",
        )
        self.optional_kinds = gauge(
            "moorage_optional_kinds",
            "1 while the cluster has this optional kind of child, 0 while not.",
            "kind",
        )
        self._models = gauge("moorage_models", "InferenceModels by the status of Ready.", "ready")
        self._build = gauge("moorage_operator_build_info", "1, with the version.", "version")

    def passed(self, outcome: str, seconds: float) -> None:
        """A pass is over."""
        self._passes.labels(outcome).inc()
        self._pass_seconds.observe(seconds)

    def called(self, call: Call) -> None:
        """A request to the API server is over."""
        self._requests.labels(call.verb, call.resource, str(call.code)).inc()
        if call.verb != "watch":
            self._request_seconds.labels(call.verb).observe(call.seconds)

    def watch_restarted(self, resource: str) -> Callable[[str], None]:
        """A function that counts the ends of one resource's watches."""
        return lambda reason: self._watch_restarts.labels(resource, reason).inc()

    def wrote(self, kind: str) -> None:
        """Something was written."""
        if kind == "status":
            self._status_writes.inc()
        else:
            self._child_writes.labels(kind).inc()

    def polled(self, poll: Polled) -> None:
        """A poll is over."""
        self._polls.labels(poll.protocol, poll.transport, poll.outcome).inc()
        self._poll_seconds.labels(poll.transport).observe(poll.seconds)
        self._poll_late.observe(poll.late_seconds)
        if poll.since_last_seconds is not None:
            self._poll_age.observe(poll.since_last_seconds)

    def smoked(self, verdict: SmokeVerdict, seconds: float) -> None:
        """The smoke tests of a container have ended."""
        self._smoke_runs.labels(str(verdict)).inc()
        self._smoke_seconds.observe(seconds)

    def built(self, version: str) -> None:
        """Which version runs."""
        self._build.labels(version).set(1)

    def tell_readiness(self, models: Counter[str]) -> None:
        """How many models have which status of Ready."""
        told = {status: models[status] for status in ("True", "False")}
        for status, count in {**told, "Unknown": models.total() - sum(told.values())}.items():
            self._models.labels(status).set(count)

    def text(self) -> bytes:
        """The exposition format."""
        return prometheus.generate_latest(self.registry)

    def _makers(
        self,
    ) -> tuple[
        Callable[..., prometheus.Counter],
        Callable[..., prometheus.Histogram],
        Callable[..., prometheus.Gauge],
    ]:
        def counter(name: str, text: str, *labels: str) -> prometheus.Counter:
            return prometheus.Counter(name, text, labels, registry=self.registry)

        def histogram(
            name: str, text: str, *labels: str, buckets: Sequence[float] = _SECONDS
        ) -> prometheus.Histogram:
            return prometheus.Histogram(
                name, text, labels, registry=self.registry, buckets=buckets
            )

        def gauge(name: str, text: str, *labels: str) -> prometheus.Gauge:
            return prometheus.Gauge(name, text, labels, registry=self.registry)

        return counter, histogram, gauge
