"""The addresses of a model's pods and Service; used by the commands that send requests."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from moorage_cli.commands.shell import ClusterLike
from moorage_cli.judge.model_view import ModelView
from moorage_cli.printing.failures import Failure

__all__ = [
    "GRPC_PORT",
    "HTTP_PORT",
    "REVISION_LABEL",
    "RUNTIME_CONTAINER",
    "address_of",
    "forwarded",
]

HTTP_PORT = "http"
GRPC_PORT = "grpc"
SCHEMES = {HTTP_PORT: ("http", "https"), GRPC_PORT: ("grpc", "grpcs")}
RUNTIME_CONTAINER = "runtime"
REVISION_LABEL = "moorage.dev/revision"


@contextmanager
def address_of(cluster: ClusterLike, model: ModelView, via: str, port_name: str) -> Generator[str]:
    """The address of one port of a model."""
    if via == "service":
        yield _service_address(model, port_name)
        return
    with forwarded(cluster, model, _ready_pod(cluster, model), port_name) as address:
        yield address


@contextmanager
def forwarded(
    cluster: ClusterLike, model: ModelView, pod: Mapping[str, Any], port_name: str
) -> Generator[str]:
    """The local address of a pod's port; a failure includes the pod's own message."""
    name = pod["metadata"]["name"]
    with cluster.forward(model.namespace, name, _port_of(pod, port_name)) as forward:
        try:
            yield forward.address
        except Failure as failure:
            problem = f": {forward.problem}" if forward.problem else ""
            raise Failure(f"pod {name}: {failure}{problem}") from failure


def _ready_pod(cluster: ClusterLike, model: ModelView) -> Mapping[str, Any]:
    """A ready pod, of the last good revision if there is one.

    With BlueGreen and Canary, pods of two revisions can be ready, and the Service selects those.
    """
    pods = cluster.pods(model.namespace, model.selector) if model.selector else []
    ready = [pod for pod in pods if _is_ready(pod)]
    good = [pod for pod in ready if _revision(pod) == model.last_good]
    for pod in good or ready:
        return pod
    raise Failure(f"{model.name}: none of {len(pods)} pods is ready: run moorage why {model.name}")


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _revision(pod: Mapping[str, Any]) -> str:
    return pod["metadata"].get("labels", {}).get(REVISION_LABEL, "")


def _port_of(pod: Mapping[str, Any], port_name: str) -> int:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports", []):
            if container["name"] == RUNTIME_CONTAINER and port.get("name") == port_name:
                return port["containerPort"]
    raise Failure(
        f"pod {pod['metadata']['name']}: container {RUNTIME_CONTAINER} has no port {port_name}"
    )


def _service_address(model: ModelView, port_name: str) -> str:
    """The Service's address for one of its ports, from the status."""
    scheme = SCHEMES[port_name][1 if model.tls_secret else 0]
    for parts in map(urlsplit, model.urls):
        if parts.scheme == scheme and parts.netloc:
            return parts.netloc
    raise Failure(
        f"{model.name}: status.endpoints has no {scheme}:// address, only "
        f"{', '.join(model.urls) or 'an empty list'}: use --via port-forward"
    )
