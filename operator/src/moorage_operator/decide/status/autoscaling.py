"""The condition ScalingActive: whether the autoscaler of `spec.scaling` works; pure.

It is independent of the other conditions and never explains Ready: a model whose autoscaler cannot
measure keeps its replicas.
"""

from moorage_operator.api import names
from moorage_operator.api.conditions import Condition, ConditionType, Finding, Reason
from moorage_operator.api.rights import may_not_read
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.resources.autoscaler import AUTOSCALER, KEDA_AUTOSCALER, autoscaler_kind
from moorage_operator.values.objects import ChildObserved, DeploymentCondition
from moorage_operator.values.observed import Observed

__all__ = ["scaling_active"]

# The conditions that must be true for an autoscaler to work; the first false one is reported.
WORKING = {AUTOSCALER: ("AbleToScale", "ScalingActive"), KEDA_AUTOSCALER: ("Ready",)}


def scaling_active(model: InferenceModel, observed: Observed) -> Condition | None:
    """Decide the condition; None if the spec requests no scaling."""
    if not model.scaling.is_on or model.problems:
        return None
    status, finding = _decided(model, observed)
    return Condition(ConditionType.SCALING_ACTIVE, status=status, finding=finding)


def _decided(model: InferenceModel, observed: Observed) -> tuple[bool | None, Finding]:
    kind = autoscaler_kind(model)
    if not kind:
        return False, Finding(Reason.SUSPENDED, "spec.suspend is true: there is nothing to scale")
    if kind in observed.unreadable_kinds:
        return None, Finding(Reason.READ_FORBIDDEN, may_not_read(kind, model.namespace))
    if kind == KEDA_AUTOSCALER and kind not in observed.available_kinds:
        sentence = (
            "a metric of type Prometheus requires KEDA, but the operator finds no ScaledObject "
            "(keda.sh/v1alpha1) in this cluster: install KEDA, or use only types CPU, Memory and "
            f"Pods in spec.scaling.metrics; until then {model.desired_replicas} replicas run"
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
            if model.replicas == 0 and kind == AUTOSCALER:  # which never changes a size of 0
                least = model.scaling.min_replicas
                sentence += f"; set spec.replicas to {least} or more: until then no replica runs"
            return False, Finding(Reason.AUTOSCALER_FAILING, sentence)
    if not all(condition and condition.status for condition in wanted):
        return None, Finding(Reason.AWAITING_AUTOSCALER, f"the {kind} has not measured yet")
    scaling = model.scaling
    sentence = f"the {kind} keeps {scaling.min_replicas} to {scaling.max_replicas} replicas"
    return True, Finding(Reason.AUTOSCALER_ACTIVE, sentence)
