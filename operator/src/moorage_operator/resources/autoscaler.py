"""The autoscaler of a model: a HorizontalPodAutoscaler, or KEDA's ScaledObject.

Both set `spec.replicas` of the InferenceModel through its scale subresource, as `kubectl scale`
does, and the operator updates the Deployment. So only the operator writes the replicas of a
Deployment, and enabling or disabling autoscaling does not change their number.
"""

from typing import Any

from moorage_operator.api import names
from moorage_operator.api.scaling import MetricType, ScalingMetric
from moorage_operator.api.v1alpha1 import InferenceModel

from .owned import make_owned

__all__ = ["AUTOSCALER", "KEDA_AUTOSCALER", "autoscaler_kind", "make_autoscaler"]

AUTOSCALER = "HorizontalPodAutoscaler"
KEDA_AUTOSCALER = "ScaledObject"


def autoscaler_kind(model: InferenceModel) -> str:
    """Return the kind of the model's autoscaler, "" without one.

    A HorizontalPodAutoscaler cannot query Prometheus and cannot scale to or from zero.
    """
    if not model.scaling.is_on or model.suspend:
        return ""
    return KEDA_AUTOSCALER if model.scaling.has(MetricType.PROMETHEUS) else AUTOSCALER


def make_autoscaler(model: InferenceModel) -> dict[str, Any]:
    """Build the autoscaler of a model with autoscaling, of the kind from `autoscaler_kind`."""
    if autoscaler_kind(model) == KEDA_AUTOSCALER:
        return _make_scaled_object(model)
    spec: dict[str, Any] = {
        "scaleTargetRef": _target(model),
        "minReplicas": model.scaling.min_replicas,
        "maxReplicas": model.scaling.max_replicas,
        "metrics": [_make_metric(metric) for metric in model.scaling.metrics],
        "behavior": _behavior(model),
    }
    return make_owned(model, "autoscaling/v2", AUTOSCALER, names.autoscaler(model.name), spec)


def _make_scaled_object(model: InferenceModel) -> dict[str, Any]:
    scaling = model.scaling
    spec: dict[str, Any] = {
        "scaleTargetRef": _target(model),
        "minReplicaCount": scaling.min_replicas,
        "maxReplicaCount": scaling.max_replicas,
        # KEDA itself only scales between zero and one; above that, the autoscaler it creates does.
        "cooldownPeriod": scaling.scale_down_after_seconds,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior(model)}},
        "triggers": [_make_trigger(metric) for metric in scaling.metrics],
    }
    name = names.autoscaler(model.name)
    return make_owned(model, "keda.sh/v1alpha1", KEDA_AUTOSCALER, name, spec)


def _target(model: InferenceModel) -> dict[str, str]:
    return {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": model.name}


def _behavior(model: InferenceModel) -> dict[str, Any]:
    """Return the scaling behavior; scaling up is immediate, the default of Kubernetes."""
    return {
        "scaleDown": {"stabilizationWindowSeconds": model.scaling.scale_down_after_seconds},
    }


def _make_metric(metric: ScalingMetric) -> dict[str, Any]:
    """Build a metric of a HorizontalPodAutoscaler."""
    if metric.type is MetricType.PODS:
        target = {"type": "AverageValue", "averageValue": str(metric.target)}
        return {"type": "Pods", "pods": {"metric": {"name": metric.name}, "target": target}}
    # The metric of the container, because a sidecar without requests would make it unknown.
    resource = {
        "name": metric.type.lower(),
        "container": names.RUNTIME_CONTAINER,
        "target": {"type": "Utilization", "averageUtilization": metric.target},
    }
    return {"type": "ContainerResource", "containerResource": resource}


def _make_trigger(metric: ScalingMetric) -> dict[str, Any]:
    """Build a trigger of a ScaledObject; KEDA has none for type Pods, which `api` rejects."""
    if metric.type is MetricType.PROMETHEUS:
        metadata = {
            "serverAddress": metric.server_address,
            "query": metric.query,
            "threshold": str(metric.target),
        }
        return {"type": "prometheus", "metadata": metadata}
    return {
        "type": metric.type.lower(),
        "metricType": "Utilization",
        "metadata": {"value": str(metric.target), "containerName": names.RUNTIME_CONTAINER},
    }
