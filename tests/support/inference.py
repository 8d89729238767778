"""Requests to a served digits model through its Service, like a client in the cluster."""

import json
import socket
import urllib.request

from support.kubectl import Kubectl
from support.manifests import sample
from support.waiting import eventually

HTTP_PORT = 8000


def infer(kubectl: Kubectl, name: str, expected: int = 3) -> int:
    """The label that the model's Service answers for a picture."""
    address = kubectl.get("service", name)["spec"]["clusterIP"]
    # the nodes' rules follow a ready pod within moments, as for every Service
    eventually("the Service is routed", lambda: connects(address), bool, 10)
    request = urllib.request.Request(
        f"http://{address}:{HTTP_PORT}/v2/models/{name}/infer",
        data=json.dumps(sample(expected)).encode(),
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        outputs = json.load(answer)["outputs"]
    return next(item["data"][0] for item in outputs if item["name"] == "label")


def connects(address: str) -> bool:
    """Whether the HTTP port of the address accepts."""
    try:
        socket.create_connection((address, HTTP_PORT), 2).close()
    except OSError:
        return False
    return True
