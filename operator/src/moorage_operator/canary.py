"""How many requests a new revision gets beside the last good one, and when it gets more; pure.

    status.revisions.canary --> make_split --> Split --> routing --> weights of the HTTPRoute
    Split, condition RouteAccepted, replicas --> advance --> status.revisions.canary
    Split, replicas --> stopped --> rollout.give_up

A step is remembered in one pass and carried out in the next, which reads it from the status: so a
restarted operator goes on where the other one ended, takes no step twice and leaves none out. The
pause of a step begins when the Gateways have taken its weight up. Time, approval, replicas and
Gateways are looked at in one function, `advance`; what is missing holds the canary where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, cast

from .api.canary import CanaryStep
from .api.v1alpha1 import CANARY_APPROVED, InferenceModel, Strategy
from .conditions import Condition, Finding, Reason, timestamp
from .releases import Arrangement
from .replicas import Replica
from .resources.route import ROUTE
from .revisions import CanaryProgress
from .rollout import Course
from .state import Observed
from .watched import PodObserved

__all__ = ["Split", "advance", "make_split", "seconds_left", "standing", "stopped"]

WHOLE = 100


@dataclass(frozen=True, slots=True)
class Split:
    """Two revisions that stand side by side, and how far the new one has come.

    Attributes:
        model: The spec, with the steps.
        progress: As remembered; of a revision that was given up nothing is.
        is_ready: Whether any pod of the new revision is ready; without one it gets no request.
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
        """Whether the Gateways send every request to the new revision."""
        return self.progress.step > len(self.steps) and bool(self.progress.since)


def make_split(course: Course, arrangement: Arrangement, observed: Observed) -> Split | None:
    """How requests are shared now; None where no canary is under way.

    Without the Gateway API nobody could share them: the Service is then switched as with
    BlueGreen. A canary that has begun waits for the API instead.

    Args:
        course: What is to run, with what is remembered.
        arrangement: Where it runs.
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
    """What is to be remembered after this pass.

    Args:
        split: As it is now.
        route: The condition RouteAccepted, of the route with this split's weights.
        serves: Whether every wanted replica of the new revision serves, and has been judged.
        now: The present moment, aware.
    """
    progress = split.progress
    step = min(progress.step, len(split.steps) + 1)
    if progress.weight != _weight(split, step):
        return _at(split, step)  # somebody has edited the steps
    if not serves or route is None or route.status is not True:
        return progress
    if step and not progress.since:
        return replace(progress, since=timestamp(now))
    is_last = step > len(split.steps)
    return progress if is_last or not _is_over(split, now) else _at(split, step + 1)


def seconds_left(split: Split | None, now: datetime) -> float | None:
    """Seconds until the pause of this step is over; None where no time ends it."""
    left = _left(split, now) if split else None
    return left if left is not None and left > 0 else None


def standing(split: Split, route: Condition | None) -> Finding:
    """How far the canary has come, and what it waits for."""
    progress, steps = split.progress, split.steps
    sentence = f"canary {progress.revision} takes {split.weight} percent"
    if 0 < progress.step <= len(steps):
        sentence += f", step {progress.step} of {len(steps)}"
    if route and route.status is not True:
        return Finding(Reason.ROLLING_OUT, f"{sentence}; it waits: {route.finding.message}")
    pause = _pause(split)
    if progress.since and pause is None and progress.step <= len(steps):
        return Finding(
            Reason.AWAITING_APPROVAL, f"{sentence}, until you approve: {_command(split)}"
        )
    if progress.since and pause is not None:
        sentence += f", until {timestamp(_end(progress, pause))}"
    return Finding(Reason.ROLLING_OUT, sentence)


def stopped(
    split: Split | None, replicas: Sequence[Replica], observed: Observed
) -> Finding | None:
    """What befell a replica that served during a step and serves no more.

    That nobody answers the operator is no such thing: it may be the operator that is cut off. Nor
    is a pod that is gone, or one that has not served yet.
    """
    if split is None or split.progress.step == 0:
        return None
    before = _served(observed)
    for replica in replicas:
        served = replica.pod.name in before or _is_older(replica.pod, split.progress)
        if replica.current and served and _has_stopped(replica):
            why = replica.finding or Finding(Reason.POD_NOT_READY, f"pod {replica.pod.name}")
            return Finding(why.reason, f"it served at step {split.progress.step}: {why.message}")
    return None


def _has_stopped(replica: Replica) -> bool:
    said_no = replica.result is not None and replica.result.model_ready.verdict is False
    return not replica.serving and (said_no or not replica.pod.ready)


def _served(observed: Observed) -> set[str]:
    """Pods that the status says served."""
    entries = cast("list[dict[str, Any]]", observed.status.get("replicaStatuses") or [])
    return {
        str(entry["pod"]) for entry in entries if entry.get("ready") and entry.get("modelReady")
    }


def _is_older(pod: PodObserved, progress: CanaryProgress) -> bool:
    """Whether it was there when the step began, which took every wanted replica to serve."""
    return bool(progress.since) and pod.created < datetime.fromisoformat(progress.since)


def _at(split: Split, step: int) -> CanaryProgress:
    """The beginning of a step."""
    return CanaryProgress(split.progress.revision, step, _weight(split, step))


def _weight(split: Split, step: int) -> int:
    if step == 0:
        return 0
    return split.steps[step - 1].weight if step <= len(split.steps) else WHOLE


def _pause(split: Split) -> int | None:
    """Seconds that this step is to last; None where somebody has to approve, or it is none."""
    step = split.progress.step
    return split.steps[step - 1].pause_seconds if 0 < step <= len(split.steps) else None


def _is_over(split: Split, now: datetime) -> bool:
    """Whether the canary may go on from this step; before the first nothing is waited for."""
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
    """Whether the annotation names this step, or the revision for all that is left."""
    progress = split.progress
    return split.model.canary_approved in {progress.revision, _mark(progress)}


def _mark(progress: CanaryProgress) -> str:
    return f"{progress.revision}-{progress.step}"


def _command(split: Split) -> str:
    model, mark = split.model, _mark(split.progress)
    named = f"inferencemodel {model.name} -n {model.namespace}"
    return f"kubectl annotate {named} --overwrite {CANARY_APPROVED}={mark}"
