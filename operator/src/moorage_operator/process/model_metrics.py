"""The metrics of models and InferenceRuntimes, read from the models' statuses on each scrape.

    store.models --> ModelRecord --> ModelCollector --> series

`moorage_model_ready` has a series for each model. Every other metric with a label for a model has
series only for the few models that need attention, and for those with TLS. The label `runtime` has
as many values as there are runtimes with models.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from moorage_operator.values.model_record import ModelRecord

__all__ = ["ModelCollector"]

READY_VALUES = ("True", "False", "Unknown", "Suspended", "ScaledToZero")
"""Values of the label `ready`: the status of the condition, except for suspended models and those
that are scaled to zero, which do not count as failing. A model without a status counts as
Unknown."""

_NAME = ("model_namespace", "model_name")

_NOTABLE: Mapping[str, tuple[str, Callable[[ModelRecord], bool]]] = {
    "moorage_model_stalled": (
        "1 for each InferenceModel that wants replicas and has the condition Stalled.",
        lambda record: record.is_stalled,
    ),
    "moorage_model_paused": (
        "1 for each InferenceModel with spec.paused; other models have no series.",
        lambda record: record.model.paused,
    ),
    "moorage_model_route_pending": (
        "1 for each InferenceModel that wants replicas and whose RouteAccepted is not True.",
        lambda record: record.awaits_route,
    ),
}


class ModelCollector(Collector):
    """The metrics of models and runtimes.

    Attributes:
        models: Returns all models.
        expiry: Returns when the first certificate of a model's servers expires, as Unix time;
            None if none was seen.
    """

    def __init__(self) -> None:
        self.models: Callable[[], Iterable[ModelRecord]] = lambda: ()
        self.expiry: Callable[[ModelRecord], float | None] = lambda _: None

    def collect(self) -> Iterable[Metric]:
        """Return the series of the current models."""
        each_ready = GaugeMetricFamily(
            "moorage_model_ready",
            "1 for each InferenceModel, with the status of its condition Ready: True, False or "
            "Unknown; Suspended or ScaledToZero if no replica is wanted.",
            labels=[*_NAME, "ready"],
        )
        expiry = GaugeMetricFamily(
            "moorage_model_certificate_expiry_timestamp_seconds",
            "Unix time at which the first certificate of an InferenceModel's servers expires; "
            "only models with spec.tls whose certificate the leader has verified have a series.",
            labels=_NAME,
        )
        notable = {
            name: GaugeMetricFamily(name, text, labels=_NAME)
            for name, (text, _) in _NOTABLE.items()
        }
        ready_counts, used, outdated = Counter[str](), Counter[str](), Counter[str]()
        for record in self.models():
            name = record.key.namespace, record.key.name
            ready = record.ready if record.ready in READY_VALUES else "Unknown"
            ready_counts[ready] += 1
            each_ready.add_metric((*name, ready), 1)
            if runtime := record.runtime:
                used[runtime] += 1
                outdated[runtime] += record.is_outdated
            if (at := self.expiry(record)) is not None:
                expiry.add_metric(name, at)
            for metric, (_, applies) in _NOTABLE.items():
                if applies(record):
                    notable[metric].add_metric(name, 1)
        counts = _counted(
            "moorage_models",
            "InferenceModels, by the status of Ready; Suspended or ScaledToZero if no replica is "
            "wanted.",
            "ready",
            {value: ready_counts[value] for value in READY_VALUES},
        )
        users = _counted(
            "moorage_runtime_models",
            "InferenceModels that use an InferenceRuntime.",
            "runtime",
            used,
        )
        lagging = _counted(
            "moorage_runtime_outdated_models",
            "InferenceModels of an InferenceRuntime with the condition RuntimeUpdatePending.",
            "runtime",
            outdated,
        )
        return [counts, each_ready, *notable.values(), users, lagging, expiry]


def _counted(name: str, text: str, label: str, counts: Mapping[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=[label])
    for value, count in sorted(counts.items()):
        family.add_metric((value,), count)
    return family
