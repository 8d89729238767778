"""Whose turn it is to follow an edited InferenceRuntime with the policy Automatic.

    reconcile: waits for runtime R --> RuntimeTurns --> grant: its next reconcile follows

A turn lasts until the status of the model says that it follows; from then on the status counts. So
no more than `maxConcurrentRollouts` models follow at a time, even across a restart.
"""

from collections.abc import Iterable, Mapping

from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.decide.runtimes.fleet import User, held_by, holders, take_turns
from moorage_operator.values.observed import ObjectKey

__all__ = ["RuntimeTurns"]


class RuntimeTurns:
    """The models that wait, and those whose turn it is.

    Attributes:
        held: Why no turn comes, by the name of the runtime; absent if one may come.
    """

    def __init__(self) -> None:
        self.held: Mapping[str, str] = {}
        self._waiting: dict[ObjectKey, str] = {}  # names of runtimes
        self._granted: frozenset[ObjectKey] = frozenset()

    def wait(self, key: ObjectKey, runtime: str) -> None:
        """Record the runtime that a model waits to follow; "" if it waits for none."""
        if runtime:
            self._waiting[key] = runtime
        else:
            self.forget(key)

    def forget(self, key: ObjectKey) -> None:
        """Forget a model."""
        self._waiting.pop(key, None)
        self._granted -= {key}

    def may_follow(self, key: ObjectKey) -> bool:
        """Whether it is the model's turn."""
        return key in self._granted

    def grant(
        self, runtimes: Iterable[InferenceRuntime], users: Iterable[User]
    ) -> frozenset[ObjectKey]:
        """Grant turns; return the models that now follow or wait for something else."""
        listed = tuple(users)
        granted: set[ObjectKey] = set()
        held: dict[str, str] = {}
        for runtime in runtimes:
            waiting = {key for key, name in self._waiting.items() if name == runtime.name}
            granted |= take_turns(runtime, listed, waiting, self._granted & waiting)
            if why := held_by(holders(runtime, listed)):
                held[runtime.name] = why
        news = {key for key in granted if key not in self._granted}
        news |= {
            key for key, name in self._waiting.items() if held.get(name) != self.held.get(name)
        }
        self._granted, self.held = frozenset(granted), held
        return frozenset(news)
