"""The PodDisruptionBudget: a drain evicts a model's replicas one at a time.

It never blocks the drain of a single replica, because `maxUnavailable: 1` allows its eviction. A
replica that is not ready does not block a drain either. So the replicas of a revision that gets no
requests are left out: a budget expects the size of every Deployment that it selects pods of, and
would allow no eviction while those of one Deployment start or fail.

Source: Kubernetes, disruption controller, getExpectedScale.
"""

from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import DisruptionPolicy, InferenceModel

from .owned import make_owned

__all__ = ["make_disruption_budget"]


def make_disruption_budget(model: InferenceModel, revision: str) -> dict[str, Any] | None:
    """Build the budget of a model that may have more than one replica; otherwise None.

    Args:
        model: The model.
        revision: The revision whose pods it selects; if empty, all pods of the model.
    """
    most = max(model.replicas, model.scaling.max_replicas)
    if model.disruption_budget.policy is DisruptionPolicy.NONE or model.suspend or most < 2:
        return None
    selected = labels.selector(model.name)
    if revision:
        selected = labels.revision_selector(model.name, revision)
    spec: dict[str, Any] = {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selected},
    }
    name = names.disruption_budget(model.name)
    return make_owned(model, "policy/v1", "PodDisruptionBudget", name, spec)
