"""The kubelet's probes and their timing.

The startup probe makes the same request as the readiness probe. So liveness probes begin only
after the model has loaded, and a started container has been ready. The liveness probe never
depends on the model, because a slow load must not restart a pod. If a protocol has no suitable
health endpoint, the probe checks for an open port, and the operator opens a readiness gate in
addition.

A kubelet speaks HTTPS without verifying the certificate, but no gRPC over TLS, and it has no
token. So the gRPC port of the bundled runtime with TLS is probed by the same health state on its
HTTP port, and with a token only paths that need none are probed.
"""

import math
from collections.abc import Mapping
from typing import Any, cast

from moorage_operator.api import names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import (
    Health,
    InferenceModel,
    Protocol,
    ReadinessTarget,
    Transport,
)

from . import endpoints
from .merge import HANDLERS

__all__ = ["make_probes", "make_readiness_gates"]

# A liveness failure causes a restart and a load, so its period is longer than for readiness.
LIVENESS_PERIOD_FLOOR_SECONDS = 10

# Services of grpc.health.v1 that the bundled runtime knows; tests/contract pins them.
LIVENESS_SERVICE = "liveness"
READINESS_SERVICE = "readiness"
MODEL_SERVICE_PREFIX = "model:"


def make_probes(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """Build `startupProbe`, `readinessProbe` and `livenessProbe` of the container `runtime`."""
    health = model.health
    ready = _ready(model, config)
    return {
        "startupProbe": {**ready, **_startup_times(health)},
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


def _startup_times(health: Health) -> dict[str, int]:
    """Choose a short period, because users wait from loading until the pod is ready.

    A kubelet counts failures. One that is refused takes a period, and one that hangs takes the
    timeout. A period of half the timeout bounds a load that hangs by twice the time of another
    one. As the first failure can be immediate, a longer period needs one more.
    """
    period = min(math.ceil(health.timeout_seconds / 2), health.startup_timeout_seconds)
    failures = math.ceil(health.startup_timeout_seconds / period)
    return {
        "periodSeconds": period,
        "timeoutSeconds": health.timeout_seconds,
        "failureThreshold": failures if period == 1 else failures + 1,
    }


def make_readiness_gates(model: InferenceModel, config: OperatorConfig) -> list[dict[str, Any]]:
    """Build `readinessGates` if a probe is not sufficient to admit traffic, otherwise [].

    No probe checks enforced contracts or smoke tests.
    """
    gated = model.enforces or _is_blind(model, config)
    return [{"conditionType": names.READINESS_GATE}] if gated else []


def _is_blind(model: InferenceModel, config: OperatorConfig) -> bool:
    """Whether the kubelet's probe cannot determine if the model is ready.

    This applies to a probe of an open port, to GRPS over HTTP of another image, which may report a
    failure in the body of a 200, and to OpenAI, whose health endpoint knows no models. A custom
    probe is assumed to be sufficient.
    """
    if _has_own_probe(model):
        return False
    if model.protocol is Protocol.OPENAI:
        return model.health.readiness_target is ReadinessTarget.MODEL
    written = bool(model.paths.ready or model.paths.model_ready)
    in_body = model.protocol is Protocol.GRPS and not endpoints.is_bundled(model, config)
    return "tcpSocket" in _ready(model, config) or (in_body and not written)


def _has_own_probe(model: InferenceModel) -> bool:
    """Whether the spec's pod template has a readiness probe of its own for the runtime.

    One without a handler only changes the times of the planned probe.
    """
    pod: object = model.pod_template.get("spec")
    containers: object = pod.get("containers") if isinstance(pod, Mapping) else None
    return isinstance(containers, list) and any(
        isinstance(container, Mapping)
        and container.get("name") == names.RUNTIME_CONTAINER
        and _has_handler(container.get("readinessProbe"))
        for container in cast("list[object]", containers)
    )


def _has_handler(probe: object) -> bool:
    return isinstance(probe, Mapping) and not HANDLERS.isdisjoint(cast("Mapping[str, Any]", probe))


def _ready(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    written = model.paths
    protocol = endpoints.probed_protocol(model, config)
    if model.transport is Transport.HTTP or written.ready or written.model_ready:
        path = endpoints.kubelet_paths(model, config).kubelet_ready
        return _http_get(model, path) if path else _tcp_socket(model.runtime.ports.http)
    if not endpoints.is_bundled(model, config):
        return _tcp_socket(model.runtime.ports.grpc)
    if model.tls:
        return _http_get(model, endpoints.open_paths(model, protocol).kubelet_ready)
    # GRPS sets a whole server offline, so its readiness is that of the server.
    of_server = model.health.readiness_target is ReadinessTarget.SERVER
    if of_server or protocol is Protocol.GRPS:
        return _grpc(model, READINESS_SERVICE)
    version = f"/{model.model.version}" if model.model.version else ""
    return _grpc(model, f"{MODEL_SERVICE_PREFIX}{model.model.name}{version}")


def _live(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    if model.transport is Transport.HTTP or model.paths.live:
        path = endpoints.kubelet_paths(model, config).live
        return _http_get(model, path) if path else _tcp_socket(model.runtime.ports.http)
    # The grpc.health.v1 service of other servers may mean readiness (Triton) or may not exist.
    if not endpoints.is_bundled(model, config):
        return _tcp_socket(model.runtime.ports.grpc)
    if model.tls:
        protocol = endpoints.probed_protocol(model, config)
        return _http_get(model, endpoints.open_paths(model, protocol).live)
    return _grpc(model, LIVENESS_SERVICE)


def _http_get(model: InferenceModel, path: str) -> dict[str, Any]:
    scheme = "HTTPS" if model.tls else "HTTP"
    return {"httpGet": {"path": path, "port": model.runtime.ports.http, "scheme": scheme}}


def _tcp_socket(port: int) -> dict[str, Any]:
    return {"tcpSocket": {"port": port}}


def _grpc(model: InferenceModel, service: str) -> dict[str, Any]:
    return {"grpc": {"port": model.runtime.ports.grpc, "service": service}}
