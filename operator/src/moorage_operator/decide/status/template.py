"""Finds out whether the replicas have the planned pod template, and not only its label; pure.

    planned Deployment, observed Deployment, replicas --> template_state --> UpToDate, lastGood

Somebody may edit the template of a Deployment by hand. Its pods then have the label of the
revision, but do not serve the spec. The operator undoes such an edit at once, unless the model is
paused or the API server refuses the write; the pods are replaced a while later.
"""

import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.objects import DeploymentObserved, PodObserved
from moorage_operator.values.observed import Observed

__all__ = ["TemplateState", "template_state"]

TEMPLATE = "spec.template."


class TemplateState(enum.Enum):
    """Which template the replicas have."""

    PLANNED = enum.auto()
    UNKNOWN = enum.auto()
    OTHER = enum.auto()
    """Somebody has edited it, or the controller still replaces pods after an edit."""


def template_state(
    objects: Sequence[dict[str, Any]], observed: Observed, replicas: Sequence[Replica]
) -> TemplateState:
    """Return which template the replicas of the current revision have.

    Args:
        objects: All planned children.
        observed: The Deployment, and refused writes.
        replicas: The replicas, judged for the course.
    """
    deployment = observed.deployment
    planned = [each for each in objects if each["kind"] == "Deployment"]
    if deployment is None:
        return TemplateState.UNKNOWN
    if deployment.is_reported and deployment.is_mixed:
        return TemplateState.OTHER
    paths = [path for path, _ in deployment.foreign if path.startswith(TEMPLATE)]
    if any(_has(each, f".{path}") for each in planned for path in paths):
        return TemplateState.OTHER
    hashes = {applied_hash(each) for each in planned}
    if any(each.applied_hash in hashes for each in observed.refusals):
        return TemplateState.UNKNOWN
    current = {each.pod.revision for each in replicas if each.current}
    # Those that are being deleted may be the only evidence of another template. On a lost node,
    # they stay until it returns and are no evidence of anything new.
    sets = {
        each.replica_set
        for each in observed.pods
        if each.revision in current
        and not _is_past(each, planned)
        and not (each.deleting and each.is_lost)
    }
    is_known = _is_known(deployment, sets)
    return TemplateState.PLANNED if is_known else TemplateState.UNKNOWN


def _is_known(deployment: DeploymentObserved, sets: Collection[str]) -> bool:
    """Whether the pods of these ReplicaSets are known to have the template of their Deployment.

    Pods of a Deployment that was never changed prove this long before the controller of a busy
    cluster reports it, which saves a write of the status.
    """
    if deployment.generation > 1:
        return deployment.is_reported and deployment.is_uniform
    return len(sets) == 1 or (not sets and deployment.is_reported)


def _is_past(pod: PodObserved, planned: Sequence[dict[str, Any]]) -> bool:
    """Whether a pod has ended, and had been made by another Deployment than the current one.

    An evicted pod stays when its revision moves to a Deployment of its own.
    """
    own = [f"{each['metadata']['name']}-{pod.template_hash}" for each in planned[:1]]
    return pod.is_over and pod.replica_set not in own


def _has(value: object, path: str) -> bool:
    """Whether a value has the rest of a path, such as `.containers[runtime].image`."""
    if not path:
        return True
    if isinstance(value, Mapping):
        return any(
            _has(below, path[len(key) + 1 :])
            for key, below in cast("Mapping[str, object]", value).items()
            # a key may have dots itself
            if path.startswith(f".{key}") and path[len(key) + 1 :][:1] in {"", ".", "["}
        )
    if not isinstance(value, list):
        return False
    key, _, rest = path[1:].partition("]")
    return any(
        isinstance(item, Mapping)
        and key in map(str, cast("Mapping[str, object]", item).values())
        and _has(cast("object", item), rest)
        for item in cast("list[object]", value)
    )
