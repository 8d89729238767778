"""The Deployment that runs a model's pods."""

from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel, Strategy
from moorage_operator.memo import by_identity

from .owned import make_owned
from .pod_template import revision_of

__all__ = ["make_deployment"]

# A rollback needs the ReplicaSet of the last revision that served. It is the newest of those
# without pods at worst; a few more are a trace.
REVISION_HISTORY_LIMIT = 3


@by_identity
def make_deployment(
    model: InferenceModel,
    template: dict[str, Any],
    *,
    name: str = "",
    kept_spec: str = "",
    paused: bool = False,
) -> dict[str, Any]:
    """A Deployment that by default takes no pod away before its successor serves.

    maxSurge 25% rounds up, so a model of one replica rolls too.

    Args:
        model: What the template was rendered from, with its present size.
        template: The pod template.
        name: Where revisions have a Deployment each, that of this one; it then selects no other.
        kept_spec: What its ReplicaSet is to remember of the spec.
        paused: Whether its rollout is to stand still.
    """
    plain = names.deployment(model.name)
    of_one = labels.revision_selector(model.name, revision_of(template))
    spec: dict[str, Any] = {
        "replicas": model.desired_replicas,
        "revisionHistoryLimit": REVISION_HISTORY_LIMIT,
        "progressDeadlineSeconds": model.progress_deadline_seconds,
        "selector": {
            # Immutable, so it cannot have the revision where one Deployment rolls through all.
            "matchLabels": of_one if name not in {"", plain} else labels.selector(model.name)
        },
        "strategy": _make_strategy(model),
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


def _make_strategy(model: InferenceModel) -> dict[str, Any]:
    rollout = model.rollout
    if rollout.strategy is Strategy.RECREATE:
        return {"type": "Recreate"}
    share = {"maxSurge": rollout.max_surge, "maxUnavailable": rollout.max_unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": share}
