"""The Deployment that runs a model's pods."""

from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel

from .owned import make_owned

__all__ = ["make_deployment"]

# What a pod may take beside loading its model, to be scheduled and to pull its image: a guess.
PULL_ALLOWANCE_SECONDS = 300
# Old ReplicaSets are no way back (the operator applies the spec again), only a trace.
REVISION_HISTORY_LIMIT = 2


def make_deployment(model: InferenceModel, template: dict[str, Any]) -> dict[str, Any]:
    """A Deployment that never takes a serving pod away before its successor serves.

    maxSurge 25% rounds up, so a model of one replica rolls too.
    """
    spec: dict[str, Any] = {
        "replicas": model.desired_replicas,
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        "progressDeadlineSeconds": model.health.startup_timeout_seconds + PULL_ALLOWANCE_SECONDS,
        "selector": {"matchLabels": labels.selector(model.name)},
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0},
        },
        "template": template,
    }
    return make_owned(model, "apps/v1", "Deployment", names.deployment(model.name), spec)
