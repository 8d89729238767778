"""The models of an InferenceRuntime: how many there are, and which may follow an edit; pure.

models, their statuses --> user_of --> User --> count, take_turns, holders, runtime_status
changed runtimes, models --> concerned --> models to reconcile
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
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

__all__ = ["User", "concerned", "held_by", "holders", "runtime_status", "take_turns", "user_of"]

HOLDERS_LIMIT = 3
"""The number of models that a message lists."""


@dataclass(frozen=True, slots=True)
class User:
    """A model that uses a runtime, as its spec and its status report it.

    Attributes:
        key: The model.
        runtime: The name of the runtime.
        is_outdated: Whether the model would get another content than it has.
        is_up_to_date: Whether its last rollout is complete.
        is_following: Whether that rollout is not complete and follows an edit of the runtime.
        is_stopped: Whether the user stopped it: it is paused, suspended or being deleted.
        obstacle: The reason why its rollout does not continue by itself; "" if it does.
        detail: The message of that reason.
    """

    key: ObjectKey
    runtime: str
    is_outdated: bool
    is_up_to_date: bool
    is_following: bool = False
    is_stopped: bool = False
    obstacle: str = ""
    detail: str = ""

    @property
    def is_moving(self) -> bool:
        """Whether the model takes one of the places of its runtime."""
        if self.is_stopped:
            return False
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


def user_of(record: ModelRecord) -> User | None:
    """Read a model from its spec and its status; None if it uses no runtime."""
    status, spec = record.status, record.model
    use = read_runtime_use(status)
    if use is None:
        return None
    pending = conditions.find_condition(status, ConditionType.RUNTIME_UPDATE_PENDING)
    up_to_date = conditions.find_condition(status, ConditionType.UP_TO_DATE)
    obstacle = _obstacle(status)
    return User(
        record.key,
        use.name,
        is_outdated=pending.get("status") == "True",
        is_up_to_date=up_to_date.get("status") == "True",
        is_following=use.is_following,
        is_stopped=spec.paused or spec.suspend or spec.deleting,
        obstacle=str(obstacle.get("reason", "")),
        detail=str(obstacle.get("message", "")),
    )


def _obstacle(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition that says why a rollout waits for a user; {} if it does not."""
    stalled = conditions.find_condition(status, ConditionType.STALLED)
    if stalled.get("status") == "True":
        return stalled
    up_to_date = conditions.find_condition(status, ConditionType.UP_TO_DATE)
    return up_to_date if up_to_date.get("reason") == Reason.AWAITING_APPROVAL else {}


def take_turns(
    runtime: InferenceRuntime,
    users: Iterable[User],
    waiting: Collection[ObjectKey],
    granted: AbstractSet[ObjectKey],
) -> frozenset[ObjectKey]:
    """Return the waiting models that may follow the runtime now.

    A model that has the newest content and is not up to date takes a place, whatever the cause: if
    the new content fails, no further model gets it. Only a model that its user stopped takes none,
    because its rollout cannot show anything. If the runtime is edited again meanwhile, a
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
    moving = frozenset(
        each.key for each in known.values() if each.runtime == runtime.name and each.is_moving
    )
    kept = (moving | granted) & frozenset(waiting)
    free = runtime.max_concurrent_rollouts - len(moving | kept)

    def order(key: ObjectKey) -> tuple[bool, ObjectKey]:
        user = known.get(key)
        return bool(user and not user.is_up_to_date), key

    next_ones = sorted((key for key in waiting if key not in kept), key=order)
    return kept | frozenset(next_ones[: max(free, 0)])


def holders(runtime: InferenceRuntime, users: Iterable[User]) -> tuple[User, ...]:
    """Return the models that take all places and do not continue by themselves.

    While there are any, no other model follows. This is intended: an edit that breaks a model must
    not reach the others.
    """
    if runtime.update_policy is not UpdatePolicy.AUTOMATIC:
        return ()
    mine = [each for each in users if each.runtime == runtime.name]
    stuck = sorted(
        (each for each in mine if each.is_moving and each.obstacle), key=lambda each: each.key
    )
    waits = any(each.is_outdated and not (each.is_moving or each.is_stopped) for each in mine)
    return tuple(stuck) if waits and len(stuck) >= runtime.max_concurrent_rollouts else ()


def held_by(found: Sequence[User], *, is_detailed: bool = False) -> str:
    """Say which models hold an update, and what to do; "" without any.

    Args:
        found: The models.
        is_detailed: Whether to quote the messages of the models. Models of other namespaces are
            only named, because their users may not read them.
    """
    if not found:
        return ""
    listed = "; ".join(_named(each, is_detailed=is_detailed) for each in found[:HOLDERS_LIMIT])
    if len(found) > HOLDERS_LIMIT:
        listed += f"; and {len(found) - HOLDERS_LIMIT} more models"
    what = "it" if len(found) == 1 else "them"
    fix = f"correct the InferenceRuntime or the model, or set spec.paused to true in {what}"
    return f"update held: {listed}; {fix} so that other models follow"


def _named(user: User, *, is_detailed: bool) -> str:
    does = (
        "waits for approval"
        if user.obstacle == Reason.AWAITING_APPROVAL
        else f"failed with {user.obstacle}"
    )
    sentence = f"model {user.key.namespace}/{user.key.name} {does}"
    return f"{sentence}: {user.detail}" if is_detailed else sentence


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
    found = [_accepted(runtime, runtimes)]
    if held := held_by(holders(runtime, mine), is_detailed=True):
        finding = Finding(Reason.AWAITING_MODEL, held)
        found.append(Condition(ConditionType.UPDATE_HELD, status=True, finding=finding))
    return {
        "observedGeneration": runtime.generation,
        "models": len(mine),
        "outdatedModels": sum(1 for each in mine if each.is_outdated),
        "conditions": conditions.written(found, previous, generation=runtime.generation, now=now),
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
