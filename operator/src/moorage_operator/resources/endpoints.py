"""Where a model answers: the paths of its protocol, what the spec puts in their place, its URLs.

The probes, the polling targets and the status all take their paths from here, so that the kubelet,
the operator and the user ask the same places. A later protocol adds its paths here.

Source: Open Inference Protocol V2, HTTP/REST, sections "Health" and "Model Metadata".
"""

from urllib.parse import quote

from moorage_operator import names
from moorage_operator.api.v1alpha1 import InferenceModel, ReadinessTarget, Transport
from moorage_operator.config import OperatorConfig

__all__ = [
    "is_bundled",
    "kubelet_ready_path",
    "live_path",
    "metadata_path",
    "model_ready_path",
    "ready_path",
    "urls",
]

SERVER_PATH = "/v2"


def is_bundled(model: InferenceModel, config: OperatorConfig) -> bool:
    """Whether the pods run the bundled runtime, whose health service the operator knows."""
    return model.runtime.image in {"", config.runtime_image}


def model_path(model: InferenceModel) -> str:
    """`/v2/models/<name>[/versions/<version>]`, percent-encoded."""
    path = f"/v2/models/{quote(model.model.name, safe='')}"
    if model.model.version:
        path += f"/versions/{quote(model.model.version, safe='')}"
    return path


def live_path(model: InferenceModel) -> str:
    """Whether the process should live on."""
    return model.endpoints.live or "/v2/health/live"


def ready_path(model: InferenceModel) -> str:
    """Whether the server as a whole is ready."""
    return model.endpoints.ready or "/v2/health/ready"


def model_ready_path(model: InferenceModel) -> str:
    """Whether this model is ready."""
    return model.endpoints.model_ready or f"{model_path(model)}/ready"


def metadata_path(model: InferenceModel) -> str:
    """What the model says of itself."""
    return model.endpoints.metadata or model_path(model)


def kubelet_ready_path(model: InferenceModel) -> str:
    """What makes a pod ready: the model, or the server where the spec says so.

    The spec says so by `readinessTarget: Server`, or by naming `endpoints.ready` and not
    `endpoints.modelReady`: who writes a ready path for a server means the pod's readiness.
    """
    written = model.endpoints
    if model.health.readiness_target is ReadinessTarget.SERVER:
        return ready_path(model)
    return written.ready if written.ready and not written.model_ready else model_ready_path(model)


def urls(model: InferenceModel, config: OperatorConfig) -> list[dict[str, str]]:
    """The status's endpoints: inference addresses inside the cluster, that of the transport first.

    A server of the user's own is only known to answer over the transport of the spec.
    """
    host = f"{names.service(model.name)}.{model.namespace}.svc.{config.cluster_domain}"
    ports = model.runtime.ports
    by_transport = {
        Transport.HTTP: f"http://{host}:{ports.http}{model_path(model)}/infer",
        Transport.GRPC: f"grpc://{host}:{ports.grpc}",
    }
    shown = [model.transport]
    if is_bundled(model, config):
        shown += [transport for transport in Transport if transport is not model.transport]
    return [
        {
            "protocol": str(model.protocol),
            "transport": str(transport),
            "url": by_transport[transport],
        }
        for transport in shown
    ]
