"""Termination of pods without lost requests: a pod leaves the Service before it stops.

The bundled runtime drains by itself: after SIGTERM it is not ready, keeps answering for a while,
and then lets running requests finish. The behavior of other servers is unknown, so their SIGTERM
is delayed until traffic has moved away.

Source: Kubernetes concepts, "Pod Lifecycle", "Termination of Pods": the removal of endpoints and
preStop hooks begin at the same time, and so does the grace period. The `sleep` action exists since
Kubernetes 1.30.
"""

from typing import Any

from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, Protocol, Transport

from . import endpoints

__all__ = ["make_drain_env", "make_lifecycle"]

# All nodes update their routes to a Service within a few seconds.
ROUTES_SECONDS = 5
# From the end of a drain to the end of the process.
EXIT_SECONDS = 3

# A GRPS server that is set offline informs clients that balance by its readiness themselves.
OFFLINE_PATH = "/grps/v1/health/offline"


def make_lifecycle(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """Build `lifecycle` of the container, {} if it drains by itself."""
    bundled = endpoints.is_bundled(model, config)
    if model.protocol is Protocol.GRPS and model.transport is Transport.HTTP and not bundled:
        port = model.runtime.ports.http
        scheme = "HTTPS" if model.tls else "HTTP"
        return {"preStop": {"httpGet": {"path": OFFLINE_PATH, "port": port, "scheme": scheme}}}
    return {} if bundled else {"preStop": {"sleep": {"seconds": ROUTES_SECONDS}}}


def make_drain_env(model: InferenceModel) -> list[dict[str, Any]]:
    """Build the bundled runtime's two settings, whose sum is within the grace period."""
    grace = model.health.termination_grace_period_seconds
    return [
        {"name": "MOORAGE_DRAIN_SECONDS", "value": str(ROUTES_SECONDS)},
        {
            "name": "MOORAGE_SHUTDOWN_GRACE_SECONDS",
            "value": str(grace - ROUTES_SECONDS - EXIT_SECONDS),
        },
    ]
