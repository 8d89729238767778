"""How a pod ends so that no request is lost: out of the Service first, then the end.

The bundled runtime drains by itself: on SIGTERM it is not ready any more and goes on answering
for a while, then it lets running requests finish. What another server does is not known, so its
SIGTERM is held back until those that route to it have noticed.

Source: Kubernetes concepts, "Pod Lifecycle", "Termination of Pods": endpoints are taken away and
preStop hooks begin at the same time; the grace period counts from there. The `sleep` action is in
Kubernetes since 1.30.
"""

from typing import Any

from moorage_operator.api.v1alpha1 import InferenceModel, Protocol, Transport
from moorage_operator.config import OperatorConfig

from . import endpoints

__all__ = ["make_drain_env", "make_lifecycle"]

# Every node's routes to a Service follow its pods within a few seconds.
ROUTES_SECONDS = 5
# From the end of a drain to the end of the process.
EXIT_SECONDS = 3

# Taken offline, a GRPS server tells the clients that balance by its readiness themselves.
OFFLINE_PATH = "/grps/v1/health/offline"


def make_lifecycle(model: InferenceModel, config: OperatorConfig) -> dict[str, Any]:
    """`lifecycle` of the container, {} for one that drains by itself."""
    bundled = endpoints.is_bundled(model, config)
    if model.protocol is Protocol.GRPS and (model.transport is Transport.HTTP or bundled):
        port = model.runtime.ports.http
        return {"preStop": {"httpGet": {"path": OFFLINE_PATH, "port": port, "scheme": "HTTP"}}}
    return {} if bundled else {"preStop": {"sleep": {"seconds": ROUTES_SECONDS}}}


def make_drain_env(model: InferenceModel) -> list[dict[str, Any]]:
    """The bundled runtime's two times, which together end within the grace period."""
    grace = model.health.termination_grace_period_seconds
    return [
        {"name": "MOORAGE_DRAIN_SECONDS", "value": str(ROUTES_SECONDS)},
        {
            "name": "MOORAGE_SHUTDOWN_GRACE_SECONDS",
            "value": str(grace - ROUTES_SECONDS - EXIT_SECONDS),
        },
    ]
