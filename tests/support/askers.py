"""Pods that repeatedly try to connect to addresses, and their last results."""

import json
from typing import Any

from support.kubectl import Kubectl
from support.waiting import eventually

# One word for each address: open, or shut where nothing was accepted within a second.
SCRIPT = """
import socket, sys, time
def look(address):
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return "shut"
    return "open"
while True:
    print(*map(look, sys.argv[1:]), flush=True)
    time.sleep(0.3)
"""


def asker(name: str, image: str, *addresses: str, labels: dict[str, str]) -> dict[str, Any]:
    """A pod that tries each HOST:PORT; the image has a Python."""
    container = {
        "name": "asker",
        "image": image,
        "command": ["python3", "-c", SCRIPT, *addresses],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        },
    }


def wait_seen(kubectl: Kubectl, name: str, *words: str, seconds: float = 60) -> None:
    """Wait until the pod finds its addresses open or closed as expected, twice in a row."""
    line = " ".join(words)

    def observe() -> list[str]:
        return kubectl.run("logs", name, "--tail=2", check=False).splitlines()

    eventually(f"{name} sees {line}", observe, lambda seen: seen == [line, line], seconds)


def image_of(kubectl: Kubectl, model: str) -> str:
    """The image that a model's pods run."""
    pods = json.loads(kubectl.run("get", "pods", "-l", f"moorage.dev/model={model}", "-o", "json"))
    return pods["items"][0]["spec"]["containers"][0]["image"]
