"""When a status is worth a write now, and when a little later.

    plan.status --> is_urgent --> write, or wait for the rest of a model's pause --> write

What a user or a pager waits for is written at once. How far a model has come on its way (pods
made, containers started, one of two replicas ready) is written at once too, but not again and
again within a second, and for all models together within a budget: a thousand models that start at
once would otherwise write each state that they pass through, and keep each other from being Ready.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .conditions import ConditionType, Reason, find_condition
from .state import ObjectKey

PAUSE_FIRST_SECONDS = 1.0
PAUSE_LAST_SECONDS = 8.0
FORGET_SECONDS = 2 * PAUSE_LAST_SECONDS
"""A model that was not written for so long begins again with the first pause."""

PROGRESS_A_SECOND = 25.0
PROGRESS_AT_ONCE = 20
"""Writes of mere progress, of all models together. Each costs the API server some 5 ms of CPU
time, as much as a child."""

PROGRESS_APART = 4
"""Mere progress comes as far apart as so many statuses take to write, one after the other: what is
written most often is the first that a busy API server is spared."""

LATENCY_WEIGHT = 1 / 8

FAR_SECONDS = PAUSE_LAST_SECONDS
"""Whose turn is farther away looks again half way: most of those ahead come to be Ready meanwhile,
and need theirs no more."""

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

    That is: another spec, another verdict of Ready or UpToDate, a new failure, or a condition that
    has come to be against the model for a reason that will not pass. A first status says so much
    of a model that is new; that one waits for its children alone is progress.
    """
    if before and before.get("observedGeneration") != after.get("observedGeneration"):
        return True
    if before.get("lastFailure") != after.get("lastFailure"):
        return True
    for condition in after.get("conditions") or ():
        known = find_condition(before, condition["type"])
        verdict = (condition["status"], condition["reason"])
        if verdict == (known.get("status"), known.get("reason")):
            continue
        decisive = condition["type"] in {ConditionType.READY, ConditionType.UP_TO_DATE}
        if decisive and condition["status"] != known.get("status", "False"):
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

    Attributes:
        clock: The same.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._latency = 0.0
        self._free = -math.inf  # when the first turn is that nobody has had
        self._last: dict[ObjectKey, _Last] = {}  # in the order of their writes
        self._waiting: dict[ObjectKey, None] = {}  # in the order of their turns

    def wait_seconds(self, key: ObjectKey) -> float:
        """How long a status that is not urgent has to wait; where it does, its place is kept."""
        now = self.clock()
        last = self._last.get(key)
        rested = last.at + last.pause if last else now
        self._waiting.setdefault(key)
        spacing = max(1 / PROGRESS_A_SECOND, PROGRESS_APART * self._latency)
        # Turns that came while their models rested are still theirs; others lapse.
        kept = PROGRESS_AT_ONCE + len(self._waiting) - 1
        first = max(self._free, now - kept * spacing)
        ahead = next(place for place, each in enumerate(self._waiting) if each == key)
        wait = max(rested, first + ahead * spacing) - now
        if wait > 0:
            return wait / 2 if wait > FAR_SECONDS else wait
        self._free = first + spacing
        del self._waiting[key]
        return 0.0

    def forget(self, key: ObjectKey) -> None:
        """The model has nothing to write any more: those behind it move up."""
        self._waiting.pop(key, None)

    def wrote(self, key: ObjectKey, *, urgent: bool, seconds: float) -> None:
        """The model's status was written, within so many seconds.

        After an urgent write, and after a while without any, the pause is 1 s; each write of mere
        progress doubles it, up to 8 s.
        """
        now = self.clock()
        self._forget_old(now)
        self.forget(key)
        self._latency += (seconds - self._latency) * LATENCY_WEIGHT
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
