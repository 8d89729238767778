"""Monitors kopf: its requests, the liveness of its watch in each namespace, and its heartbeat."""

from collections.abc import Callable, Sequence

from moorage_operator.kube import kinds
from moorage_operator.kube.liveness import Liveness

__all__ = ["TICK_SECONDS", "ModelWatch"]

TICK_SECONDS = 5.0
"""The interval of kopf's heartbeat."""

STUCK_SECONDS = 60.0
"""After this time without a heartbeat, kopf's event loop, which is otherwise idle, is stuck."""


class ModelWatch:
    """Shared by kopf's thread, which writes, and the operator's loop, which reads.

    Args:
        namespaces: The namespaces to serve; none means all.
        clock: Returns monotonic seconds.

    Attributes:
        livenesses: The liveness of the watch in each namespace, "" for all.
        has_asked: Whether kopf has asked for models since its start.
    """

    def __init__(self, namespaces: Sequence[str], clock: Callable[[], float]) -> None:
        kind = kinds.INFERENCE_MODELS
        self.livenesses = {
            namespace: Liveness(kind.rbac_name, namespace, clock)
            for namespace in namespaces or [""]
        }
        self.has_asked = False
        self._clock = clock
        self._ticked_at: float | None = None

    def begin(self) -> None:
        """Expect a request and heartbeats, because kopf starts."""
        self.has_asked = False
        self.tick()

    def ask(self) -> None:
        """Record a request for models."""
        self.has_asked = True

    def tick(self) -> None:
        """Record a heartbeat of kopf's event loop."""
        self._ticked_at = self._clock()

    def stop(self) -> None:
        """Stop expecting heartbeats, because kopf has ended."""
        self._ticked_at = None

    def trouble(self) -> str:
        """Describe a problem that a restart of the process would fix, "" if there is none."""
        if self._ticked_at is None or self._clock() - self._ticked_at <= STUCK_SECONDS:
            return ""
        return "the event loop that watches the models is stuck"
