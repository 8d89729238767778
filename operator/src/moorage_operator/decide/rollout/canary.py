"""Decides the share of requests that a canary receives, and when it advances; pure.

    status.revisions.canary --> make_split --> Split --> routing --> weights of the HTTPRoute
    Split, condition RouteAccepted, replicas --> advance --> status.revisions.canary
    Split, replicas --> stopped --> course.give_up

A step is recorded in the status by one reconcile and carried out by the next. So a restarted
operator resumes at the same step, without repeating or skipping one. The pause of a step begins
once the Gateways have accepted its weight. The function `advance` checks time, approval, replicas
and Gateways; the canary stays at its step until all of them are fulfilled.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from moorage_operator.api.canary import CanaryStep
from moorage_operator.api.conditions import Condition, Finding, Reason, began, timestamp
from moorage_operator.api.v1alpha1 import InferenceModel, Strategy
from moorage_operator.decide.pods.replicas import Replica
from moorage_operator.resources.route import ROUTE
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import Observed
from moorage_operator.values.revisions import CanaryProgress

from .course import Course
from .releases import Arrangement

__all__ = ["Split", "advance", "describe_progress", "make_split", "seconds_left", "stopped"]

WHOLE = 100


@dataclass(frozen=True, slots=True)
class Split:
    """Two revisions that run side by side, and the progress of the new one.

    Attributes:
        model: The spec with the steps.
        progress: The recorded progress; there is none for a revision that was given up.
        is_ready: Whether any pod of the new revision is ready; otherwise it gets no requests.
    """

    model: InferenceModel
    progress: CanaryProgress
    is_ready: bool = False

    @property
    def steps(self) -> tuple[CanaryStep, ...]:
        """The steps of the spec."""
        return self.model.rollout.canary.steps

    @property
    def weight(self) -> int:
        """The new revision's share of the requests now, in percent."""
        return self.progress.weight if self.is_ready else 0

    @property
    def is_complete(self) -> bool:
        """Whether the Gateways send all requests to the new revision."""
        return self.progress.step > len(self.steps) and bool(self.progress.since)


def make_split(course: Course, arrangement: Arrangement, observed: Observed) -> Split | None:
    """Return the current split of requests; None if no canary is in progress.

    Without the Gateway API, requests cannot be split: the Service is switched as with BlueGreen. A
    canary that has begun waits for the API instead.

    Args:
        course: The revision to run, and the recorded revisions.
        arrangement: The Deployments.
        observed: The pods, and the kinds that the cluster has.
    """
    model, revision = course.model, course.applied
    apart = arrangement.selected not in {"", revision}
    if model.rollout.strategy is not Strategy.CANARY or not apart:
        return None
    known = course.revisions.canary
    progress = known if known and known.revision == revision else None
    if progress is None and ROUTE not in observed.available_kinds:
        return None
    ready = any(
        pod.ready and pod.revision == revision and not pod.deleting for pod in observed.pods
    )
    return Split(model, progress or CanaryProgress(revision), ready)


def advance(
    split: Split, route: Condition | None, *, serves: bool, now: datetime
) -> CanaryProgress:
    """Return the progress to record after this reconcile.

    Args:
        split: The current split.
        route: The condition RouteAccepted for the route with this split's weights.
        serves: Whether all wanted replicas of the new revision serve and have been tested.
        now: The current time, aware.
    """
    progress = split.progress
    step = min(progress.step, len(split.steps) + 1)
    if progress.weight != _weight(split, step):
        return _at(split, step)  # the steps were edited
    if not serves or route is None or route.status is not True:
        return progress
    since = began(progress.since, now)
    if step and progress.since != since:
        return replace(progress, since=since)
    is_last = step > len(split.steps)
    return progress if is_last or not _is_over(split, now) else _at(split, step + 1)


def seconds_left(split: Split | None, now: datetime) -> float | None:
    """Return the seconds until the pause of this step ends; None without a time limit."""
    left = _left(split, now) if split else None
    return left if left is not None and left > 0 else None


