"""The condition UpToDate: whether the current spec serves, and if not, its progress; pure.

    Course, Judgement so far --> UpToDate

It finds no causes itself. A revision that was given up keeps its reason, because no pod of it runs
that could show the reason again.
"""

from collections.abc import Sequence

from moorage_operator.api.conditions import (
    Condition,
    ConditionType,
    Finding,
    Reason,
    find_condition,
)
from moorage_operator.api.v1alpha1 import OnFailure
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.decide.rollout.course import Course, is_stuck
from moorage_operator.decide.rollout.revision_specs import unreadable
from moorage_operator.values.objects import PAUSED
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Rejection, read_revisions

from .replica_counts import counted
from .template import TemplateState

__all__ = [
    "decide_up_to_date",
    "deployment_name",
    "foreign_sentence",
    "given_up_sentence",
    "paused_outside",
]

FOREIGN_LIMIT = 5
"""The number of fields that a message lists."""

REQUEST = "set spec.rollout.restartedAt to the current time"
RETRY = f"to retry, edit the spec or {REQUEST}"
RETRY_ABORTED = "to retry, remove spec.rollout.abort"

PAUSABLE = {Reason.ROLLING_OUT, Reason.AWAITING_APPROVAL}
"""The reasons of a rollout in progress."""


def decide_up_to_date(  # noqa: PLR0913 -- the inputs of the condition
    course: Course | None,
    observed: Observed,
    replicas: Sequence[Replica],
    blamed: Finding | None,
    desired: int,
    canary: Finding | None = None,
    *,
    template: TemplateState,
    remarks: Sequence[str],
    is_routed: bool,
) -> Condition:
    """Decide the condition.

    Args:
        course: The revision to run; None if the spec has problems.
        observed: The Deployment.
        replicas: The replicas, judged for the course.
        blamed: The first cause against the revision.
        desired: The number of wanted replicas.
        canary: The progress of a canary, if there is one.
        template: Which pod template the replicas have.
        remarks: Sentences on what others prevent, although the spec may serve.
        is_routed: Whether the Services and routes are as planned.
    """
    finding = _not_yet(
        course,
        observed,
        replicas,
        blamed,
        desired,
        canary,
        template=template,
        is_routed=is_routed,
    )
    if finding and finding.reason is not Reason.OPERATOR_UPDATE_PENDING:
        finding = _with_foreign(finding, observed)
    if finding and course:
        finding = _paused(_with_abort(finding, course), course)
    if finding:
        added = [each for each in remarks if each not in finding.message]
        finding = Finding(finding.reason, "; ".join((finding.message, *added)))
        return Condition(ConditionType.UP_TO_DATE, status=False, finding=finding)
    current = sum(1 for replica in replicas if replica.current)
    sentence = f"all {desired} replicas have this spec"
    if current > desired:
        sentence = f"all {counted(current, desired, 'have this spec')}"
    if current < desired:
        sentence = f"{current} of {desired} replicas exist, and all of them have this spec"
    complete = Finding(Reason.ROLLOUT_COMPLETE, "; ".join((sentence, *remarks)))
    if course:
        complete = _with_abort(complete, course)
    return Condition(ConditionType.UP_TO_DATE, status=True, finding=complete)


def given_up_sentence(rejected: Rejection) -> str:
    """Say which revision was given up, and why."""
    cause = f"{rejected.reason}: {rejected.message}"
    return f"revision {rejected.revision} of this spec was given up: {cause}"


def _with_abort(finding: Finding, course: Course) -> Finding:
    """Say that `spec.rollout.abort` has no effect, and why."""
    abort, revisions = course.model.rollout.abort, course.revisions
    in_progress = finding.reason in {Reason.ROLLING_OUT, Reason.AWAITING_APPROVAL}
    if not abort or revisions.rejected:
        return finding
    if abort != revisions.current:
        if not in_progress or abort in revisions.unproven:  # it was aborted earlier
            return finding
        why = f"names {abort}, but revision {revisions.current} is rolled out"
    elif abort == revisions.last_good:
        why = f"names {abort}, whose rollout is complete"
    elif not revisions.last_good:
        why = f"names {abort}, the first revision, so there is none to return to"
    else:
        return finding
    sentence = f"{finding.message}; spec.rollout.abort has no effect: it {why}"
    return Finding(finding.reason, sentence)


def _paused(finding: Finding, course: Course) -> Finding:
    """Say that nothing continues while the model is paused."""
    if not course.model.paused or finding.reason not in PAUSABLE:
        return finding
    sentence = f"spec.paused is true, so the operator does not continue: {finding.message}"
    return Finding(Reason.PAUSED, sentence)


def _with_foreign(finding: Finding, observed: Observed) -> Finding:
    """Add the fields that others set in the Deployment, which may be the cause."""
    paused = paused_outside(observed)
    reason = Reason.ROLLOUT_PAUSED if paused else finding.reason
    sentences = [each for each in (paused, foreign_sentence(observed)) if each]
    left = [each for each in sentences if each not in finding.message]
    # The cause that a user can act on comes first.
    parts = (*left, finding.message) if paused else (finding.message, *left)
    return Finding(reason, "; ".join(parts))


