"""The HTTP paths of a model by protocol, the overrides of the spec, and the URLs in the status.

Probes, polls and the status take their paths from here, so that the kubelet, the operator and
users use the same ones. A protocol is an entry of `_PATHS`.

Source: Open Inference Protocol V2, HTTP/REST, sections "Health" and "Model Metadata"; TensorFlow
Serving RESTful API, "Model status API" and "Model Metadata API"; GRPS interface, "HTTP"; OpenAI
API reference, "Models".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from moorage_operator.api import names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol, ReadinessTarget, Transport

__all__ = [
    "Paths",
    "asks_own_path",
    "infer_model",
    "infer_path",
    "is_bundled",
    "kubelet_paths",
    "open_paths",
    "paths",
    "probed_protocol",
    "transports",
    "urls",
]


HTTP_ONLY = {Protocol.TENSORFLOW_SERVING, Protocol.OPENAI, Protocol.NONE}
BUNDLED = (Protocol.OPEN_INFERENCE, Protocol.TENSORFLOW_SERVING, Protocol.GRPS)
"""The protocols of the bundled runtime."""

OPENAI_ROOT = "/v1"


@dataclass(frozen=True, slots=True)
class Paths:
    """HTTP paths, percent-encoded; empty if the protocol has none for the purpose.

    Attributes:
        live: The liveness of the process.
        ready: The readiness of the server as a whole.
        model_ready: The readiness of this model.
        metadata: The metadata of the model.
        server: The metadata of the server, or another path that proves the protocol.
        kubelet_ready: The path of the readiness probe, whose status code decides.
    """

    live: str
    ready: str
    model_ready: str
    metadata: str
    server: str
    kubelet_ready: str


def is_bundled(model: InferenceModel, config: OperatorConfig) -> bool:
    """Whether the pods run the bundled runtime."""
    return model.runtime.image in {"", config.runtime_image}


def asks_own_path(model: InferenceModel) -> bool:
    """Whether readiness is queried at a custom path, which proves no protocol.

    The protocol is then known only after another query. The list of models of OpenAI proves it at
    any path.
    """
    if not model.protocol.has_tensors:
        return False
    return model.transport is Transport.HTTP and bool(model.paths.model_ready)


def transports(protocol: Protocol) -> tuple[Transport, ...]:
    """Return the transports that the operator supports for a protocol."""
    return (Transport.HTTP,) if protocol in HTTP_ONLY else tuple(Transport)


def paths(model: InferenceModel, protocol: Protocol) -> Paths:
    """Return the protocol's paths for this model, with the overrides of the spec.

    The readiness of a pod is that of the model. It is that of the server with
    `readinessTarget: Server`, or if the spec sets `paths.ready` but not
    `paths.modelReady`. OpenAI and None have no other readiness.
    """
    own = _PATHS[protocol](model)
    written = model.paths
    ready = written.ready or own.ready
    kubelet_ready = written.model_ready or written.ready or own.kubelet_ready
    if model.health.readiness_target is ReadinessTarget.SERVER:
        kubelet_ready = ready
    if protocol is Protocol.OPENAI:
        # The list of models has one path, and its status says nothing about this model.
        kubelet_ready = written.ready or own.kubelet_ready
        own = replace(own, server=written.model_ready or own.server)
    return replace(
        own,
        live=written.live or own.live,
        ready=ready,
        model_ready=written.model_ready or own.model_ready,
        metadata=written.metadata or own.metadata,
        kubelet_ready=kubelet_ready,
    )


def probed_protocol(model: InferenceModel, config: OperatorConfig) -> Protocol:
    """Return the protocol of the kubelet's probes, which must be known before any answer.

    With `Auto` this is OpenInference for the bundled runtime; for another image it is unknown.
    """
    if model.protocol is Protocol.AUTO and is_bundled(model, config):
        return Protocol.OPEN_INFERENCE
    return model.protocol


def open_paths(model: InferenceModel, protocol: Protocol) -> Paths:
    """Return paths of the bundled runtime that need no token, for a kubelet.

    TensorFlow Serving has no readiness path, and its metadata needs a token.
    """
    open_ = Protocol.OPEN_INFERENCE if protocol is Protocol.TENSORFLOW_SERVING else protocol
    return paths(model, open_)


def kubelet_paths(model: InferenceModel, config: OperatorConfig) -> Paths:
    """Return the paths of the kubelet's probes over HTTP, which have no token."""
    protocol = probed_protocol(model, config)
    if model.access.token_secret_name and is_bundled(model, config):
        return open_paths(model, protocol)
    return paths(model, protocol)


