"""Where replicas go: apart from each other, over hosts and zones, as far as that can be had."""

from typing import Any

from moorage_operator import labels
from moorage_operator.api.v1alpha1 import InferenceModel

__all__ = ["make_topology_spread"]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def make_topology_spread(model: InferenceModel) -> list[dict[str, Any]]:
    """`topologySpreadConstraints` of a pod; wishes that keep none from being scheduled.

    The same for any number of replicas, so that scaling is no new revision. Each revision is
    spread by itself: while one takes another's place, the pods of both would count as one group.
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
