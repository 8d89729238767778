"""The condition Paused, and what stays as it was while a model is paused; pure.

    Judgement, planned objects --> hold --> Judgement with the condition Paused

It is present only while `spec.paused` is true. The plan then has no objects, and the recorded
revisions stay as they were, so that a rollout neither advances nor is rolled back.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.resources.owned import applied_hash
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Revisions

from .conditions import ORDER, Judgement

__all__ = ["hold", "pending_changes"]


def hold(
    judgement: Judgement, revisions: Revisions, pending: Sequence[str], *, has_service: bool
) -> Judgement:
    """Return the judgement of a paused model.

    Args:
        judgement: The judgement without regard to the pause.
        revisions: The recorded revisions, which stay.
        pending: What the operator would do to the children.
        has_service: Whether the Service exists, which otherwise is restored at once.
    """
    ready = judgement.ready
    if ready.status and not has_service:
        sentence = "the Service does not exist; spec.paused is true, so it is not created"
        ready = replace(ready, status=False, finding=Finding(Reason.PAUSED, sentence))
    others = (each for each in judgement.conditions if each.type is not ready.type)
    conditions = (*others, ready, _make_condition(pending))
    ordered = sorted(conditions, key=lambda each: ORDER.index(each.type))
    return replace(judgement, conditions=tuple(ordered), ready=ready, revisions=revisions)


def _make_condition(pending: Sequence[str]) -> Condition:
    waits = f"it would {', '.join(pending)}" if pending else "no edit of the spec is pending"
    sentence = (
        f"spec.paused is true, so the operator creates, changes and deletes nothing; {waits}; to "
        "resume, set spec.paused to false"
    )
    return Condition(ConditionType.PAUSED, status=True, finding=Finding(Reason.PAUSED, sentence))


def pending_changes(
    objects: Sequence[dict[str, Any]], observed: Observed, *, keeps_others: bool
) -> tuple[str, ...]:
    """Return how the children differ from the planned objects, without edits by others.

    Args:
        objects: All planned children.
        observed: The existing children.
        keeps_others: Whether other children are kept.
    """
    planned = {(str(each["kind"]), str(each["metadata"]["name"])): each for each in objects}
    found = observed.children
    changes = [
        f'{"change" if key in found else "create"} {key[0]} "{key[1]}"'
        for key, each in planned.items()
        if key not in found or found[key].applied_hash != applied_hash(each)
    ]
    extra = [] if keeps_others else sorted(found.keys() - planned.keys())
    return (*changes, *(f'delete {kind} "{name}"' for kind, name in extra))
