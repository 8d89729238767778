"""The models of an InferenceRuntime: how many there are, and which may follow an edit; pure.

statuses of models --> user_of --> User --> count, take_turns, runtime_status
changed runtimes, models --> concerned --> models to reconcile
"""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from moorage_operator.api import conditions
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.inference_runtime import InferenceRuntime, UpdatePolicy
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.runtimes import Runtimes, read_runtime_use

from .selection import could_use, defaults_at_once

__all__ = ["User", "concerned", "runtime_status", "take_turns", "user_of"]


@dataclass(frozen=True, slots=True)
class User:
    """A model that uses a runtime, as its status reports it.

    Attributes:
        key: The model.
        runtime: The name of the runtime.
        is_outdated: Whether the model would get another content than it has.
        is_up_to_date: Whether its last rollout is complete.
        is_following: Whether that rollout is not complete and follows an edit of the runtime.
    """

    key: ObjectKey
    runtime: str
    is_outdated: bool
    is_up_to_date: bool
    is_following: bool = False

    @property
    def is_moving(self) -> bool:
        """Whether the model takes one of the places of its runtime."""
        return self.is_following or not (self.is_outdated or self.is_up_to_date)


def concerned(
    models: Iterable[ModelRecord], changed: Collection[InferenceRuntime]
) -> frozenset[ObjectKey]:
    """Return the models that use or could use one of these runtimes."""
    names = {each.name for each in changed}
    return frozenset(
        model.key
        for model in models
        if ((use := read_runtime_use(model.status)) and use.name in names)
        or any(could_use(model.model, each) for each in changed)
    )


def user_of(key: ObjectKey, status: Mapping[str, Any]) -> User | None:
    """Read a model from its status; None if it uses no runtime."""
    use = read_runtime_use(status)
    if use is None:
        return None
    pending = conditions.find_condition(status, ConditionType.RUNTIME_UPDATE_PENDING)
    up_to_date = conditions.find_condition(status, ConditionType.UP_TO_DATE)
    return User(
        key,
        use.name,
        is_outdated=pending.get("status") == "True",
        is_up_to_date=up_to_date.get("status") == "True",
        is_following=use.is_following,
    )


def take_turns(
    runtime: InferenceRuntime,
    users: Iterable[User],
    waiting: Collection[ObjectKey],
    granted: AbstractSet[ObjectKey],
) -> frozenset[ObjectKey]:
    """Return the waiting models that may follow the runtime now.

    A model that has the newest content and is not up to date takes a place, whatever the cause: if
    the new content fails, no further model gets it. If the runtime is edited again meanwhile, a
    model that followed keeps its place and follows again in it. A turn that was granted stays
    until its model no longer waits. Other models that are not up to date go last, so that a
    broken one does not stop the rest.

    Args:
        runtime: The runtime.
        users: All models that use a runtime.
        waiting: The models that wait to follow this one.
        granted: Those of them whose turn it is already.
    """
    if runtime.update_policy is not UpdatePolicy.AUTOMATIC:
        return frozenset()
    known = {each.key: each for each in users}
    moving = {
        each.key for each in known.values() if each.runtime == runtime.name and each.is_moving
    }
    kept = frozenset(waiting) & (moving | granted)
    free = runtime.max_concurrent_rollouts - len(moving | kept)

    def order(key: ObjectKey) -> tuple[bool, ObjectKey]:
        user = known.get(key)
        return bool(user and not user.is_up_to_date), key

    next_ones = sorted((key for key in waiting if key not in kept), key=order)
    return kept | frozenset(next_ones[: max(free, 0)])


def runtime_status(
    runtime: InferenceRuntime,
    runtimes: Runtimes,
    users: Iterable[User],
    previous: Mapping[str, Any],
    now: datetime,
) -> dict[str, Any]:
    """Build the status of a runtime.

    Args:
        runtime: The runtime.
        runtimes: All runtimes.
        users: All models that use a runtime.
        previous: The status at the API server.
        now: The current time, aware.
    """
    mine = [each for each in users if each.runtime == runtime.name]
    return {
        "observedGeneration": runtime.generation,
        "models": len(mine),
        "outdatedModels": sum(1 for each in mine if each.is_outdated),
        "conditions": conditions.written(
            [_accepted(runtime, runtimes)], previous, generation=runtime.generation, now=now
        ),
    }


def _accepted(runtime: InferenceRuntime, runtimes: Runtimes) -> Condition:
    if runtime.problems:
        sentences = "; ".join(map(str, runtime.problems))
        finding = Finding(Reason.INVALID_SPEC, sentences)
        return Condition(ConditionType.ACCEPTED, status=False, finding=finding)
    if others := defaults_at_once(runtime, runtimes):
        sentence = (
            f"spec.default: true is also set in {', '.join(others)}, so models that name no "
            "runtime are refused; set it in one of them, or restrict allowedNamespaces"
        )
        finding = Finding(Reason.SEVERAL_DEFAULTS, sentence)
        return Condition(ConditionType.ACCEPTED, status=False, finding=finding)
    valid = Finding(Reason.VALID, "the spec is valid")
    return Condition(ConditionType.ACCEPTED, status=True, finding=valid)
