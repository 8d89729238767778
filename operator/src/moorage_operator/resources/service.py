"""The Service that clients of a model talk to, and those of its revisions behind a route."""

from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.memo import by_identity

from .owned import make_owned

__all__ = ["make_service"]


@by_identity
def make_service(model: InferenceModel, revision: str = "", name: str = "") -> dict[str, Any]:
    """A Service with the runtime's two ports under the same numbers.

    Args:
        model: The one that it offers.
        revision: Whose pods it selects; empty: all of the model's.
        name: Its name, where it is not the model's own Service.
    """
    ports = model.runtime.ports
    spec: dict[str, Any] = {
        "selector": labels.revision_selector(model.name, revision)
        if revision
        else labels.selector(model.name),
        "ports": [
            _make_port(names.HTTP_PORT, ports.http, "http"),
            # h2c: HTTP/2 without TLS, for proxies that need to be told.
            _make_port(names.GRPC_PORT, ports.grpc, "kubernetes.io/h2c"),
        ],
    }
    return make_owned(model, "v1", "Service", name or names.service(model.name), spec)


def _make_port(name: str, number: int, app_protocol: str) -> dict[str, Any]:
    return {
        "name": name,
        "port": number,
        "targetPort": number,
        "protocol": "TCP",
        "appProtocol": app_protocol,
    }
