"""The Service of a model, and those of its revisions behind a route."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel, Ports

from .owned import make_owned

__all__ = ["make_service", "names_ports"]


def names_ports(template: Mapping[str, Any], ports: Ports) -> bool:
    """Whether the pods of a template have these ports under the names that a Service uses.

    A Service uses the first port with a name, in the order of the containers. `spec.podTemplate`
    may have removed the names or assigned them to other ports.
    """
    found: dict[Any, Any] = {}
    for container in _mappings(template["spec"].get("containers")):
        for port in _mappings(container.get("ports")):
            if port.get("protocol", "TCP") == "TCP":
                found.setdefault(port.get("name"), port.get("containerPort"))
    return (found.get(names.HTTP_PORT), found.get(names.GRPC_PORT)) == (ports.http, ports.grpc)


def _mappings(items: Any) -> Iterator[Mapping[str, Any]]:
    """Return the objects of a list, which may be malformed."""
    for item in cast("list[Any]", items) if isinstance(items, list) else ():
        if isinstance(item, Mapping):
            yield cast("Mapping[str, Any]", item)


def make_service(
    model: InferenceModel, revision: str = "", name: str = "", *, by_name: bool = False
) -> dict[str, Any]:
    """Build a Service with the runtime's two ports.

    Args:
        model: The model whose port numbers it exposes.
        revision: The revision whose pods it selects; if empty, all pods of the model.
        name: Its name, if it is not the model's own Service.
        by_name: Whether to target ports by name, so that pods of revisions with other port
            numbers are reached too.
    """
    ports = model.runtime.ports
    # h2c: HTTP/2 without TLS, for proxies that cannot detect it. With TLS, ALPN selects HTTP/2.
    http, grpc = ("https", "https") if model.tls else ("http", "kubernetes.io/h2c")
    spec: dict[str, Any] = {
        "selector": labels.revision_selector(model.name, revision)
        if revision
        else labels.selector(model.name),
        "ports": [
            _make_port(names.HTTP_PORT, ports.http, http, by_name=by_name),
            _make_port(names.GRPC_PORT, ports.grpc, grpc, by_name=by_name),
        ],
    }
    return make_owned(model, "v1", "Service", name or names.service(model.name), spec)


def _make_port(name: str, number: int, app_protocol: str, *, by_name: bool) -> dict[str, Any]:
    return {
        "name": name,
        "port": number,
        "targetPort": name if by_name else number,
        "protocol": "TCP",
        "appProtocol": app_protocol,
    }
