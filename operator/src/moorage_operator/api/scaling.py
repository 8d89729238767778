"""`spec.scaling`: between which numbers of replicas, and by what, a model is scaled by itself."""

from dataclasses import dataclass
from enum import StrEnum

from .fields import Fields

__all__ = ["PrometheusQuery", "Scaling", "ScalingMetric", "parse_scaling"]

REPLICAS_LIMIT = 10_000
TARGET_LIMIT = 2**31 - 1
# What Kubernetes allows a HorizontalPodAutoscaler, and what it waits by itself.
SCALE_DOWN_LIMIT_SECONDS = 3600
SCALE_DOWN_SECONDS = 300
# Kubernetes refuses them in the name of a metric, because it is a part of a path.
UNNAMEABLE = frozenset("/%")


class ScalingMetric(StrEnum):
    """What is compared with the target."""

    CPU = "CPU"
    MEMORY = "Memory"
    PODS = "Pods"
    PROMETHEUS = "Prometheus"


@dataclass(frozen=True, slots=True)
class PrometheusQuery:
    """`spec.scaling.prometheus`: who is asked, and what for; empty where there is none."""

    server_address: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Scaling:
    """`spec.scaling`; a `max_replicas` of 0: absent, `spec.replicas` rules.

    `target` is in percent of what the container requests for CPU and Memory, and for the others a
    number for each replica. `scale_down_after_seconds` is how long fewer replicas must have been
    enough before any is removed.
    """

    min_replicas: int = 1
    max_replicas: int = 0
    metric: ScalingMetric = ScalingMetric.CPU
    target: int = 0
    scale_down_after_seconds: int = SCALE_DOWN_SECONDS
    metric_name: str = ""
    prometheus: PrometheusQuery = PrometheusQuery()

    @property
    def is_on(self) -> bool:
        """Whether somebody beside the user sets the number of replicas."""
        return self.max_replicas > 0

    def within(self, replicas: int) -> int:
        """The number that should run of one that was asked for; 0 stays what it is."""
        if not self.is_on or replicas == 0:
            return replicas
        return max(self.min_replicas, min(replicas, self.max_replicas))


def parse_scaling(fields: Fields) -> Scaling:
    """The scaling with its defaults; what is wrong becomes problems."""
    if not fields.is_given:
        return Scaling()
    before = len(fields.problems)
    for name in ("maxReplicas", "target"):
        if fields.raw(name) is None:
            fields.reject(name, None, "a whole number; it is required")
    scaling = Scaling(
        min_replicas=fields.integer("minReplicas", 1, 0, REPLICAS_LIMIT),
        max_replicas=fields.integer("maxReplicas", 1, 1, REPLICAS_LIMIT),
        metric=fields.choice("metric", ScalingMetric.CPU),
        target=fields.integer("target", 1, 1, TARGET_LIMIT),
        scale_down_after_seconds=fields.integer(
            "scaleDownAfterSeconds", SCALE_DOWN_SECONDS, 0, SCALE_DOWN_LIMIT_SECONDS
        ),
        metric_name=fields.text("metricName"),
        prometheus=_parse_prometheus(fields.child("prometheus")),
    )
    fields.unknown()
    if len(fields.problems) == before:
        _check_together(scaling, fields)
    return scaling


def _parse_prometheus(fields: Fields) -> PrometheusQuery:
    query = PrometheusQuery(fields.text("serverAddress"), fields.text("query"))
    fields.unknown()
    if fields.is_given:
        for name, text in (("serverAddress", query.server_address), ("query", query.query)):
            if not text:
                fields.reject(name, text, "a text; it is required")
    return query


def _check_together(scaling: Scaling, fields: Fields) -> None:
    """What the CRD's rules say, for resources that were stored before they did."""
    if scaling.min_replicas > scaling.max_replicas:
        fields.reject("maxReplicas", scaling.max_replicas, "at least minReplicas")
    metric = scaling.metric
    if scaling.min_replicas == 0 and metric is not ScalingMetric.PROMETHEUS:
        expected = "at least 1; only metric Prometheus can wake a model that has no replica"
        fields.reject("minReplicas", 0, expected)
    if bool(scaling.metric_name) != (metric is ScalingMetric.PODS):
        expected = "a metric's name with metric Pods, and none with another"
        fields.reject("metricName", scaling.metric_name, expected)
    if set(scaling.metric_name) & UNNAMEABLE or scaling.metric_name in {".", ".."}:
        expected = "a metric's name as the adapter has it, without / and %"
        fields.reject("metricName", scaling.metric_name, expected)
    if bool(scaling.prometheus.query) != (metric is ScalingMetric.PROMETHEUS):
        expected = "serverAddress and query with metric Prometheus, and neither with another"
        fields.reject("prometheus", scaling.prometheus.query, expected)
