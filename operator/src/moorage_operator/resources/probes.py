"""The kubelet's probes: what it asks a pod, and how long it waits.

The startup probe asks what the readiness probe asks, so that liveness begins only once the model
has loaded, and so that a container that has started has been ready. Liveness never asks for the
model: a slow load must not restart a pod. Where a protocol has no health endpoint for it, an open
port is what the kubelet sees, and a readiness gate that the operator opens stands beside it.
"""

from collections.abc import Mapping
from typing import Any, cast

from moorage_operator import names
from moorage_operator.api.v1alpha1 import (
    InferenceModel,
    Protocol,
    ReadinessTarget,
    Transport,
)
from moorage_operator.config import OperatorConfig

from . import endpoints

__all__ = ["make_probes", "make_readiness_gates"]

# A start is asked as often as a kubelet can: the time from loaded to ready is what users wait for.
STARTUP_PERIOD_SECONDS = 1
# A liveness failure costs a restart and a load, so it is asked with more patience than readiness.
LIVENESS_PERIOD_FLOOR_SECONDS = 10

# Services of grpc.health.v1 that the bundled runtime knows; tests/contract pins them.
LIVENESS_SERVICE = "liveness"
READINESS_SERVICE = "readiness"
MODEL_SERVICE_PREFIX = "model:"


def make_probes(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """`startupProbe`, `readinessProbe` and `livenessProbe` of the container `runtime`.

    Startup: one probe a second, startupTimeoutSeconds of them.
    """
    health = model.health
    ready = _ready(model, config)
    return {
        "startupProbe": {
            **ready,
            "periodSeconds": STARTUP_PERIOD_SECONDS,
            "timeoutSeconds": health.timeout_seconds,
            "failureThreshold": health.startup_timeout_seconds,
        },
        "readinessProbe": {
            **ready,
            "periodSeconds": health.period_seconds,
            "timeoutSeconds": health.timeout_seconds,
            "failureThreshold": health.failure_threshold,
        },
        "livenessProbe": {
            **_live(model, config),
            "periodSeconds": max(health.period_seconds, LIVENESS_PERIOD_FLOOR_SECONDS),
            "timeoutSeconds": health.timeout_seconds,
            "failureThreshold": health.failure_threshold,
        },
    }


def make_readiness_gates(model: InferenceModel, config: OperatorConfig) -> list[dict[str, Any]]:
    """`readinessGates` of a pod whose probe cannot tell whether it may have traffic, else [].

    No probe knows of a contract or smoke tests that are enforced.
    """
    gated = model.enforces or _is_blind(model, config)
    return [{"conditionType": names.READINESS_GATE}] if gated else []


def _is_blind(model: InferenceModel, config: OperatorConfig) -> bool:
    """Whether the kubelet's probe cannot tell whether the model is ready.

    That is a probe of an open port, and GRPS over HTTP of another image, where a failure may
    stand in the body of a 200. A probe of the user's own is taken to tell.
    """
    if _has_own_probe(model):
        return False
    written = bool(model.endpoints.ready or model.endpoints.model_ready)
    in_body = model.protocol is Protocol.GRPS and not endpoints.is_bundled(model, config)
    return "tcpSocket" in _ready(model, config) or (in_body and not written)


def _has_own_probe(model: InferenceModel) -> bool:
    """Whether the spec's pod template brings a readiness probe for the runtime."""
    pod: object = model.pod_template.get("spec")
    containers: object = pod.get("containers") if isinstance(pod, Mapping) else None
    return isinstance(containers, list) and any(
        isinstance(container, Mapping)
        and container.get("name") == names.RUNTIME_CONTAINER
        and container.get("readinessProbe")
        for container in cast("list[object]", containers)
    )


def _ready(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    written = model.endpoints
    protocol = endpoints.probed_protocol(model, config)
    if model.transport is Transport.HTTP or written.ready or written.model_ready:
        path = endpoints.paths(model, protocol).kubelet_ready
        return _http_get(model, path) if path else _tcp_socket(model.runtime.ports.http)
    if not endpoints.is_bundled(model, config):
        return _tcp_socket(model.runtime.ports.grpc)
    # GRPS takes a whole server offline, so its readiness is the server's.
    of_server = model.health.readiness_target is ReadinessTarget.SERVER
    if of_server or protocol is Protocol.GRPS:
        return _grpc(model, READINESS_SERVICE)
    version = f"/{model.model.version}" if model.model.version else ""
    return _grpc(model, f"{MODEL_SERVICE_PREFIX}{model.model.name}{version}")


def _live(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    if model.transport is Transport.HTTP or model.endpoints.live:
        path = endpoints.paths(model, endpoints.probed_protocol(model, config)).live
        return _http_get(model, path) if path else _tcp_socket(model.runtime.ports.http)
    # Another server's grpc.health.v1 may mean ready (Triton's does), or not exist at all.
    if not endpoints.is_bundled(model, config):
        return _tcp_socket(model.runtime.ports.grpc)
    return _grpc(model, LIVENESS_SERVICE)


def _http_get(model: InferenceModel, path: str) -> dict[str, Any]:
    return {"httpGet": {"path": path, "port": model.runtime.ports.http, "scheme": "HTTP"}}


def _tcp_socket(port: int) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}}


def _grpc(model: InferenceModel, service: str) -> dict[str, Any]:
    return {"grpc": {"port": model.runtime.ports.grpc, "service": service}}
