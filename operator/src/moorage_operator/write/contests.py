"""Notices children that somebody changes again after each write; pure, apart from the clock.

    children --> check --> apply --> wrote

The operator reverts manual edits at once. Another program may then write its own values again,
such as a second installation of the operator or an autoscaler of the Deployment. Without a limit,
both would write several times a second. So a child is reverted only so often, and the refusal says
why.
"""

from collections import deque
from collections.abc import Callable

from moorage_operator.kube import errors

__all__ = ["REVERTS", "WITHIN_SECONDS", "Contests"]

REVERTS = 10
WITHIN_SECONDS = 180.0
"""A child is reverted at most ten times in three minutes: nobody edits by hand more often."""

KEPT = 4096
"""The number of children whose last changes are remembered."""


class Contests:
    """The last changes of children.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # By uid: the hash of the plan, and the times at which the same was written again.
        self._written: dict[str, tuple[str, deque[float]]] = {}

    def check(self, uid: str, planned: str) -> None:
        """Check that a child may be changed.

        Args:
            uid: The child.
            planned: The hash of its plan.

        Raises:
            Forbidden: The same was written too often.
        """
        last = self._written.get(uid)
        if last is None:
            return
        known, again = last
        if known != planned or len(again) < REVERTS:
            return
        if self._clock() - again[0] < WITHIN_SECONDS:
            raise errors.Forbidden(
                f"another program has changed it {REVERTS} times within "
                f"{WITHIN_SECONDS / 60:.0f} minutes, so it is reverted less often; its "
                "managedFields name the program; if they name only moorage, another installation "
                "of the operator serves this model",
                code=403,
            )

    def wrote(self, uid: str, planned: str) -> None:
        """Take note of a change."""
        known, again = self._written.pop(uid, ("", deque[float](maxlen=REVERTS)))
        if known == planned:
            again.append(self._clock())
        else:
            again = deque[float](maxlen=REVERTS)
        self._written[uid] = (planned, again)
        if len(self._written) > KEPT:
            del self._written[next(iter(self._written))]
