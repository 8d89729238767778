"""The operator's Prometheus metrics: all names in one place, with `model_metrics`.

No metric of this module has a label for a model: ten thousand models with three replicas would
need too many series. Everything else about one model is in its status.
"""

from collections.abc import Callable, Iterable, Sequence

import prometheus_client as prometheus
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from moorage_operator.kube.client import Call
from moorage_operator.probe.schedule.poller import Polled
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.smoke import SmokeVerdict

from .model_metrics import ModelCollector

# A reconcile takes milliseconds, or up to the timeouts if the API server is slow.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

# From a starting model to one of tens of thousands of stable models.
_AGES = (0.25, 1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600)


class Metrics:
    """All metrics of a process, in a separate registry."""

    def __init__(self) -> None:
        self.registry = prometheus.CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        counter, histogram, gauge = self._makers()
        self._passes = counter(
            "moorage_reconciles", "Reconciles, by outcome (ok, retry, error).", "outcome"
        )
        self._pass_seconds = histogram(
            "moorage_reconcile_seconds", "Duration of a reconcile in seconds."
        )
        self.queue_depth = gauge("moorage_queue_depth", "Models that wait for a reconcile.")
        self.queue_oldest = gauge(
            "moorage_queue_oldest_seconds",
            "Seconds that the oldest model in the queue has waited.",
        )
        self._requests = counter(
            "moorage_api_requests",
            "Finished requests to the API server; code 0 means no answer.",
            "verb",
            "resource",
            "code",
        )
        self._request_seconds = histogram(
            "moorage_api_request_seconds",
            "Duration of a request to the API server in seconds, without watches.",
            "verb",
        )
        self._watch_restarts = counter(
            "moorage_watch_restarts",
            "Ends of a watch, by reason: ended (regular), expired (410), failed.",
            "resource",
            "reason",
        )
        self._child_writes = counter(
            "moorage_child_writes", "Child objects applied or deleted, by kind.", "kind"
        )
        self._status_writes = counter("moorage_status_writes", "Writes of model statuses.")
        self._polls = counter(
            "moorage_polls",
            "Polls of replicas, by the result of the query for model readiness.",
            "protocol",
            "transport",
            "result",
        )
        self._poll_seconds = histogram(
            "moorage_poll_seconds", "Duration of a poll of a replica in seconds.", "transport"
        )
        self._poll_late = histogram(
            "moorage_poll_late_seconds", "Delay of a poll after its due time in seconds."
        )
        self._poll_age = histogram(
            "moorage_poll_age_seconds",
            "Seconds between two polls of a replica, the age of an answer before the next one.",
            buckets=_AGES,
        )
        self.poll_targets = gauge("moorage_poll_targets", "Replicas that are polled.")
        self.poll_least_interval = gauge(
            "moorage_poll_least_interval_seconds",
            "Shortest poll interval of serving replicas within the poll budget, in seconds.",
        )
        self._smoke_runs = counter(
            "moorage_smoke_runs",
            "Runs of a container's smoke tests, by result (a reason of SmokeTestPassed).",
            "result",
        )
        self._smoke_seconds = histogram(
            "moorage_smoke_seconds",
            "Duration of a container's smoke tests in seconds, without the wait for a slot.",
            buckets=(*_SECONDS, 60, 120),
        )
        self.leading = gauge(
            "moorage_operator_leading",
            "1 if this process is the leader, otherwise 0.",
        )
        self.namespace_served = gauge(
            "moorage_namespace_served",
            "1 if this namespace of --namespaces is served, 0 if the API server denies access to "
            "it. Absent without --namespaces.",
            "watched_namespace",
        )
        self.optional_kinds = gauge(
            "moorage_optional_kinds",
            "1 if the cluster has this optional kind of child, otherwise 0.",
            "kind",
        )
        self._models = ModelCollector()
        self.registry.register(self._models)
        self._build = gauge(
            "moorage_operator_build_info", "1, with the operator's version.", "version"
        )

    def passed(self, outcome: str, seconds: float) -> None:
        """Count a finished reconcile."""
        self._passes.labels(outcome).inc()
        self._pass_seconds.observe(seconds)

    def called(self, call: Call) -> None:
        """Count a finished request to the API server."""
        self._requests.labels(call.verb, call.resource, str(call.code)).inc()
        if call.verb != "watch":
            self._request_seconds.labels(call.verb).observe(call.seconds)

    def watch_restarted(self, resource: str) -> Callable[[str], None]:
        """Return a function that counts the ends of one resource's watches."""
        return lambda reason: self._watch_restarts.labels(resource, reason).inc()

    def wrote(self, kind: str) -> None:
        """Count a write of a child or status."""
        if kind == "status":
            self._status_writes.inc()
        else:
            self._child_writes.labels(kind).inc()

    def polled(self, poll: Polled) -> None:
        """Count a finished poll."""
        self._polls.labels(poll.protocol, poll.transport, poll.outcome).inc()
        self._poll_seconds.labels(poll.transport).observe(poll.seconds)
        self._poll_late.observe(poll.late_seconds)
        if poll.since_last_seconds is not None:
            self._poll_age.observe(poll.since_last_seconds)

    def smoked(self, verdict: SmokeVerdict, seconds: float) -> None:
        """Count finished smoke tests of a container."""
        self._smoke_runs.labels(str(verdict)).inc()
        self._smoke_seconds.observe(seconds)

    def built(self, version: str) -> None:
        """Set the version of the operator."""
        self._build.labels(version).set(1)

    def read(
        self,
        models: Callable[[], Iterable[ModelRecord]],
        expiry: Callable[[ModelRecord], float | None] = lambda _: None,
    ) -> None:
        """Set the functions that each scrape calls.

        Args:
            models: Returns all models.
            expiry: Returns when the first certificate of a model's servers expires.
        """
        self._models.models, self._models.expiry = models, expiry

    def text(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
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
