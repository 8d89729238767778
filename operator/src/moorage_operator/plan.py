"""From a model and what was observed of it to everything that is to be done: the pure middle.

observe -> **plan** -> apply -> status

`plan` returns the objects to apply, the whole status, what to poll and what to look up. It raises
nothing for what a user wrote, and gives the same bytes for the same input. A spec that cannot be
accepted plans no objects: what runs keeps running.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from .api.v1alpha1 import InferenceModel
from .conditions import Condition, ConditionType, Reason, find_condition, truncated
from .config import OperatorConfig
from .contract import CONTRACT_REASONS
from .gates import make_gates
from .readiness import Judgement, decide
from .replicas import DEFINITE, judge
from .resources.deployment import make_deployment
from .resources.owned import applied_hash
from .resources.pod_template import make_pod_template, revision_of
from .resources.references import references
from .resources.service import make_service
from .state import (
    Observed,
    Plan,
    PlannedEvent,
    PollPace,
    Reference,
    Refusal,
)
from .status import make_status
from .targets import make_targets
from .trials import SMOKE_REASONS

__all__ = ["plan"]

# Nobody tells when a refused object would be taken.
REFUSAL_RETRY_SECONDS = 15.0

BEYOND_READINESS = CONTRACT_REASONS | SMOKE_REASONS

# Ways that a model passes on the way up: the status has them, an event would be noise.
PASSING_REASONS = {
    Reason.PENDING,
    Reason.POD_NOT_READY,
    Reason.MODEL_LOADING,
    Reason.SERVER_NOT_LIVE,
    Reason.AWAITING_METADATA,
    Reason.RUNNING,
}
# Conditions that keep Ready true where the spec does not enforce them.
WARNED_OF = {ConditionType.METADATA_MATCHED, ConditionType.SMOKE_TEST_PASSED}
NORMAL_REASONS = {
    Reason.SERVING,
    Reason.SERVING_PREVIOUS_REVISION,
    Reason.SUSPENDED,
    Reason.SCALED_TO_ZERO,
}


def plan(
    model: InferenceModel, observed: Observed, *, now: datetime, config: OperatorConfig
) -> Plan:
    """What to do for one model now.

    Args:
        model: The parsed resource.
        observed: Everything known of its children, its replicas' answers and its references.
        now: The present moment, aware; only dates what is new in the status.
        config: The operator's settings.
    """
    interval = float(model.health.poll_interval_seconds)
    if model.deleting:
        # The garbage collector takes the children; to apply them again would fight it.
        kept = dict(observed.status)
        return Plan(
            (), kept, keeps_others=True, poll=PollPace.STABLE, poll_interval_seconds=interval
        )
    objects: tuple[dict[str, Any], ...] = ()
    named: frozenset[Reference] = frozenset()
    revision = ""
    if not model.problems:
        template = make_pod_template(model, config)
        objects = (make_service(model), make_deployment(model, template))
        revision, named = revision_of(template), references(template)
    replicas = judge(model, observed, revision)
    hashes = frozenset(applied_hash(item) for item in objects)
    judgement = decide(model, observed, replicas, revision, hashes)
    status = make_status(model, observed, replicas, judgement, config=config, now=now)
    return Plan(
        objects=objects,
        status=status,
        keeps_others=bool(model.problems),
        gates=make_gates(replicas, now),
        events=(*_events(judgement.ready, observed), *_warnings(judgement, observed)),
        targets=make_targets(model, replicas, config),
        poll=_pace(judgement),
        poll_interval_seconds=interval,
        requeue_after=REFUSAL_RETRY_SECONDS if _standing(observed.refusals, hashes) else None,
        references=named,
    )


def _pace(judgement: Judgement) -> PollPace:
    # Whom a contract or a smoke test finds fault with has a model that is ready.
    if judgement.blamed is None or judgement.blamed.reason in BEYOND_READINESS:
        return PollPace.STABLE
    return PollPace.FAILING if judgement.blamed.reason in DEFINITE else PollPace.SETTLING


def _standing(refusals: Sequence[Refusal], hashes: frozenset[str]) -> bool:
    """Whether an object that is planned now stands refused."""
    return any(refusal.applied_hash in hashes for refusal in refusals)


def _events(ready: Condition, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when Ready changes its status, or its reason to one that will not pass."""
    before = find_condition(observed.status, ConditionType.READY)
    status = "True" if ready.status else "False"
    finding = ready.finding
    same_status = before.get("status", "False") == status
    if same_status and finding.reason in {before.get("reason"), *PASSING_REASONS}:
        return ()
    kind = "Normal" if finding.reason in NORMAL_REASONS else "Warning"
    return (PlannedEvent(kind, str(finding.reason), truncated(finding.message)),)


def _warnings(judgement: Judgement, observed: Observed) -> tuple[PlannedEvent, ...]:
    """One event when a contract is broken, or smoke tests fail, that are not enforced."""
    return tuple(
        PlannedEvent(
            "Warning", str(condition.finding.reason), truncated(condition.finding.message)
        )
        for condition in judgement.conditions
        if condition.type in WARNED_OF
        and condition.status is False
        and condition.finding != judgement.blamed
        and find_condition(observed.status, condition.type).get("reason")
        != condition.finding.reason
    )
