"""Whether a watch works: its last sign of life and its failures since then. Pure.

A stream without events proves nothing: a kind without objects may get neither events nor bookmarks
for hours. But the API server ends each watch after the requested time, so a working watch answers
a request at least that often.
"""

from collections.abc import Callable

__all__ = ["BROKEN_SECONDS", "Liveness"]

BROKEN_SECONDS = 120.0
"""A watch without a sign of life for this time is broken; longer than a watch with its grace."""

FAILING_SECONDS = 30.0
"""A watch whose requests fail for this time is broken; less would report every reconnect."""


class Liveness:
    """Whether one watch works.

    Methods may be called from any thread: each assigns single attributes.

    Args:
        resource: The watched resource, with its name in a Role.
        namespace: The namespace, "" for all.
        clock: Returns monotonic seconds.

    Attributes:
        failure: The message of the last failure, "" while the watch works.
    """

    def __init__(self, resource: str, namespace: str, clock: Callable[[], float]) -> None:
        self.resource = resource
        self.namespace = namespace
        self._clock = clock
        self._alive_at = clock()
        self.failure = ""
        self._refused_at: float | None = None

    def beat(self) -> None:
        """Record a sign of life: an answer, an event, or a regular end of the watch."""
        self._alive_at = self._clock()
        self.failure = ""
        self._refused_at = None

    def fail(self, message: str, *, refused: bool = False) -> None:
        """Record a failed request; `refused` if the API server denies access (403)."""
        self.failure = message
        if not refused:
            self._refused_at = None
        elif self._refused_at is None:
            self._refused_at = self._clock()

    def refused_seconds(self) -> float:
        """Return for how many seconds the API server has denied access; 0 if it does not."""
        return 0.0 if self._refused_at is None else self._clock() - self._refused_at

    def trouble(self) -> str:
        """Describe what is wrong with the watch, "" if nothing is."""
        silent = self._clock() - self._alive_at
        if silent <= (FAILING_SECONDS if self.failure else BROKEN_SECONDS):
            return ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        cause = self.failure or "the API server sends nothing"
        return f"the watch of {self.resource}{where} has been broken for {silent:.0f} s: {cause}"
