"""The condition ScalingActive: whether what `spec.scaling` asks for is under way; pure.

It stands beside the conditions of `readiness` and blames nobody: a model whose autoscaler cannot
measure serves with the replicas that it has.
"""

from . import names
from .api.v1alpha1 import InferenceModel
from .conditions import Condition, ConditionType, Finding, Reason
from .resources.autoscaler import AUTOSCALER, KEDA_AUTOSCALER, autoscaler_kind
from .state import Observed
from .watched import ChildObserved, DeploymentCondition

__all__ = ["scaling_active"]

# The conditions of an autoscaler that must be true for it to work, in the order of blame.
WORKING = {AUTOSCALER: ("AbleToScale", "ScalingActive"), KEDA_AUTOSCALER: ("Ready",)}


def scaling_active(model: InferenceModel, observed: Observed) -> Condition | None:
    """The condition; None where the spec asks for no scaling."""
    if not model.scaling.is_on or model.problems:
        return None
    status, finding = _decided(model, observed)
    return Condition(ConditionType.SCALING_ACTIVE, status=status, finding=finding)


def _decided(model: InferenceModel, observed: Observed) -> tuple[bool | None, Finding]:
    kind = autoscaler_kind(model)
    if not kind:
        return False, Finding(Reason.SUSPENDED, "spec.suspend is true: there is nothing to scale")
    if kind == KEDA_AUTOSCALER and kind not in observed.available_kinds:
        sentence = (
            "scaling by Prometheus needs KEDA, and this cluster does not serve its ScaledObject "
            "(keda.sh/v1alpha1) to the operator: install KEDA, or set scaling.metric to CPU, "
            f"Memory or Pods; until then {model.desired_replicas} replicas run"
        )
        return False, Finding(Reason.AUTOSCALER_MISSING, sentence)
    found = observed.children.get((kind, names.autoscaler(model.name)))
    conditions = found.conditions if isinstance(found, ChildObserved) else ()
    return _working(model, kind, conditions)


def _working(
    model: InferenceModel, kind: str, conditions: tuple[DeploymentCondition, ...]
) -> tuple[bool | None, Finding]:
    by_type = {condition.type: condition for condition in conditions}
    wanted = [by_type.get(type_) for type_ in WORKING[kind]]
    for condition in wanted:
        if condition and condition.status is False:
            sentence = f"the {kind} cannot scale: {condition.reason}: {condition.message}"
            return False, Finding(Reason.AUTOSCALER_FAILING, sentence)
    if not all(condition and condition.status for condition in wanted):
        return None, Finding(Reason.AWAITING_AUTOSCALER, f"the {kind} has not measured yet")
    scaling = model.scaling
    sentence = f"the {kind} keeps {scaling.min_replicas} to {scaling.max_replicas} replicas"
    return True, Finding(Reason.AUTOSCALER_ACTIVE, sentence)
