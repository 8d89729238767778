"""The status of a model that is being deleted but still exists, because of finalizers; pure.

The garbage collector deletes the children and the operator no longer observes them, so the status
says nothing about them that could become untrue.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason, written

__all__ = ["status_of_deleted"]

# The scale subresource reads the first two.
KEPT = ("replicas", "selector", "revisions")
SENTENCE = (
    "the model is being deleted; its replicas may answer until the garbage collector has deleted "
    "them; if the deletion does not end, look for finalizers in the metadata of the model"
)


def status_of_deleted(
    previous: Mapping[str, Any], *, generation: int, now: datetime
) -> dict[str, Any]:
    """Return the status; {} for a model that never had one.

    Args:
        previous: The status.
        generation: Of the model.
        now: The current time, aware.
    """
    if not previous:
        return {}
    ready = Condition(
        ConditionType.READY, status=False, finding=Finding(Reason.DELETING, SENTENCE)
    )
    kept = {name: previous[name] for name in KEPT if name in previous}
    conditions = written([ready], previous, generation=generation, now=now)
    return {"observedGeneration": generation, **kept, "conditions": conditions}
