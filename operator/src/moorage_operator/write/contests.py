"""Notices children that somebody changes or deletes after each write; pure, apart from the clock.

    children --> check --> apply --> wrote

The operator reverts manual edits at once, and creates deleted children again. Another program may
then write its own values once more, or delete the child once more, such as a second installation
of the operator, an autoscaler of the Deployment or a cleanup policy. Without a limit, both would
write many times a second. So a child is restored only so often, and the refusal says why.
"""

from collections.abc import Callable
from typing import NamedTuple

from moorage_operator.kube import errors

__all__ = ["TIMES", "WITHIN_SECONDS", "Contested", "Contests", "Place"]

CONTESTED = "Contested"
"""The reason of a refusal of a child that another program changes or deletes."""

TIMES = 10
WITHIN_SECONDS = 180.0
"""A child is restored at most ten times in three minutes: nobody edits by hand more often."""

KEPT = 4096
"""The number of children whose last writes are remembered."""


class Place(NamedTuple):
    """Identifies a child, also after it was deleted and created again.

    Attributes:
        uid: The uid of the model.
        kind: The kind of the child.
        name: The name of the child.
    """

    uid: str
    kind: str
    name: str


class Contested(errors.Forbidden):
    """Another program has changed or deleted the child too often."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"another program has changed or deleted {kind} {name!r} {TIMES} times within "
            f"{WITHIN_SECONDS / 60:.0f} minutes, so it is restored less often: look for the "
            "program in its managedFields, or in the API server's audit log if it was deleted; if "
            "they name only moorage, another installation of the operator serves this model",
            code=403,
            reason=CONTESTED,
        )


class Contests:
    """The last writes of children.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # The hash of the plan, and the times at which the same was written again.
        self._written: dict[Place, tuple[str, tuple[float, ...]]] = {}

    def check(self, child: Place, planned: str) -> None:
        """Check that a child may be created or changed.

        Args:
            child: The child.
            planned: The hash of its plan.

        Raises:
            Contested: The same was written too often.
        """
        known, again = self._written.get(child, ("", ()))
        if known != planned or len(again) < TIMES:
            return
        if self._clock() - again[0] < WITHIN_SECONDS:
            raise Contested(child.kind, child.name)

    def wrote(self, child: Place, planned: str) -> None:
        """Take note of a write."""
        known, again = self._written.pop(child, ("", ()))
        again = (*again, self._clock())[-TIMES:] if known == planned else ()
        self._written[child] = (planned, again)
        if len(self._written) > KEPT:
            del self._written[next(iter(self._written))]

    def forget(self, child: Place) -> None:
        """Take note that the operator itself has deleted a child."""
        self._written.pop(child, None)
