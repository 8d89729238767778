"""The autoscaler of a model: a HorizontalPodAutoscaler, or KEDA's ScaledObject.

Both set `spec.replicas` of the InferenceModel by its scale subresource, as `kubectl scale` does,
and the operator carries it out. So there is one writer of a Deployment's replicas, whatever the
rollout does with Deployments, and switching scaling on or off changes no number.
"""

from typing import Any

from moorage_operator import names
from moorage_operator.api.scaling import ScalingMetric
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.memo import by_identity

from .owned import make_owned

__all__ = ["AUTOSCALER", "KEDA_AUTOSCALER", "autoscaler_kind", "make_autoscaler"]

AUTOSCALER = "HorizontalPodAutoscaler"
KEDA_AUTOSCALER = "ScaledObject"


def autoscaler_kind(model: InferenceModel) -> str:
    """The kind that scales the model, "" where nothing does.

    A HorizontalPodAutoscaler asks no Prometheus, and never scales to zero or from there.
    """
    if not model.scaling.is_on or model.suspend:
        return ""
    of_keda = model.scaling.metric is ScalingMetric.PROMETHEUS
    return KEDA_AUTOSCALER if of_keda else AUTOSCALER


@by_identity
def make_autoscaler(model: InferenceModel) -> dict[str, Any]:
    """The child of the kind that `autoscaler_kind` says; only for a model that is scaled."""
    if autoscaler_kind(model) == KEDA_AUTOSCALER:
        return _make_scaled_object(model)
    spec: dict[str, Any] = {
        "scaleTargetRef": _target(model),
        "minReplicas": model.scaling.min_replicas,
        "maxReplicas": model.scaling.max_replicas,
        "metrics": [_metric(model)],
        "behavior": _behavior(model),
    }
    return make_owned(model, "autoscaling/v2", AUTOSCALER, names.autoscaler(model.name), spec)


def _make_scaled_object(model: InferenceModel) -> dict[str, Any]:
    scaling = model.scaling
    trigger = {
        "type": "prometheus",
        "metadata": {
            "serverAddress": scaling.prometheus.server_address,
            "query": scaling.prometheus.query,
            "threshold": str(scaling.target),
        },
    }
    spec: dict[str, Any] = {
        "scaleTargetRef": _target(model),
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        # KEDA itself only steps between none and one; the rest does the autoscaler that it makes.
        "cooldownPeriod": scaling.scale_down_after_seconds,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(model)}},
        "triggers": [trigger],
    }
    name = names.autoscaler(model.name)
    return make_owned(model, "keda.sh/v1alpha1", KEDA_AUTOSCALER, name, spec)


def _target(model: InferenceModel) -> dict[str, str]:
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": model.name}


def _behavior(model: InferenceModel) -> dict[str, Any]:
    """How a HorizontalPodAutoscaler moves; up it moves at once, as Kubernetes has it."""
    return {
        "scaleDown": {"stabilizationWindowSeconds": model.scaling.scale_down_after_seconds},
    }


def _metric(model: InferenceModel) -> dict[str, Any]:
    scaling = model.scaling
    if scaling.metric is ScalingMetric.PODS:
        target = {"type": "AverageValue", "averageValue": str(scaling.target)}
        return {
            "type": "Pods",
            "pods": {"metric": {"name": scaling.metric_name}, "target": target},
        }
    # Of the container, so that a sidecar without requests does not make it unknown.
    resource = {
        "name": str(scaling.metric).lower(),
        "container": names.RUNTIME_CONTAINER,
        "target": {"type": "Utilization", "averageUtilization": scaling.target},
    }
    return {"type": "ContainerResource", "containerResource": resource}