def paused_outside(observed: Observed) -> str:
    """Say who paused the Deployment and how to resume it; "" if nobody did."""
    managers = [manager for path, manager in _foreign(observed) if path == PAUSED]
    if not managers:
        return ""
    name = deployment_name(observed)
    return (
        f'the Deployment "{name}" was paused by {managers[0]!r}, not by the spec: '
        f"run `kubectl rollout resume deployment/{name}`"
    )


def foreign_sentence(observed: Observed) -> str:
    """List the fields of the Deployment that others set, and by whom; "" if there are none."""
    fields = [f"{path} by {manager!r}" for path, manager in _foreign(observed) if path != PAUSED]
    if not fields:
        return ""
    more = f" and {len(fields) - FOREIGN_LIMIT} more" if len(fields) > FOREIGN_LIMIT else ""
    named = ", ".join(fields[:FOREIGN_LIMIT])
    name = deployment_name(observed)
    return f'the Deployment "{name}" has fields that others set: {named}{more}'


def _foreign(observed: Observed) -> tuple[tuple[str, str], ...]:
    return observed.deployment.foreign if observed.deployment else ()


def deployment_name(observed: Observed) -> str:
    """Return the name of the observed Deployment, which may be one of several."""
    found = (
        name for (_, name), child in observed.children.items() if child == observed.deployment
    )
    return next(found, "")


def _not_yet(  # noqa: PLR0913 -- the same inputs
    course: Course | None,
    observed: Observed,
    replicas: Sequence[Replica],
    blamed: Finding | None,
    desired: int,
    canary: Finding | None,
    *,
    template: TemplateState,
    is_routed: bool,
) -> Finding | None:
    if course and (rejected := course.revisions.rejected):
        return _rejected_finding(course, rejected, observed)
    is_kept = template is not TemplateState.OTHER and not is_stuck(observed, replicas)
    if course and is_kept and _was_complete(course, observed):
        return _pending_update() if course.update_pending else None
    current = [replica for replica in replicas if replica.current]
    serving = sum(1 for replica in current if replica.serving)
    earlier = sum(1 for replica in replicas if not (replica.current or _retires(replica, course)))
    is_planned = template is TemplateState.PLANNED
    # Admission may have set another size; of a model that is switched off, no pod may remain.
    enough = len(current) == serving >= desired and (desired > 0 or not current)
    settled = enough and not earlier and is_planned and is_routed
    if course and settled and (desired == 0 or (blamed is None and canary is None)):
        return _pending_update() if course.update_pending else None
    sentence = counted(serving, desired, "of this spec serve")
    if earlier:
        sentence += f", {earlier} of an earlier revision remain"
    if enough and not is_routed and not canary:  # which has only its share by intention
        sentence += ", but its Services and routes are not yet written"
    if canary:
        sentence = f"{canary.message}; {sentence}"
    if blamed:
        sentence += f"; {blamed.reason}: {blamed.message}"
    if canary and not is_stuck(observed, replicas):
        return Finding(canary.reason, sentence)
    reason = (
        Reason.PROGRESS_DEADLINE_EXCEEDED if is_stuck(observed, replicas) else Reason.ROLLING_OUT
    )
    return Finding(reason, sentence)


def _was_complete(course: Course, observed: Observed) -> bool:
    """Whether the rollout of this spec was already complete.

    A replica that is lost later is replaced with the same template, and remaining pods of an
    earlier revision are terminating. Neither is a rollout.
    """
    before = find_condition(observed.status, ConditionType.UP_TO_DATE)
    return (
        before.get("status") == "True"
        and before.get("observedGeneration") == course.model.generation
        and read_revisions(observed.status).current == course.applied
    )


def _retires(replica: Replica, course: Course | None) -> bool:
    """Whether a replica was replaced and is only kept for a while."""
    retiring = course.revisions.retiring if course else None
    return retiring is not None and replica.pod.revision == retiring.revision


def _rejected_finding(course: Course, rejected: Rejection, observed: Observed) -> Finding:
    given_up = given_up_sentence(rejected)
    is_aborted = rejected.reason == Reason.ROLLOUT_ABORTED
    retry = RETRY_ABORTED if is_aborted else RETRY
    if course.is_back:
        back = f"revision {course.applied}, the last one that served, runs instead"
        reason = Reason.ROLLOUT_ABORTED if is_aborted else Reason.ROLLED_BACK
        return Finding(reason, f"{given_up}; {back}; {retry}")
    why = "the rollout is paused"
    if is_aborted or course.model.rollout.on_failure is OnFailure.ROLLBACK:
        good = course.revisions.last_good
        lost = unreadable(observed.history.get(good), course.model)
        why += f" instead of rolled back, because the spec of revision {good}, "
        why += f"the last one that served, {lost}"
    return Finding(Reason.ROLLOUT_PAUSED, f"{given_up}; {why}; {retry}")


def _pending_update() -> Finding:
    return Finding(
        Reason.OPERATOR_UPDATE_PENDING,
        "the replicas have this spec, but this version of the operator, or its settings, would "
        f"generate other pods; to update them, edit the spec or {REQUEST}",
    )
