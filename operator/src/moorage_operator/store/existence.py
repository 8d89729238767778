"""The models that are known to exist, from recent evidence.

    watch of the models, status writes --> Existence --> write.children: may a child be created?
                        deleted children ------^

kopf may miss a deletion, so a model in the store may not exist. A watch event or a successful
status write proves that it existed, and saves a request to the API server for a while. If a child
is deleted, its model may have been deleted before, and its event may still be on the way.
"""

from collections.abc import Callable

__all__ = ["KNOWN_SECONDS", "Existence", "ModelDropped", "ModelGone"]

KNOWN_SECONDS = 300.0
"""How long evidence is valid. The event of a deletion arrives within a second. If it is missed,
the garbage collector deletes the children that were created meanwhile. Of 10,000 models that are
created at once, the last one waits this long for its Deployment."""


class ModelGone(Exception):
    """The InferenceModel no longer exists, so its reconcile ends.

    Attributes:
        version: Of a list that lacks it, if it may only have left the label selector for a while.
    """

    def __init__(self, version: str = "") -> None:
        super().__init__()
        self.version = version


class ModelDropped(ModelGone):
    """The store has dropped the InferenceModel since its reconcile began.

    The store may have it again by the time the reconcile ends, if it only left the label selector.
    """


class Existence:
    """The time of the last evidence for each model, by uid.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # in the order of their times

    def saw(self, uid: str) -> None:
        """Record that the model exists now."""
        now = self._clock()
        self._forget_old(now)
        self._seen.pop(uid, None)
        self._seen[uid] = now

    def doubt(self, uid: str) -> None:
        """Discard the evidence, so that the API server is asked."""
        self._seen.pop(uid, None)

    def is_known(self, uid: str) -> bool:
        """Whether there is recent evidence of the model."""
        seen = self._seen.get(uid)
        return seen is not None and self._clock() - seen <= KNOWN_SECONDS

    def _forget_old(self, now: float) -> None:
        while self._seen:
            uid = next(iter(self._seen))
            if now - self._seen[uid] <= KNOWN_SECONDS:
                return
            del self._seen[uid]
