"""The PodDisruptionBudget: a drain evicts a model's replicas one at a time.

It never blocks the drain of a single replica, because `maxUnavailable: 1` allows its eviction. A
replica that is not ready does not block a drain either.
"""

from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import DisruptionPolicy, InferenceModel

from .owned import make_owned

__all__ = ["make_disruption_budget"]


def make_disruption_budget(model: InferenceModel) -> dict[str, Any] | None:
    """Build the budget of a model that may have more than one replica; otherwise None."""
    most = max(model.replicas, model.scaling.max_replicas)
    if model.disruption_budget.policy is DisruptionPolicy.NONE or model.suspend or most < 2:
        return None
    spec: dict[str, Any] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": labels.selector(model.name)},
    }
    name = names.disruption_budget(model.name)
    return make_owned(model, "policy/v1", "PodDisruptionBudget", name, spec)
