"""Decides when a changed status is written.

    plan.status --> is_urgent --> write, or reserve a write --> later: write

Changes that a user or an alert waits for are written at once. Mere progress (pods created,
containers started, one of two replicas ready) is written a little later, within a budget for all
models. Otherwise, a thousand models that start at once would write all their intermediate states,
and delay each other.
"""

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moorage_operator.api.conditions import ConditionType, find_condition
from moorage_operator.api.reasons import Trait, has
from moorage_operator.values.observed import ObjectKey

APART_SECONDS = 1.0
"""The minimum time between a status write of a model and one of mere progress."""

SOON_SECONDS = 0.1
"""The delay of mere progress. A server usually answers within it, which makes the write urgent."""

PROGRESS_A_SECOND = 10.0
PROGRESS_AT_ONCE = 20
"""The rate and the burst of the writes of mere progress, for all models together. Each takes about
5 ms of the API server's CPU time, as much as a child."""


def is_urgent(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the change of the status is more than progress. Pure.

    Such changes are a new generation of the spec, another status of Ready or UpToDate, a new
    failure, a step of a rollout, which is recorded before it is taken, and a condition that is no
    longer met for a reason that is not transient. The first status of a model is progress if the
    model only waits for its children.
    """
    if before and before.get("observedGeneration") != after.get("observedGeneration"):
        return True
    if before.get("lastFailure") != after.get("lastFailure"):
        return True
    if before and before.get("revisions") != after.get("revisions"):
        return True
    for condition in after.get("conditions") or ():
        known = find_condition(before, condition["type"])
        verdict = (condition["status"], condition["reason"])
        if verdict == (known.get("status"), known.get("reason")):
            continue
        decisive = condition["type"] in {ConditionType.READY, ConditionType.UP_TO_DATE}
        if decisive and condition["status"] != known.get("status", "False"):
            return True
        if condition["status"] != "True" and not has(condition["reason"], Trait.TRANSIENT):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _Reservation:
    """A token by its time, and the time from which the model may use it."""

    token: float
    due: float


class StatusPace:
    """A minimum interval per model, and a token bucket for all models.

    A token that is not needed after all goes to the next model that asks. Otherwise, an edit of an
    InferenceRuntime of many models that is undone at once, or many models that soon serve, would
    leave a reserved time in which nothing is written.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._free = -math.inf  # the time of the first token that was never reserved
        self._returned: list[float] = []  # a heap of tokens that were reserved and not used
        self._reserved: dict[ObjectKey, _Reservation] = {}
        self._written: dict[ObjectKey, float] = {}  # in the order of the writes

    def reserve(self, key: ObjectKey, *, is_first: bool) -> float:
        """Reserve a token to write progress, and return the seconds until its time.

        Args:
            key: The model.
            is_first: Whether the model has no status yet, so that its first one is not delayed.
        """
        now = self._clock()
        known = self._reserved.get(key)
        due = known.due if known else math.inf
        token = self._take(now, known.token if known else math.inf)
        if known is None or token < known.token:
            written = self._written.get(key, -math.inf)
            soon = now if is_first else now + SOON_SECONDS
            due = min(due, max(token, written + APART_SECONDS, soon))
            self._reserved[key] = _Reservation(token, due)
        return max(due - now, 0.0)

    def forget(self, key: ObjectKey) -> None:
        """Drop the reservation of a model whose status is up to date."""
        self._release(key, self._clock())

    def wrote(self, key: ObjectKey) -> None:
        """Record that the model's status was written."""
        now = self._clock()
        self._release(key, now)
        self._written.pop(key, None)
        self._written[key] = now
        while now - self._written[first := next(iter(self._written))] > APART_SECONDS:
            del self._written[first]

    def _take(self, now: float, held: float) -> float:
        """Return the earliest token in exchange for the one that is held, which is inf if none."""
        oldest = now - PROGRESS_AT_ONCE / PROGRESS_A_SECOND
        while self._returned and self._returned[0] < oldest:
            heapq.heappop(self._returned)
        if held < math.inf:
            return heapq.heappushpop(self._returned, held)
        if self._returned:
            return heapq.heappop(self._returned)
        token = max(self._free, oldest)
        self._free = token + 1 / PROGRESS_A_SECOND
        return token

    def _release(self, key: ObjectKey, now: float) -> None:
        """End the reservation of a model; its token is returned unless its time has come."""
        known = self._reserved.pop(key, None)
        if known and known.due > now:
            heapq.heappush(self._returned, known.token)
