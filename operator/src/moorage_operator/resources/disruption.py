"""The PodDisruptionBudget: a drain takes a model's replicas one at a time.

It never blocks the drain of a single replica: `maxUnavailable: 1` holds where one of one is
evicted, too. A replica that is not ready is no obstacle to a drain either.
"""

from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import DisruptionBudget, InferenceModel
from moorage_operator.memo import by_identity

from .owned import make_owned

__all__ = ["make_disruption_budget"]


@by_identity
def make_disruption_budget(model: InferenceModel) -> dict[str, Any] | None:
    """The budget of a model that has, or may be scaled to, more than one replica; else None."""
    most = max(model.replicas, model.scaling.max_replicas)
    if model.disruption_budget is DisruptionBudget.NONE or model.suspend or most < 2:
        return None
    spec: dict[str, Any] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels.selector(model.name)},
    }
    name = names.disruption_budget(model.name)
    return make_owned(model, "policy/v1", "PodDisruptionBudget", name, spec)
