"""Topology spread: replicas are spread over hosts and zones if possible."""

from typing import Any

from moorage_operator.api import labels
from moorage_operator.api.v1alpha1 import InferenceModel

__all__ = ["make_topology_spread"]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def make_topology_spread(model: InferenceModel) -> list[dict[str, Any]]:
    """Build `topologySpreadConstraints`, which never prevent scheduling.

    They are the same for any number of replicas, so that scaling creates no new revision. Each
    revision is spread separately; otherwise the pods of two revisions would count as one group
    during a rollout.
    """
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels.selector(model.name)},
            "matchLabelKeys": [labels.REVISION],
        }
        for key in (ZONE, HOST)
    ]
