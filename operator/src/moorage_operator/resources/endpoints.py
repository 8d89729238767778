"""Where a model answers: the paths of its protocol, what the spec puts in their place, its URLs.

The probes, the polling targets and the status all take their paths from here, so that the kubelet,
the operator and the user ask the same places. A protocol is a row of `_PATHS` and of `_URLS`.

Source: Open Inference Protocol V2, HTTP/REST, sections "Health" and "Model Metadata"; TensorFlow
Serving RESTful API, "Model status API" and "Model Metadata API"; GRPS interface, "HTTP".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from urllib.parse import quote

from moorage_operator import names
from moorage_operator.api.v1alpha1 import (
    InferenceModel,
    Protocol,
    ReadinessTarget,
    Transport,
)
from moorage_operator.config import OperatorConfig
from moorage_operator.memo import by_identity

__all__ = [
    "Paths",
    "infer_model",
    "infer_path",
    "is_bundled",
    "paths",
    "probed_protocol",
    "transports",
    "urls",
]


@dataclass(frozen=True, slots=True)
class Paths:
    """HTTP paths, percent-encoded; empty where the protocol has none for the question.

    Attributes:
        live: Whether the process should live on.
        ready: Whether the server as a whole is ready.
        model_ready: Whether this model is ready.
        metadata: What the model says of itself.
        server: What the server says of itself, or else what shows that it speaks the protocol.
        kubelet_ready: What makes a pod ready, as far as a status code can tell.
    """

    live: str
    ready: str
    model_ready: str
    metadata: str
    server: str
    kubelet_ready: str


def is_bundled(model: InferenceModel, config: OperatorConfig) -> bool:
    """Whether the pods run the bundled runtime, whose health service the operator knows."""
    return model.runtime.image in {"", config.runtime_image}


def transports(protocol: Protocol) -> tuple[Transport, ...]:
    """The transports that a protocol can be asked over."""
    if protocol is Protocol.TENSORFLOW_SERVING:
        return (Transport.HTTP,)
    return tuple(Transport)


def paths(model: InferenceModel, protocol: Protocol) -> Paths:
    """The protocol's paths for this model, with the spec's own in their places.

    What makes a pod ready is the model, or the server where the spec says so: by
    `readinessTarget: Server`, or by naming `endpoints.ready` and not `endpoints.modelReady`. Who
    writes a ready path for a server means the pod's readiness.
    """
    own = _PATHS[protocol](model)
    written = model.endpoints
    ready = written.ready or own.ready
    kubelet_ready = written.model_ready or written.ready or own.kubelet_ready
    if model.health.readiness_target is ReadinessTarget.SERVER:
        kubelet_ready = ready
    return replace(
        own,
        live=written.live or own.live,
        ready=ready,
        model_ready=written.model_ready or own.model_ready,
        metadata=written.metadata or own.metadata,
        kubelet_ready=kubelet_ready,
    )


def probed_protocol(model: InferenceModel, config: OperatorConfig) -> Protocol:
    """The protocol of the kubelet's probes, which are made before any server has answered.

    With `Auto` the bundled runtime is asked in its first; of another image nothing is known.
    """
    if model.protocol is Protocol.AUTO and is_bundled(model, config):
        return Protocol.OPEN_INFERENCE
    return model.protocol


@by_identity
def urls(
    model: InferenceModel, config: OperatorConfig, detected: Protocol | None
) -> list[dict[str, str]]:
    """The status's endpoints: inference addresses inside the cluster, the spec's own first.

    A server of the user's own is only known to answer in the protocol and over the transport of
    the spec; the bundled runtime answers in all.

    Args:
        model: The model.
        config: The operator's settings.
        detected: The protocol in which its servers answer; None before they did.
    """
    protocol = detected if model.protocol is Protocol.AUTO else model.protocol
    shown = [(protocol, model.transport)] if protocol else []
    if is_bundled(model, config):
        known = [each for each in _PATHS if each is not Protocol.AUTO]
        shown += [(each, way) for each in known for way in transports(each)]
    return [
        {
            "protocol": str(protocol),
            "transport": str(transport),
            "url": _url(model, config, protocol, transport),
        }
        for protocol, transport in dict.fromkeys(shown)
    ]


def _url(
    model: InferenceModel, config: OperatorConfig, protocol: Protocol, transport: Transport
) -> str:
    host = f"{names.service(model.name)}.{model.namespace}.svc.{config.cluster_domain}"
    if transport is Transport.GRPC:
        return f"grpc://{host}:{model.runtime.ports.grpc}"
    named = infer_model(model, config, protocol)
    query = f"?model={_quoted(named)}" if named else ""
    return f"http://{host}:{model.runtime.ports.http}{infer_path(model, protocol)}{query}"


def infer_path(model: InferenceModel, protocol: Protocol) -> str:
    """Where inference requests of a protocol go."""
    if protocol is Protocol.TENSORFLOW_SERVING:
        return f"{_versioned('/v1/models', model)}:predict"
    if protocol is Protocol.GRPS:
        return "/grps/v1/infer/predict"
    return f"{_versioned('/v2/models', model)}/infer"


def infer_model(model: InferenceModel, config: OperatorConfig, protocol: Protocol) -> str:
    """Which of the server's models a request names where its path does not, "" for the only one.

    GRPS servers other than the bundled one know a model by name and version alone.
    """
    name, version = model.model.name, model.model.version
    if protocol is not Protocol.GRPS:
        return ""
    if version:
        return f"{name}-{version}"
    return name if is_bundled(model, config) else ""


def _versioned(root: str, model: InferenceModel) -> str:
    """`<root>/<name>[/versions/<version>]`, percent-encoded."""
    path = f"{root}/{_quoted(model.model.name)}"
    if model.model.version:
        path += f"/versions/{_quoted(model.model.version)}"
    return path


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    """Percent-encoded whole; kept, because every pass asks for the same few."""
    return quote(text, safe="")


def _open_inference(model: InferenceModel) -> Paths:
    path = _versioned("/v2/models", model)
    return Paths(
        live="/v2/health/live",
        ready="/v2/health/ready",
        model_ready=f"{path}/ready",
        metadata=path,
        server="/v2",
        kubelet_ready=f"{path}/ready",
    )


def _tensorflow_serving(model: InferenceModel) -> Paths:
    # The status URL answers 200 while a model loads and after its load has failed; metadata
    # answers 404 until the version is available. The operator reads the status of all versions.
    metadata = f"{_versioned('/v1/models', model)}/metadata"
    return Paths(
        live="",
        ready="",
        model_ready="",
        metadata=metadata,
        server=f"/v1/models/{_quoted(model.model.name)}",
        kubelet_ready=metadata,
    )


def _grps(_: InferenceModel) -> Paths:
    return Paths(
        live="/grps/v1/health/live",
        ready="/grps/v1/health/ready",
        model_ready="",
        metadata="/grps/v1/metadata/model",
        server="/grps/v1/metadata/server",
        kubelet_ready="/grps/v1/health/ready",
    )


def _unknown(_: InferenceModel) -> Paths:
    return Paths("", "", "", "", "", "")


_PATHS: Mapping[Protocol, Callable[[InferenceModel], Paths]] = {
    Protocol.AUTO: _unknown,
    Protocol.OPEN_INFERENCE: _open_inference,
    Protocol.TENSORFLOW_SERVING: _tensorflow_serving,
    Protocol.GRPS: _grps,
}
