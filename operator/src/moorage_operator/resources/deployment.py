"""The Deployment that runs a model's pods."""

from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel, Strategy

from .owned import make_owned
from .pod_template import revision_of

__all__ = ["make_deployment"]

# A rollback needs the ReplicaSet of the last revision that served, which is at worst the newest
# one without pods. A few more are kept for diagnosis.
REVISION_HISTORY_LIMIT = 3


def make_deployment(
    model: InferenceModel,
    template: dict[str, Any],
    *,
    name: str = "",
    kept_spec: str = "",
    paused: bool = False,
    is_mixed: bool = False,
) -> dict[str, Any]:
    """Build a Deployment that by default removes no pod before its successor serves.

    maxSurge 25% rounds up, so a model with one replica is updated too.

    Args:
        model: The spec of the template, with its current size.
        template: The pod template.
        name: The name for a Deployment of a single revision, which selects only that one.
        kept_spec: The spec to store in its ReplicaSet.
        paused: Whether its rollout is paused.
        is_mixed: Whether pods of several of its ReplicaSets run.
    """
    plain = names.deployment(model.name)
    of_one = labels.revision_selector(model.name, revision_of(template))
    spec: dict[str, Any] = {
        "replicas": model.desired_replicas,
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        "progressDeadlineSeconds": model.progress_deadline_seconds,
        "selector": {
            # Immutable, so it has no revision if one Deployment runs all revisions in turn.
            "matchLabels": of_one if name not in {"", plain} else labels.selector(model.name)
        },
        "strategy": _make_strategy(model, is_mixed=is_mixed),
        "template": template,
    }
    if paused:
        spec["paused"] = True
    return make_owned(
        model,
        "apps/v1",
        "Deployment",
        name or plain,
        spec,
        annotations={names.SPEC: kept_spec} if kept_spec else {},
    )


def _make_strategy(model: InferenceModel, *, is_mixed: bool) -> dict[str, Any]:
    rollout = model.rollout
    share: dict[str, Any] = {
        "maxSurge": rollout.max_surge,
        "maxUnavailable": rollout.max_unavailable,
    }
    if rollout.strategy is Strategy.RECREATE:
        if not is_mixed:
            return {"type": "Recreate"}
        # If the size changes while several ReplicaSets have pods, the Deployment controller first
        # scales them all, which it does only for rolling updates. With Recreate, it waits forever.
        share = {"maxSurge": 0, "maxUnavailable": "100%"}
    return {"type": "RollingUpdate", "rollingUpdate": share}
