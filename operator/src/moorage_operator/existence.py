"""Which models are known to exist, because something has said so a moment ago.

    watch of the models, status writes --> Existence --> apply: may a child be made?
                      children that went --------^

kopf may miss a deletion, so a model in the store may be gone. An event of it, or a status write
that succeeded, shows that it was there; for a while that spares asking the API server. When a
child goes, its model may have gone before it, and the news of that be still on its way.
"""

from collections.abc import Callable

__all__ = ["KNOWN_SECONDS", "Existence", "ModelGone"]

KNOWN_SECONDS = 300.0
"""A deletion that is not missed arrives within a second; after one that is, the garbage collector
takes what was made meanwhile, because its owner is gone. Of 10,000 models that are made at once
the last one waits for its Deployment so long."""


class ModelGone(Exception):
    """The InferenceModel does not exist any more; its pass ends here."""


class Existence:
    """When each model was last shown to exist, by uid.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: dict[str, float] = {}  # in the order of their times

    def saw(self, uid: str) -> None:
        """The model exists now."""
        now = self._clock()
        self._forget_old(now)
        self._seen.pop(uid, None)
        self._seen[uid] = now

    def doubt(self, uid: str) -> None:
        """The model may be gone: somebody has to ask."""
        self._seen.pop(uid, None)

    def is_known(self, uid: str) -> bool:
        """Whether the model existed a moment ago."""
        seen = self._seen.get(uid)
        return seen is not None and self._clock() - seen <= KNOWN_SECONDS

    def _forget_old(self, now: float) -> None:
        while self._seen:
            uid = next(iter(self._seen))
            if now - self._seen[uid] <= KNOWN_SECONDS:
                return
            del self._seen[uid]