def describe_progress(split: Split, route: Condition | None, last_good: str) -> Finding:
    """Describe the progress of the canary and what it is waiting for.

    Args:
        split: The current split.
        route: The condition RouteAccepted.
        last_good: The revision that serves, which an earlier promotion may name.
    """
    progress, steps = split.progress, split.steps
    sentence = f"canary {progress.revision} receives {split.weight} percent of the requests"
    if 0 < progress.step <= len(steps):
        sentence += f", step {progress.step} of {len(steps)}"
    promoted = split.model.rollout.promote.partition("/")[0]
    if promoted not in {"", progress.revision, last_good}:
        sentence += f"; spec.rollout.promote names {promoted}, which is not this canary"
    if route and route.status is not True:
        return Finding(Reason.ROLLING_OUT, f"{sentence}; waiting: {route.finding.message}")
    pause = _pause(split)
    if progress.since and pause is None and progress.step <= len(steps):
        sentence += f"; to approve this step, set spec.rollout.promote to {_mark(progress)}"
        if progress.step < len(steps):
            sentence += f", or to {progress.revision} for all remaining steps"
        return Finding(Reason.AWAITING_APPROVAL, sentence)
    if progress.since and pause is not None:
        sentence += f", until {timestamp(_end(progress, pause))}"
    return Finding(Reason.ROLLING_OUT, sentence)


def stopped(
    split: Split | None, replicas: Sequence[Replica], observed: Observed
) -> Finding | None:
    """Return why a replica that served during a step has stopped serving.

    A missing answer does not count, because the operator may be cut off. Deleted pods, pods of a
    node that has failed and pods that have not served yet do not count either.
    """
    if split is None or split.progress.step == 0:
        return None
    before = _served(observed)
    for replica in replicas:
        served = replica.pod.name in before or _has_served(replica.pod, split.progress)
        if replica.current and served and _has_stopped(replica):
            why = replica.finding or Finding(Reason.POD_NOT_READY, f"pod {replica.pod.name}")
            when = f"a replica stopped serving at step {split.progress.step}"
            return Finding(why.reason, f"{when}: {why.message}")
    return None


def _has_stopped(replica: Replica) -> bool:
    if replica.serving:
        return False
    if replica.result is not None and replica.result.model_ready.verdict is False:
        return True
    # A model that is ready again may still wait for its readiness gate, which the operator opens.
    waits = replica.admitted and replica.pod.gated and replica.pod.runtime.ready
    return not (replica.pod.ready or replica.pod.is_lost or waits)


def _served(observed: Observed) -> set[str]:
    """Return the pods that served according to the status."""
    entries = cast("list[dict[str, Any]]", observed.status.get("replicaStatuses") or [])
    return {
        str(entry["pod"]) for entry in entries if entry.get("ready") and entry.get("modelReady")
    }


def _has_served(pod: PodObserved, progress: CanaryProgress) -> bool:
    """Whether a pod served when the step began, which is when all wanted replicas did.

    The Deployment may have had further pods then, such as one that replaces another. Such a pod is
    as old, but its container starts for the first time, or was found ready for the first time
    since, or waits for its first readiness gate. Its last answer can be from before that.
    """
    if not progress.since:
        return False
    since, restarted = datetime.fromisoformat(progress.since), pod.runtime.restart_count > 0
    became_ready = pod.ready and pod.ready_since is not None and pod.ready_since >= since
    was_ready = pod.runtime.started and _was_ready(pod) and not became_ready
    return (restarted or was_ready) and pod.created < since


def _was_ready(pod: PodObserved) -> bool:
    """Whether a pod was ever ready, if its container has never restarted.

    Until it is ready for the first time, its condition Ready is older than its container.
    """
    started, changed = pod.runtime.running_since, pod.ready_since
    return pod.ready or started is None or changed is None or changed > started


def _at(split: Split, step: int) -> CanaryProgress:
    """Return the progress at the beginning of a step."""
    return CanaryProgress(split.progress.revision, step, _weight(split, step))


def _weight(split: Split, step: int) -> int:
    if step == 0:
        return 0
    return split.steps[step - 1].weight if step <= len(split.steps) else WHOLE


def _pause(split: Split) -> int | None:
    """Return the length of this step in seconds; None outside the steps and for an approval."""
    step = split.progress.step
    return split.steps[step - 1].pause_seconds if 0 < step <= len(split.steps) else None


def _is_over(split: Split, now: datetime) -> bool:
    """Whether the pause of this step is over; before the first step there is no pause."""
    left = _left(split, now)
    timed_out = left is not None and left <= 0
    return split.progress.step == 0 or timed_out or _is_approved(split)


def _left(split: Split, now: datetime) -> float | None:
    pause = _pause(split)
    if pause is None or not split.progress.since:
        return None
    return (_end(split.progress, pause) - now).total_seconds()


def _end(progress: CanaryProgress, pause: int) -> datetime:
    return datetime.fromisoformat(progress.since) + timedelta(seconds=pause)


def _is_approved(split: Split) -> bool:
    """Whether the spec approves this step or all remaining ones."""
    progress = split.progress
    return split.model.rollout.promote in {progress.revision, _mark(progress)}


def _mark(progress: CanaryProgress) -> str:
    return f"{progress.revision}/{progress.step}"
