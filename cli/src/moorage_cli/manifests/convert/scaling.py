"""Replicas and autoscaling of other projects as `replicas` and `scaling`; pure.

kserve, seldon --> **scaling** --> draft

Sources: KServe, "Autoscaling with HPA", "KEDA", "Knative"; Seldon Core 2, "Autoscaling".
"""

from collections.abc import Mapping
from typing import Any

from .draft import Draft, mapping_of
from .fields import Path

__all__ = ["NO_AUTOSCALER", "carry_replicas", "has_autoscaler", "metric_of", "request_cpu"]

IN_FLIGHT = "moorage_inferences_in_flight"
_RESOURCES = {"cpu": "CPU", "memory": "Memory"}
_KEDA = "a model can stop when idle only with KEDA and a metric of type Prometheus"
NO_AUTOSCALER = "an autoscaler requires maxReplicas above minReplicas"


def has_autoscaler(draft: Draft, at: Path) -> bool:
    """Whether the bounds of an object with minReplicas and maxReplicas differ."""
    least, most = (draft.number(*at, name) for name in ("minReplicas", "maxReplicas"))
    return most is not None and most > 0 and most != (1 if least is None else least)


def carry_replicas(
    draft: Draft, at: Path, metrics: list[Mapping[str, Any]], origin: Path = ()
) -> None:
    """Set the number of replicas, or their bounds and metrics.

    Args:
        draft: The resource.
        at: Path of the object with minReplicas and maxReplicas.
        metrics: The metrics of the result; empty for the default, CPU.
        origin: The field of the source that the metrics come from.
    """
    least = draft.number(*at, "minReplicas")
    low, high = (*at, "minReplicas"), (*at, "maxReplicas")
    if not has_autoscaler(draft, at):
        if draft.get(*high) == 0:
            draft.lose(high, "an autoscaler needs a maximum")
        if least == 0:
            draft.lose(low, f"{_KEDA}; spec.replicas is 1")
        else:
            draft.move(low, "spec.replicas")
            draft.move(high, "spec.replicas")
        return
    if least == 0 and not any(metric["type"] == "Prometheus" for metric in metrics):
        draft.lose(low, f"{_KEDA}; spec.scaling.minReplicas is 1")
        draft.put("spec.scaling.minReplicas", 1)
    draft.move(low, "spec.scaling.minReplicas")
    draft.move(high, "spec.scaling.maxReplicas")
    if metrics:
        draft.put("spec.scaling.metrics", metrics, origin)
    else:
        draft.tell("spec.scaling has the default metric: CPU at 80 % of its request")


def request_cpu(draft: Draft, request: str) -> None:
    """Set a CPU request if a metric needs one and neither the source nor a runtime has it."""
    spec = mapping_of(draft.result.get("spec"))
    scaling, runtime = mapping_of(spec.get("scaling")), mapping_of(spec.get("runtime"))
    model = mapping_of(spec.get("model"))
    if not scaling or runtime.get("name") or model.get("format"):
        return
    for metric in scaling.get("metrics", [{"type": "CPU"}]):
        resource = str(metric["type"]).lower()
        resources = mapping_of(runtime.get("resources"))
        given = [mapping_of(resources.get(part)).get(resource) for part in ("requests", "limits")]
        if resource in {"cpu", "memory"} and not any(given):
            value = request if resource == "cpu" else "2Gi"
            draft.put(f"spec.runtime.resources.requests.{resource}", value)
            draft.tell(
                f"spec.runtime.resources.requests.{resource} is set to {value}, because the "
                f"metric {metric['type']} needs a request: adapt it"
            )


def metric_of(name: str, target: int | None) -> Mapping[str, Any] | None:
    """The metric of a KServe `scaleMetric`; None if it has no equivalent."""
    if name in _RESOURCES:
        return {"type": _RESOURCES[name], "target": target or 80}
    if name == "concurrency":
        return {"type": "Pods", "name": IN_FLIGHT, "target": target or 100}
    return None
