"""Which revision a model's Deployment is to run: the spec's own, or the last that served; pure.

    status.revisions, rendered template --> chart_course --> Course --> Deployment
    Judgement of the replicas           --> give_up      --> Rejection --> status.revisions

A revision is given up in one pass and left in the next, which reads it from the status: so a
restarted operator goes on where the other one ended, and nothing changes back and forth. What was
given up stays so until the spec, or the rollout request beside it, is another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from .api.v1alpha1 import InferenceModel, OnFailure
from .conditions import Finding, Reason, timestamp
from .replicas import Replica, worst
from .resources.pod_template import revision_of
from .revisions import (
    Rejection,
    Revisions,
    read_revisions,
    read_spec,
    read_template,
    spec_hash,
)
from .state import Observed
from .watched import DeploymentObserved

__all__ = ["Course", "chart_course", "give_up", "is_stuck", "until_definite"]

Template = dict[str, Any]

# What a ready or a broken model says of itself does not change without an edit, so there is no
# deadline to wait for. That a server does not know a model may mean that it has not looked yet.
DEFINITE_FAILURES = {
    Reason.INVALID_IMAGE_NAME,
    Reason.MODEL_LOAD_FAILED,
    Reason.INPUT_MISSING,
    Reason.OUTPUT_MISSING,
    Reason.DATATYPE_MISMATCH,
    Reason.SHAPE_MISMATCH,
    Reason.OUTPUT_MISMATCH,
    Reason.REQUEST_REJECTED,
    Reason.LATENCY_EXCEEDED,
}


@dataclass(frozen=True, slots=True)
class Course:
    """What the Deployment is to run now, and why.

    Attributes:
        revisions: As remembered, with the spec's own revision as current.
        applied: The revision that the Deployment is to run.
        model: What `applied` was rendered from: this spec, or an earlier one after a rollback.
        template: The pod template of `applied`.
        history: Revisions that it rests on; without their records it is no more than a guess.
        update_pending: Whether this version of the operator would write another template.
        paused: Whether the Deployment is to stand still.
    """

    revisions: Revisions
    applied: str
    model: InferenceModel
    template: Template
    history: frozenset[str] = frozenset()
    update_pending: bool = False
    paused: bool = False

    @property
    def is_back(self) -> bool:
        """Whether an earlier revision runs because the spec's own was given up."""
        return self.applied != self.revisions.current


def chart_course(model: InferenceModel, observed: Observed, rendered: Template) -> Course:
    """Which revision is to run, by what is remembered.

    Args:
        model: The parsed resource, without problems.
        observed: Its status and history.
        rendered: The pod template that this version of the operator makes from the spec.
    """
    remembered = read_revisions(observed.status).of(spec_hash(model))
    if remembered.rejected is None:
        return _pinned(model, observed, rendered, remembered)
    if model.rollout.on_failure is OnFailure.ROLLBACK:
        back = _rolled_back(model, observed, rendered, remembered)
        if back:
            return back
    course = _pinned(model, observed, rendered, remembered)
    history = course.history | {remembered.last_good}
    return replace(course, history=history, paused=course.revisions.rejected is not None)


def give_up(
    course: Course,
    observed: Observed,
    replicas: Sequence[Replica],
    blamed: Finding | None,
    *,
    now: datetime,
    stopped: Finding | None = None,
) -> Rejection | None:
    """The rejection of the spec's revision, once it has failed to take the place of another.

    Args:
        course: What the Deployment runs.
        observed: The Deployment, and since when its replicas are as they are.
        replicas: Judged for the course.
        blamed: What is against the revision.
        now: The present moment, aware.
        stopped: What befell a replica of a canary that had served.
    """
    if course.revisions.rejected or not _is_tried(course, observed):
        return course.revisions.rejected
    definite = [
        finding for finding, seconds in _definite(course, observed, replicas, now) if seconds <= 0
    ]
    if not definite and not stopped and not is_stuck(observed, replicas):
        return None
    late = f"no further replica came to serve within {course.model.progress_deadline_seconds} s"
    # That pods are not made yet, for others have not come to serve, is the lesser news.
    found = worst(each.finding for each in replicas if each.current and each.finding)
    against = (*definite, stopped, found, blamed, Finding(Reason.PROGRESS_DEADLINE_EXCEEDED, late))
    told = next(finding for finding in against if finding)
    return Rejection(course.revisions.current, str(told.reason), told.message, timestamp(now))


