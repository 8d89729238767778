"""Decides which revision the Deployment runs: the spec's own or the last that served; pure.

    status.revisions, rendered template --> chart_course --> Course --> Deployment
    Judgement of the replicas           --> give_up      --> Rejection --> status.revisions

One reconcile records in the status that a revision is given up, and the next one rolls it back. So
a restarted operator resumes at the same point, and revisions do not alternate. A revision stays
given up until the spec changes; one that `spec.rollout.abort` names, also until abort changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from moorage_operator.api.conditions import Finding, Reason, readable, timestamp, truncated
from moorage_operator.api.reasons import Trait, has
from moorage_operator.api.v1alpha1 import InferenceModel, OnFailure
from moorage_operator.decide.pods.replicas import Replica, worst
from moorage_operator.resources.pod_template import revision_of
from moorage_operator.values.objects import DeploymentObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import Rejection, Revisions, read_revisions

from .revision_specs import read_spec, read_template

__all__ = ["Course", "chart_course", "give_up", "is_stuck", "until_definite"]

Template = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Course:
    """The revision that the Deployment runs now.

    Attributes:
        revisions: The recorded revisions, with the spec's own revision as current.
        applied: The revision that the Deployment runs.
        model: The spec that `applied` was rendered from; an earlier one after a rollback.
        template: The pod template of `applied`.
        history: Revisions whose records are needed for a definite result.
        update_pending: Whether this version of the operator would render another template.
        paused: Whether the Deployment is paused.
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
    """Choose the revision to run from the recorded revisions.

    Args:
        model: The parsed resource, without problems.
        observed: Its status and history.
        rendered: The pod template that this version of the operator renders from the spec.
    """
    is_described = observed.status.get("observedGeneration") == model.generation
    known = read_revisions(observed.status)
    remembered = _without_withdrawn(known.of(model.written.hash, is_described=is_described), model)
    if remembered.rejected is None:
        return _pinned(model, observed, rendered, remembered)
    is_aborted = remembered.rejected.reason == Reason.ROLLOUT_ABORTED
    if is_aborted or model.rollout.on_failure is OnFailure.ROLLBACK:
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
    """Reject the spec's revision if it has failed to replace another one.

    Args:
        course: The revision that the Deployment runs.
        observed: The Deployment, and the previous status of its replicas.
        replicas: The replicas, judged for the course.
        blamed: The first cause against the revision.
        now: The current time, aware.
        stopped: Why a canary replica stopped serving, if one did.
    """
    if aborted := _aborted(course, now):
        return aborted
    if course.revisions.rejected or not _is_tried(course, observed):
        return course.revisions.rejected
    definite = [
        finding for finding, seconds in _definite(course, observed, replicas, now) if seconds <= 0
    ]
    if not definite and not stopped and not is_stuck(observed, replicas):
        return None
    seconds = course.model.progress_deadline_seconds
    late = f"no further replica started to serve within {seconds} s"
    # A problem of an existing replica explains more than the pods that are still missing.
    found = worst(each.finding for each in replicas if each.current and each.finding)
    against = (*definite, stopped, found, blamed, Finding(Reason.PROGRESS_DEADLINE_EXCEEDED, late))
    cause = next(finding for finding in against if finding)
    message = truncated(cause.message)  # the API server quotes webhooks at any length
    return Rejection(course.revisions.current, str(cause.reason), message, timestamp(now))


def _aborted(course: Course, now: datetime) -> Rejection | None:
    """Reject the revision that the spec aborts, even if it had failed and is paused."""
    revisions = course.revisions
    if course.model.rollout.abort != revisions.current or not revisions.last_good:
        return None
    before = revisions.rejected
    if before and before.reason == Reason.ROLLOUT_ABORTED:
        return before
    message = f"spec.rollout.abort names revision {revisions.current}"
    reason = str(Reason.ROLLOUT_ABORTED)
    return Rejection(revisions.current, reason, message, timestamp(now))


def _without_withdrawn(revisions: Revisions, model: InferenceModel) -> Revisions:
    """Forget a rejection by `spec.rollout.abort` that the spec no longer asks for."""
    rejected = revisions.rejected
    if rejected is None or rejected.reason != Reason.ROLLOUT_ABORTED:
        return revisions
    if rejected.revision == model.rollout.abort:
        return revisions
    return replace(revisions, rejected=None)


def until_definite(
    course: Course, observed: Observed, replicas: Sequence[Replica], *, now: datetime
) -> float | None:
    """Return the seconds until a current failure has lasted long enough; None without one."""
    if course.revisions.rejected or not _is_tried(course, observed):
        return None
    left = [seconds for _, seconds in _definite(course, observed, replicas, now) if seconds > 0]
    return min(left, default=None)


def is_stuck(observed: Observed, replicas: Sequence[Replica]) -> bool:
    """Whether the rollout has exceeded its progress deadline.

    The Deployment controller reports this. It does not apply to replicas that only wait for the
    operator, which may have been away: a server that was not polled yet, a gate that is about to
    open. Nor does it apply to replicas that became ready after the controller's last update.
    """
    deployment = observed.deployment
    if deployment is None or not deployment.is_reported:
        return False
    late = [each for each in deployment.conditions if each.reason == "ProgressDeadlineExceeded"]
    return bool(late) and not any(
        replica.current and (_waits_for_operator(replica) or _is_newer(replica, late[0].updated))
        for replica in replicas
    )


def _waits_for_operator(replica: Replica) -> bool:
    runs = replica.pod.runtime.running_since is not None
    opening = replica.admitted and replica.pod.gated and not replica.pod.gate_open
    return runs and (opening or replica.result is None)


def _is_newer(replica: Replica, looked: datetime | None) -> bool:
    since = replica.pod.ready_since
    return replica.serving and since is not None and looked is not None and since >= looked


def _rolled_back(
    model: InferenceModel, observed: Observed, rendered: Template, remembered: Revisions
) -> Course | None:
    """Return to the last revision that served; None if its record is lost."""
    good = remembered.last_good
    history = frozenset({good})
    if good not in observed.history:
        return Course(remembered, good, model, rendered, history)
    record = observed.history[good]
    then = read_spec(record, model) if record else None
    if record is None or then is None:
        return None
    return Course(remembered, good, then, read_template(record, then), history)


def _pinned(
    model: InferenceModel, observed: Observed, rendered: Template, remembered: Revisions
) -> Course:
    """Keep the spec's revision as it was first rendered, as long as its record exists."""
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
    template = read_template(record, model)
    return Course(remembered, first, model, template, history, update_pending=True)


def _is_tried(course: Course, observed: Observed) -> bool:
    """Whether the spec's revision is replacing one that can be rolled back to."""
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
    """Return failures that do not resolve by themselves, with the remaining seconds of each.

    A failure has to last for health.failureThreshold periods, as for a kubelet: 15 s by default.
    """
    health = course.model.health
    patience = health.failure_threshold * health.period_seconds
    entries = cast("list[dict[str, Any]]", observed.status.get("replicaStatuses") or [])
    since = {(entry.get("pod"), entry.get("reason")): entry.get("since") for entry in entries}
    found: list[tuple[Finding, float]] = []
    for replica in replicas:
        finding = replica.finding
        if not replica.current or finding is None or not has(finding.reason, Trait.FAILURE):
            continue
        began = readable(str(since.get((replica.pod.name, str(finding.reason)), "")))
        lasted = (now - datetime.fromisoformat(began)).total_seconds() if began else 0.0
        found.append((finding, patience - lasted))
    return found
