"""The resolved models, so that a model is merged with its runtime once for each change."""

from collections.abc import Callable
from typing import Any

import msgspec

from moorage_operator.decide.runtimes.resolution import resolve
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.runtimes import Resolution, Runtimes, RuntimeState

from .runtime_turns import RuntimeTurns

__all__ = ["Resolutions"]


class Resolutions:
    """What each model is with its InferenceRuntime.

    Args:
        runtimes: Returns all runtimes.
        turns: Whose turn it is to follow an edited runtime.
    """

    def __init__(self, runtimes: Callable[[], Runtimes], turns: RuntimeTurns) -> None:
        self._runtimes = runtimes
        self._turns = turns
        self._known: dict[ObjectKey, tuple[ModelRecord, tuple[Any, ...], Resolution]] = {}

    def of(self, record: ModelRecord) -> Resolution:
        """Return the resolution of a model."""
        if not record.spec:
            self.forget(record.key)
            return Resolution(record.model)
        runtimes, may_follow = self._runtimes(), self._turns.may_follow(record.key)
        held = self._turns.held
        facts = (
            runtimes.version,
            may_follow,
            held,
            record.status.get("runtime"),
            record.status.get("revisions"),
        )
        if known := self._known.get(record.key):
            before, its_facts, resolution = known
            if before.model is record.model and its_facts == facts:
                return resolution
        spec = msgspec.json.decode(record.spec)
        resolution = resolve(
            record.model, spec, record.status, runtimes, may_follow=may_follow, held=held
        )
        if resolution.state == RuntimeState() and resolution.model is record.model:
            self.forget(record.key)
        else:
            self._known[record.key] = record, facts, resolution
        return resolution

    def forget(self, key: ObjectKey) -> None:
        """Forget a model."""
        self._known.pop(key, None)
