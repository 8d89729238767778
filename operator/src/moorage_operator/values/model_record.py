"""A model as read from the API server, parsed once for each edit; pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moorage_operator.api import v1alpha1
from moorage_operator.api.conditions import ConditionType, find_condition
from moorage_operator.api.reasons import Trait, has

from .observed import ObjectKey
from .runtimes import read_runtime_use

__all__ = ["ModelRecord"]


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """A version of an InferenceModel at the API server.

    Attributes:
        key: Its namespace and name.
        model: The parsed resource.
        resource_version: Its version.
        status: Its status.
        spec: Its spec as JSON, to merge it over an InferenceRuntime; empty if it takes none.
    """

    key: ObjectKey
    model: v1alpha1.InferenceModel
    resource_version: str
    status: Mapping[str, Any]
    spec: bytes = b""

    @property
    def ready(self) -> str:
        """The status of its condition Ready, "" without one.

        It is "Suspended" or "ScaledToZero" if that is the reason.
        """
        condition = find_condition(self.status, ConditionType.READY)
        reason = str(condition.get("reason", ""))
        return reason if has(reason, Trait.IDLE) else str(condition.get("status", ""))

    @property
    def runtime(self) -> str:
        """The name of its InferenceRuntime, "" without one."""
        use = read_runtime_use(self.status)
        return use.name if use else ""

    @property
    def is_outdated(self) -> bool:
        """Whether it has an older content than its runtime."""
        condition = find_condition(self.status, ConditionType.RUNTIME_UPDATE_PENDING)
        return condition.get("status") == "True"

    @property
    def awaits_route(self) -> bool:
        """Whether its route is not accepted, although replicas are wanted behind it."""
        condition = find_condition(self.status, ConditionType.ROUTE_ACCEPTED)
        is_accepted = condition.get("status", "True") == "True"
        return not is_accepted and not has(self.ready, Trait.IDLE)

    @property
    def is_stalled(self) -> bool:
        """Whether it has the condition Stalled, although replicas are wanted."""
        condition = find_condition(self.status, ConditionType.STALLED)
        return condition.get("status") == "True" and not has(self.ready, Trait.IDLE)
