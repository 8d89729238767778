"""When a status is worth a write now, and when a little later.

    plan.status --> is_urgent --> write, or rest, or stand in the line --> wake --> write

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

PROGRESS_APART_SECONDS = 1.0
"""At most, so that no minutes of silence follow a moment in which writes took half a minute."""

LATENCY_WEIGHT = 1 / 8

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
    """The pauses of models whose status was written lately, and the line of those that wait.

    Args:
        clock: Monotonic seconds.
        call_later: Calls a function after some seconds, as the event loop's does.
        wake: Has a model looked at whose turn has come.

    Attributes:
        clock: The same.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        call_later: Callable[[float, Callable[[], None]], object],
        wake: Callable[[ObjectKey], None],
    ) -> None:
        self.clock = clock
        self._call_later = call_later
        self._wake = wake
        self._latency = 0.0
        self._free = -math.inf  # when the first turn is that nobody has had
        self._last: dict[ObjectKey, _Last] = {}  # in the order of their writes
        self._line: dict[ObjectKey, None] = {}  # in the order of their turns
        self._turns: set[ObjectKey] = set()
        self._is_timed = False

    def wait_seconds(self, key: ObjectKey) -> float | None:
        """How long a status that is not urgent has to wait; None: until its model is woken."""
        now = self.clock()
        last = self._last.get(key)
        rest = last.at + last.pause - now if last else 0.0
        if rest > 0:
            return rest
        if key not in self._turns and (self._line or not self._take_turn(now)):
            self._line.setdefault(key)
            self._time()
            return None
        self._turns.discard(key)
        return 0.0

    def forget(self, key: ObjectKey) -> None:
        """The model has nothing to write any more: those behind it move up."""
        self._line.pop(key, None)
        self._turns.discard(key)

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

    def _take_turn(self, now: float) -> bool:
        """Whether there is a turn now; it is taken."""
        spacing = self._spacing()
        turn = max(self._free, now - PROGRESS_AT_ONCE * spacing)
        if turn > now:
            return False
        self._free = turn + spacing
        return True

    def _time(self) -> None:
        """Have the first in the line woken when the next turn comes, unless that is arranged."""
        if self._line and not self._is_timed:
            self._is_timed = True
            self._call_later(max(self._free - self.clock(), 0.0), self._turn)

    def _turn(self) -> None:
        self._is_timed = False
        while self._line and self._take_turn(self.clock()):
            key = next(iter(self._line))
            del self._line[key]
            self._turns.add(key)
            self._wake(key)
        self._time()

    def _spacing(self) -> float:
        apart = min(PROGRESS_APART * self._latency, PROGRESS_APART_SECONDS)
        return max(1 / PROGRESS_A_SECOND, apart)

    def _forget_old(self, now: float) -> None:
        while self._last:
            key = next(iter(self._last))
            if now - self._last[key].at < FORGET_SECONDS:
                return
            del self._last[key]
