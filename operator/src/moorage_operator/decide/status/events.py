"""Decides which Kubernetes Events a reconcile posts about its model; pure.

    previous status, Judgement --> planned_events --> Plan.events

Each event is a transition between two statuses, so an unchanged model has none. What is normal
while a model starts has none either: the status shows it.
"""

from collections.abc import Iterator

from moorage_operator.api.conditions import (
    Condition,
    ConditionType,
    Reason,
    find_condition,
    truncated,
)
from moorage_operator.api.reasons import Trait, has
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import PlannedEvent
from moorage_operator.values.revisions import read_revisions
from moorage_operator.values.runtimes import read_runtime_use

from .conditions import Judgement
from .up_to_date import given_up_sentence

__all__ = ["planned_events"]

# Conditions that do not affect Ready unless the spec enforces them.
WARNED_OF = {ConditionType.METADATA_MATCHED, ConditionType.SMOKE_TEST_PASSED}

# Conditions beside Ready whose changes are reported in both directions.
TOLD_OF = {
    ConditionType.ROUTE_ACCEPTED,
    ConditionType.RUNTIME_UPDATE_PENDING,
    ConditionType.PAUSED,
}


def planned_events(judgement: Judgement, observed: Observed) -> tuple[PlannedEvent, ...]:
    """Plan the events of one reconcile.

    Args:
        judgement: The conditions and revisions of the next status.
        observed: The previous status, and the runtime of the model.
    """
    return (
        *_readiness(judgement.ready, observed),
        *_warnings(judgement, observed),
        *_changes(judgement, observed),
        *_rejections(judgement, observed),
        *_steps(judgement, observed),
        *_runtimes(observed),
        *_resumptions(judgement, observed),
    )


def _readiness(ready: Condition, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when Ready changes its status, or gets a reason that is not transient."""
    before = find_condition(observed.status, ConditionType.READY)
    status = "True" if ready.status else "False"
    finding = ready.finding
    was_cut_off = before.get("reason") == Reason.OPERATOR_CUT_OFF
    if finding.reason is Reason.OPERATOR_CUT_OFF or (was_cut_off and ready.status):
        return  # an outage of the operator: it is logged once, not reported per model
    same_status = before.get("status", "False") == status
    is_passing = finding.reason == before.get("reason") or has(finding.reason, Trait.TRANSIENT)
    if not (same_status and is_passing):
        yield _about(ready)


def _warnings(judgement: Judgement, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when a contract or smoke test that is not enforced fails."""
    for condition in judgement.conditions:
        before = find_condition(observed.status, condition.type).get("reason")
        if (
            condition.type in WARNED_OF
            and condition.status is False
            and condition.finding != judgement.blamed
            and condition.finding.reason != before
        ):
            message = truncated(condition.finding.message)
            yield PlannedEvent("Warning", str(condition.finding.reason), message)


def _changes(judgement: Judgement, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when a route, a pending runtime or a pause gets another reason.

    An unknown status is normal after each change of a route.
    """
    for condition in judgement.conditions:
        if condition.type not in TOLD_OF or condition.status is None:
            continue
        if condition.finding.reason != find_condition(observed.status, condition.type).get(
            "reason"
        ):
            yield _about(condition)


def _rejections(judgement: Judgement, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when a revision is given up."""
    rejected = judgement.revisions.rejected
    if rejected and read_revisions(observed.status).rejected != rejected:
        message = truncated(given_up_sentence(rejected))
        yield PlannedEvent("Warning", "RevisionGivenUp", message)


def _steps(judgement: Judgement, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when the share of a canary changes."""
    canary, before = judgement.revisions.canary, read_revisions(observed.status).canary
    same = before if before and canary and before.revision == canary.revision else None
    if canary and canary.step != (same.step if same else 0):
        message = f"setting the share of canary {canary.revision} to {canary.weight} percent"
        yield PlannedEvent("Normal", "CanaryStep", message)


def _runtimes(observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when the model gets another InferenceRuntime or its newer content."""
    before, use = read_runtime_use(observed.status), observed.runtime.use
    if before and use and (before.name, before.content) != (use.name, use.content):
        message = f"generation {use.generation} of InferenceRuntime {use.name!r} is used"
        if before.name != use.name:
            message += f" instead of {before.name!r}"
        yield PlannedEvent("Normal", "RuntimeFollowed", message)


def _resumptions(judgement: Judgement, observed: Observed) -> Iterator[PlannedEvent]:
    """Plan an event when the model is no longer paused."""
    was_paused = find_condition(observed.status, ConditionType.PAUSED)
    if was_paused and not any(each.type is ConditionType.PAUSED for each in judgement.conditions):
        message = "spec.paused is false, so the operator writes to the objects of the model again"
        yield PlannedEvent("Normal", "Resumed", message)


def _about(condition: Condition) -> PlannedEvent:
    finding = condition.finding
    kind = "Normal" if has(finding.reason, Trait.NORMAL) else "Warning"
    return PlannedEvent(kind, str(finding.reason), truncated(finding.message))