def urls(
    model: InferenceModel,
    config: OperatorConfig,
    detected: Protocol | None,
    external: Sequence[tuple[Transport, str]] | None = None,
) -> list[dict[str, str]]:
    """Return the inference URLs, with those of the spec's protocol first.

    The bundled runtime supports several protocols. Another server is only known to support the
    protocol and the transport of the spec.

    Args:
        model: The model.
        config: The operator's settings.
        detected: The detected protocol; None before the first answer.
        external: Base URLs outside the cluster with their transports; None means the Service.
    """
    unknown = model.protocol is Protocol.AUTO or asks_own_path(model)
    protocol = detected if unknown else model.protocol
    shown = [(protocol, model.transport)] if protocol else []
    if is_bundled(model, config):
        shown += [(each, way) for each in BUNDLED for way in transports(each)]
    if external is None:
        external = [(each, _server(model, config, each)) for each in Transport]
    return [
        {
            "protocol": str(protocol),
            "transport": str(transport),
            "url": _url(model, config, protocol, transport, server),
        }
        for protocol, transport in dict.fromkeys(shown)
        for way, server in external
        if way is transport
    ]


def _server(model: InferenceModel, config: OperatorConfig, transport: Transport) -> str:
    """Return the base URL inside the cluster."""
    host = f"{names.service(model.name)}.{model.namespace}.svc.{config.cluster_domain}"
    if transport is Transport.GRPC:
        return f"{'grpcs' if model.tls else 'grpc'}://{host}:{model.runtime.ports.grpc}"
    return f"{'https' if model.tls else 'http'}://{host}:{model.runtime.ports.http}"


def _url(
    model: InferenceModel,
    config: OperatorConfig,
    protocol: Protocol,
    transport: Transport,
    server: str,
) -> str:
    if transport is Transport.GRPC:
        return server
    if protocol is Protocol.OPENAI:
        return f"{server}{_openai_root(model)}"  # the base URL of OpenAI's clients
    if protocol is Protocol.NONE:
        return server
    named = infer_model(model, config, protocol)
    query = f"?model={_encoded(named)}" if named else ""
    return f"{server}{infer_path(model, protocol)}{query}"


def infer_path(model: InferenceModel, protocol: Protocol) -> str:
    """Return the path for inference requests of a protocol, "" if it is unknown."""
    if protocol is Protocol.OPENAI:
        return f"{_openai_root(model)}/chat/completions"
    if protocol is Protocol.NONE:
        return ""
    if protocol is Protocol.TENSORFLOW_SERVING:
        return f"{_versioned('/v1/models', model)}:predict"
    if protocol is Protocol.GRPS:
        return "/grps/v1/infer/predict"
    return f"{_versioned('/v2/models', model)}/infer"


def infer_model(model: InferenceModel, config: OperatorConfig, protocol: Protocol) -> str:
    """Return the model name in a request whose path does not have it, "" for the only model.

    GRPS servers other than the bundled runtime identify a model only by name and version.
    """
    name, version = model.model.name, model.model.version
    if protocol is not Protocol.GRPS:
        return ""
    if version:
        return f"{name}-{version}"
    return name if is_bundled(model, config) else ""


def _versioned(root: str, model: InferenceModel) -> str:
    """Return `<root>/<name>[/versions/<version>]`.

    Only the names of OpenAI-compatible servers have reserved characters. The operator uses such a
    name here to detect another protocol.
    """
    version = f"/versions/{model.model.version}" if model.model.version else ""
    return f"{root}/{_encoded(model.model.name)}{version}"


def _encoded(name: str) -> str:
    return quote(name, safe="")


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
        server=f"/v1/models/{_encoded(model.model.name)}",
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


def _openai_root(model: InferenceModel) -> str:
    """Return the root of the API; a server with its list at /v3/models has /v3."""
    listed = model.paths.model_ready
    return listed.removesuffix("/models") if listed.endswith("/models") else OPENAI_ROOT


def _openai(_: InferenceModel) -> Paths:
    return Paths(
        live="/health",
        ready="/health",
        model_ready=f"{OPENAI_ROOT}/models",
        metadata=f"{OPENAI_ROOT}/models",
        server=f"{OPENAI_ROOT}/models",
        kubelet_ready="/health",
    )


def _unknown(_: InferenceModel) -> Paths:
    return Paths("", "", "", "", "", "")


_PATHS: Mapping[Protocol, Callable[[InferenceModel], Paths]] = {
    Protocol.AUTO: _unknown,
    Protocol.OPEN_INFERENCE: _open_inference,
    Protocol.TENSORFLOW_SERVING: _tensorflow_serving,
    Protocol.GRPS: _grps,
    Protocol.OPENAI: _openai,
    Protocol.NONE: _unknown,
}