def until_definite(
    course: Course, observed: Observed, replicas: Sequence[Replica], *, now: datetime
) -> float | None:
    """Seconds until a failure that stands now will have stood long enough; None without one."""
    if course.revisions.rejected or not _is_tried(course, observed):
        return None
    left = [seconds for _, seconds in _definite(course, observed, replicas, now) if seconds > 0]
    return min(left, default=None)


def is_stuck(observed: Observed, replicas: Sequence[Replica]) -> bool:
    """Whether the rollout has stood still for as long as the deadline.

    The Deployment's controller says so. It does not count what waits for the operator alone, which
    may have been away: a server that has not been asked, a gate that is about to be opened; and
    what became ready after it looked.
    """
    deployment = observed.deployment
    if deployment is None or deployment.observed_generation < deployment.generation:
        return False
    late = [each for each in deployment.conditions if each.reason == "ProgressDeadlineExceeded"]
    return bool(late) and not any(
        replica.current and (_waits_for_operator(replica) or _is_news(replica, late[0].updated))
        for replica in replicas
    )


def _waits_for_operator(replica: Replica) -> bool:
    runs = replica.pod.runtime.running_since is not None
    opening = replica.admitted and replica.pod.gated and not replica.pod.gate_open
    return runs and (opening or replica.result is None)


def _is_news(replica: Replica, looked: datetime | None) -> bool:
    since = replica.pod.ready_since
    return replica.serving and since is not None and looked is not None and since >= looked


def _rolled_back(
    model: InferenceModel, observed: Observed, rendered: Template, remembered: Revisions
) -> Course | None:
    """Back to the last revision that served; None where nothing keeps it any more."""
    good = remembered.last_good
    history = frozenset({good})
    if good not in observed.history:
        return Course(remembered, good, model, rendered, history)
    record = observed.history[good]
    then = read_spec(record, model) if record else None
    if record is None or then is None:
        return None
    return Course(remembered, good, then, read_template(record), history)


def _pinned(
    model: InferenceModel, observed: Observed, rendered: Template, remembered: Revisions
) -> Course:
    """The spec's revision as it was first rendered, as long as something keeps that."""
    own, first = revision_of(rendered), remembered.current
    if first in {"", own}:
        return Course(replace(remembered, current=own), own, model, rendered)
    history = frozenset({first})
    if first not in observed.history:
        return Course(remembered, first, model, rendered, history)
    record = observed.history[first]
    if record is None:
        again = replace(remembered, current=own, rejected=None)
        return Course(again, own, model, rendered, history)
    return Course(remembered, first, model, read_template(record), history, update_pending=True)


def _is_tried(course: Course, observed: Observed) -> bool:
    """Whether the spec's revision is on its way to replace one that there is a way back to."""
    revisions, deployment = course.revisions, observed.deployment
    return (
        course.model.desired_replicas > 0
        and revisions.last_good not in {"", revisions.current}
        and deployment is not None
        and _runs(deployment, revisions.current)
    )


def _runs(deployment: DeploymentObserved, revision: str) -> bool:
    return deployment.revision == revision


def _definite(
    course: Course, observed: Observed, replicas: Sequence[Replica], now: datetime
) -> list[tuple[Finding, float]]:
    """Failures that no waiting will mend, and how many seconds each is still waited for.

    As long as a kubelet needs to believe in a failure: health.failureThreshold periods, by
    default 15 s.
    """
    health = course.model.health
    patience = health.failure_threshold * health.period_seconds
    entries = cast("list[dict[str, Any]]", observed.status.get("replicaStatuses") or [])
    since = {(entry.get("pod"), entry.get("reason")): entry.get("since") for entry in entries}
    found: list[tuple[Finding, float]] = []
    for replica in replicas:
        finding = replica.finding
        if not replica.current or finding is None or finding.reason not in DEFINITE_FAILURES:
            continue
        began = since.get((replica.pod.name, str(finding.reason)))
        stood = (now - datetime.fromisoformat(began)).total_seconds() if began else 0.0
        found.append((finding, patience - stood))
    return found
