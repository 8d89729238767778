"""Requests to a served model through its Service, like a client in the cluster."""

import json
import socket
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from support.kubectl import KIND, Kubectl
from support.manifests import sample
from support.waiting import eventually

__all__ = ["ask", "in_url", "infer", "routed"]

HTTP_PORT = 8000


def infer(kubectl: Kubectl, name: str, expected: int = 3) -> int:
    """The label that a digits model answers for a picture."""
    path = f"/v2/models/{name}/infer"
    outputs = _post(kubectl, name, HTTP_PORT, path, sample(expected))["outputs"]
    return next(item["data"][0] for item in outputs if item["name"] == "label")


def ask(kubectl: Kubectl, name: str, body: Any) -> Any:
    """The answer to a document at the first URL of the model's status."""
    url = urlsplit(kubectl.get(KIND, name)["status"]["endpoints"][0]["url"])
    return _post(kubectl, name, url.port or HTTP_PORT, f"{url.path}?{url.query}", body)


def _post(kubectl: Kubectl, name: str, port: int, path: str, body: Any) -> Any:
    address = kubectl.get("service", name)["spec"]["clusterIP"]
    # the nodes' rules follow a ready pod within moments, as for every Service
    eventually("the Service is routed", lambda: _connects(address, port), bool, 10)
    request = urllib.request.Request(
        f"http://{in_url(address)}:{port}{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def in_url(address: str) -> str:
    """The address as in a URL, where one of IPv6 has brackets."""
    return f"[{address}]" if ":" in address else address


def _connects(address: str, port: int) -> bool:
    """Whether the address accepts."""
    try:
        socket.create_connection((address, port), 2).close()
    except OSError:
        return False
    return True


def routed(kubectl: Kubectl, name: str) -> list[str]:
    """The addresses that the Service sends traffic to."""
    return [
        address
        for each in kubectl.items("endpointslices", f"kubernetes.io/service-name={name}")
        for endpoint in each["endpoints"] or []
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    ]
