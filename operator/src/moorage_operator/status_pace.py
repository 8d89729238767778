"""When a status is worth a write now, and when a little later.

    plan.status --> is_urgent --> write, or wait for the rest of a model's pause --> write

What a user or a pager waits for is written at once. How far a model has come on its way (pods
made, containers started, one of two replicas ready) is written at once too, but not again and
again within a second: a thousand models that start at once would otherwise write each state that
they pass through, and keep each other from being Ready.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .conditions import ConditionType, Reason, find_condition
from .state import ObjectKey

PAUSE_FIRST_SECONDS = 1.0
PAUSE_LAST_SECONDS = 8.0
FORGET_SECONDS = 2 * PAUSE_LAST_SECONDS
"""A model that was not written for so long begins again with the first pause."""

PASSING_REASONS = {
    Reason.PENDING,
    Reason.POD_NOT_READY,
    Reason.MODEL_LOADING,
    Reason.SERVER_NOT_LIVE,
    Reason.AWAITING_ANSWER,
    Reason.AWAITING_METADATA,
    Reason.ROLLING_OUT,
    Reason.RUNNING,
}
"""Ways that a model passes on its way up."""


def is_urgent(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the status says more than how far the model has come. Pure.

    That is: the first status, another spec, another verdict of Ready or UpToDate, a new failure,
    or a condition that has come to be against the model for a reason that will not pass.
    """
    if before.get("observedGeneration") != after.get("observedGeneration"):
        return True
    if before.get("lastFailure") != after.get("lastFailure"):
        return True
    for condition in after.get("conditions") or ():
        known = find_condition(before, condition["type"])
        verdict = (condition["status"], condition["reason"])
        if verdict == (known.get("status"), known.get("reason")):
            continue
        decisive = condition["type"] in {ConditionType.READY, ConditionType.UP_TO_DATE}
        if decisive and condition["status"] != known.get("status"):
            return True
        if condition["status"] != "True" and condition["reason"] not in PASSING_REASONS:
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Last:
    """A model's last write, and how long a pause follows it."""

    at: float
    pause: float


class StatusPace:
    """The pauses of models whose status was written lately.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[ObjectKey, _Last] = {}  # in the order of their writes

    def wait_seconds(self, key: ObjectKey) -> float:
        """How long a status that is not urgent has to wait."""
        last = self._last.get(key)
        return max(0.0, last.at + last.pause - self._clock()) if last else 0.0

    def wrote(self, key: ObjectKey, *, urgent: bool) -> None:
        """The model's status was written.

        After an urgent write, and after a while without any, the pause is 1 s; each write of mere
        progress doubles it, up to 8 s.
        """
        now = self._clock()
        self._forget_old(now)
        last = self._last.pop(key, None)
        longer = last is not None and not urgent
        pause = min(2 * last.pause, PAUSE_LAST_SECONDS) if last and longer else PAUSE_FIRST_SECONDS
        self._last[key] = _Last(now, pause)

    def _forget_old(self, now: float) -> None:
        while self._last:
            key = next(iter(self._last))
            if now - self._last[key].at < FORGET_SECONDS:
                return
            del self._last[key]
