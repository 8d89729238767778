"""`spec.scaling`: the bounds and the metrics for autoscaling."""

from dataclasses import dataclass
from enum import StrEnum

from .fields import Fields

__all__ = ["MetricType", "Scaling", "ScalingMetric", "parse_scaling"]

REPLICAS_LIMIT = 10_000
METRIC_LIMIT = 8
TARGET_LIMIT = 2**31 - 1
# The target that a HorizontalPodAutoscaler has without metrics.
CPU_TARGET_PERCENT = 80
# The limit and the default of Kubernetes for a HorizontalPodAutoscaler.
SCALE_DOWN_LIMIT_SECONDS = 3600
SCALE_DOWN_SECONDS = 300
# Kubernetes rejects them in the name of a metric, which is a path segment.
UNNAMEABLE = frozenset("/%")


class MetricType(StrEnum):
    """What a metric measures."""

    CPU = "CPU"
    MEMORY = "Memory"
    PODS = "Pods"
    PROMETHEUS = "Prometheus"


@dataclass(frozen=True, slots=True)
class ScalingMetric:
    """An entry of `spec.scaling.metrics`; texts that its type does not have are empty.

    For CPU and Memory, `target` is a percentage of the container's request; for other types it is
    a value per replica.
    """

    type: MetricType = MetricType.CPU
    target: int = CPU_TARGET_PERCENT
    name: str = ""
    server_address: str = ""
    query: str = ""


DEFAULT_METRICS = (ScalingMetric(),)


@dataclass(frozen=True, slots=True)
class Scaling:
    """`spec.scaling`. A `max_replicas` of 0 means that it is absent and `spec.replicas` applies.

    The metric that needs the most replicas decides. Replicas are removed once fewer have been
    enough for `scale_down_after_seconds`.
    """

    min_replicas: int = 1
    max_replicas: int = 0
    scale_down_after_seconds: int = SCALE_DOWN_SECONDS
    metrics: tuple[ScalingMetric, ...] = DEFAULT_METRICS

    @property
    def is_on(self) -> bool:
        """Whether an autoscaler sets the number of replicas."""
        return self.max_replicas > 0

    def has(self, type_: MetricType) -> bool:
        """Whether any metric is of a type."""
        return any(metric.type is type_ for metric in self.metrics)

    def within(self, replicas: int) -> int:
        """Limit a number of replicas to the bounds; 0 stays 0."""
        if not self.is_on or replicas == 0:
            return replicas
        return max(self.min_replicas, min(replicas, self.max_replicas))


def parse_scaling(fields: Fields) -> Scaling:
    """Read the section and fill in its defaults; record invalid values as problems."""
    if not fields.is_given:
        return Scaling()
    before = len(fields.problems)
    if not fields.has("maxReplicas"):
        fields.require("maxReplicas", "a whole number of 1 or greater")
    scaling = Scaling(
        min_replicas=fields.integer("minReplicas", 1, 0, REPLICAS_LIMIT),
        max_replicas=fields.integer("maxReplicas", 1, 1, REPLICAS_LIMIT),
        scale_down_after_seconds=fields.integer(
            "scaleDownAfterSeconds", SCALE_DOWN_SECONDS, 0, SCALE_DOWN_LIMIT_SECONDS
        ),
        metrics=_parse_metrics(fields),
    )
    fields.unknown()
    if len(fields.problems) == before:
        _check_together(scaling, fields)
    return scaling


def _parse_metrics(fields: Fields) -> tuple[ScalingMetric, ...]:
    if fields.raw("metrics") is None:
        return DEFAULT_METRICS
    before = len(fields.problems)
    metrics = tuple(map(_parse_metric, fields.children("metrics", METRIC_LIMIT, "metrics")))
    if not metrics and len(fields.problems) == before:
        expected = "a list of at least one metric, such as [{type: CPU, target: 80}]"
        fields.reject("metrics", [], expected)
    return metrics


def _parse_metric(fields: Fields) -> ScalingMetric:
    before = len(fields.problems)
    if fields.raw("type") is None:
        fields.require("type", f"one of {', '.join(MetricType)}")
    if fields.raw("target") is None:
        fields.require("target", "a whole number of 1 or greater")
    metric = ScalingMetric(
        type=fields.choice("type", MetricType.CPU),
        target=fields.integer("target", 1, 1, TARGET_LIMIT),
        name=fields.text("name"),
        server_address=fields.text("serverAddress"),
        query=fields.text("query"),
    )
    fields.unknown()
    if len(fields.problems) == before:
        _check_metric(metric, fields)
    return metric


def _check_metric(metric: ScalingMetric, fields: Fields) -> None:
    """Check the CRD's rules for one metric, for resources stored before the rules existed."""
    belongs = (
        ("name", metric.name, MetricType.PODS),
        ("serverAddress", metric.server_address, MetricType.PROMETHEUS),
        ("query", metric.query, MetricType.PROMETHEUS),
    )
    for name, text, type_ in belongs:
        if bool(text) != (metric.type is type_):
            sentence = f"must be set with type {type_} and must be absent with any other type"
            fields.report(name, sentence)
    if set(metric.name) & UNNAMEABLE or metric.name in {".", ".."}:
        expected = (
            "the name in the custom metrics adapter: it must not contain / or % and must not be "
            ". or .."
        )
        fields.reject("name", metric.name, expected)


def _check_together(scaling: Scaling, fields: Fields) -> None:
    """Check the CRD's rules, for resources that were stored before the rules existed."""
    if scaling.min_replicas > scaling.max_replicas:
        expected = "greater than or equal to minReplicas"
        fields.reject("maxReplicas", scaling.max_replicas, expected)
    if scaling.min_replicas == 0 and not scaling.has(MetricType.PROMETHEUS):
        sentence = (
            "0 requires a metric of type Prometheus, the only one that can scale a model up from "
            "zero; set minReplicas to 1 or more, or add such a metric"
        )
        fields.report("minReplicas", sentence)
    if scaling.has(MetricType.PROMETHEUS) and scaling.has(MetricType.PODS):
        sentence = (
            "types Pods and Prometheus cannot be combined, because KEDA has no trigger for Pods; "
            "set type Prometheus with a query for the same metric, or remove one of them"
        )
        fields.report("metrics", sentence)
