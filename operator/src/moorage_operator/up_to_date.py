"""The condition UpToDate: whether this spec is what serves, and if not, how far it has got; pure.

    Course, Judgement so far --> UpToDate

It blames nothing by itself. A revision that was given up keeps the reason that was against it
then, because nothing of it runs any more that could say it again.
"""

from collections.abc import Sequence

from .api.v1alpha1 import ROLLOUT_REQUEST
from .conditions import Condition, ConditionType, Finding, Reason
from .replicas import Replica
from .revisions import Rejection
from .rollout import Course, is_stuck
from .state import Observed

__all__ = ["decide_up_to_date", "given_up_sentence"]

REQUEST = f"the annotation {ROLLOUT_REQUEST} another text"
RETRY = f"edit the spec, or give {REQUEST} to try it again"


def decide_up_to_date(
    course: Course | None,
    observed: Observed,
    replicas: Sequence[Replica],
    blamed: Finding | None,
    desired: int,
    canary: Finding | None = None,
) -> Condition:
    """The condition.

    Args:
        course: What the Deployment is to run; None where the spec has problems.
        observed: The Deployment.
        replicas: Judged for the course.
        blamed: What is against the revision.
        desired: Replicas that are wanted now.
        canary: How far the canary has come, where one is under way.
    """
    finding = _not_yet(course, observed, replicas, blamed, desired, canary)
    if finding:
        return Condition(ConditionType.UP_TO_DATE, status=False, finding=finding)
    complete = Finding(Reason.ROLLOUT_COMPLETE, f"all {desired} replicas are of this spec")
    return Condition(ConditionType.UP_TO_DATE, status=True, finding=complete)


def given_up_sentence(rejected: Rejection) -> str:
    """Which revision was given up, and why."""
    cause = f"{rejected.reason}: {rejected.message}"
    return f"revision {rejected.revision} of this spec was given up: {cause}"


def _not_yet(
    course: Course | None,
    observed: Observed,
    replicas: Sequence[Replica],
    blamed: Finding | None,
    desired: int,
    canary: Finding | None,
) -> Finding | None:
    if course and (rejected := course.revisions.rejected):
        return _rejected_finding(course, rejected)
    current = [replica for replica in replicas if replica.current]
    serving = sum(1 for replica in current if replica.serving)
    earlier = sum(1 for replica in replicas if not (replica.current or _retires(replica, course)))
    seen = _is_observed(observed, current)
    settled = len(current) == desired == serving and not earlier and seen
    if course and settled and (desired == 0 or (blamed is None and canary is None)):
        return _pending_update() if course.update_pending else None
    sentence = f"{serving} of {desired} replicas of this spec serve"
    if earlier:
        sentence += f", {earlier} of an earlier revision remain"
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


def _retires(replica: Replica, course: Course | None) -> bool:
    """Whether another revision has taken its place, and it is only kept for a while."""
    retiring = course.revisions.retiring if course else None
    return retiring is not None and replica.pod.revision == retiring.revision


def _rejected_finding(course: Course, rejected: Rejection) -> Finding:
    told = given_up_sentence(rejected)
    if course.is_back:
        back = f"{course.applied}, the last one that served, runs in its place"
        return Finding(Reason.ROLLED_BACK, f"{told}; {back}; {RETRY}")
    return Finding(Reason.ROLLOUT_PAUSED, f"{told}; nothing is changed any more; {RETRY}")


def _pending_update() -> Finding:
    return Finding(
        Reason.OPERATOR_UPDATE_PENDING,
        "the replicas are of this spec, in pods as an earlier version or setting of the operator "
        f"wrote them; they change with the next edit, or when you give {REQUEST}",
    )


def _is_observed(observed: Observed, current: Sequence[Replica]) -> bool:
    """Whether the Deployment controller has seen the Deployment as it is now.

    Pods of one that was never changed show it, long before the controller of a busy cluster says
    so; a status need not be written twice for that.
    """
    deployment = observed.deployment
    if deployment is None:
        return False
    told = deployment.observed_generation >= deployment.generation
    return told or (deployment.generation == 1 and bool(current))
