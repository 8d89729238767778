"""The CRDs of the Gateway API, and a real gateway, from pinned Go modules next to the tests."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.go_programs import program, source
from support.listening import free_port, wait_listening
from support.operator_cluster import Api

MODULES = Path(__file__).resolve().parents[1] / "gateway"
GROUP = "gateway.networking.k8s.io"
CONTROLLER = "traefik.io/gateway-controller"
ADDRESS = "127.0.0.1"  # of Gateways and Ingresses


def crds(*plurals: str) -> list[dict[str, Any]]:
    """The CRDs of these kinds, or of all of the standard channel; without Go a test is skipped."""
    module = source(MODULES / "crds", "sigs.k8s.io/gateway-api")
    folder = module / "config" / "crd" / "standard"
    files = [folder / f"{GROUP}_{each}.yaml" for each in plurals] or folder.glob(f"{GROUP}_*")
    return [yaml.safe_load(file.read_text()) for file in sorted(files)]


def accept(api: Api, name: str, parent: Mapping[str, Any]) -> None:
    """Report that a Gateway accepts the current HTTPRoute, as its controller does."""
    generation = api.get("HTTPRoute", name)["metadata"]["generation"]
    conditions = [
        {
            "type": type_,
            "status": "True",
            "reason": type_,
            "message": "",
            "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for type_ in ("Accepted", "ResolvedRefs")
    ]
    reported = {"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions}
    api.patch_status("HTTPRoute", name, {"parents": [reported]})


def gateway_class() -> dict[str, Any]:
    """The class of Gateways that the process below serves."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "GatewayClass",
        "metadata": {"name": "traefik"},
        "spec": {"controllerName": CONTROLLER},
    }


def gateway(name: str, port: int) -> list[dict[str, Any]]:
    """A Gateway for routes of its namespace, and its class."""
    listener = {"name": "web", "protocol": "HTTP", "port": port}
    made = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Gateway",
        "metadata": {"name": name},
        "spec": {"gatewayClassName": "traefik", "listeners": [listener]},
    }
    return [gateway_class(), made]


def ingress_class(name: str) -> dict[str, Any]:
    """An IngressClass that the process below serves."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IngressClass",
        "metadata": {"name": name},
        "spec": {"controller": "traefik.io/ingress-controller"},
    }


@contextmanager
def gateway_process(
    env: Mapping[str, str], port: int, folder: Path, *, tls_port: int = 0
) -> Iterator[None]:
    """The gateway as a process, of the cluster that the environment names.

    Args:
        env: Has the KUBECONFIG.
        port: Local port of listeners without TLS.
        folder: Takes the log.
        tls_port: Local port of listeners with TLS; 0 for any.
    """
    command = [program(MODULES / "traefik", "."), str(port), str(tls_port or free_port())]
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(command, env={**os.environ, **env}, stdout=log, stderr=log)
    try:
        wait_listening(process, port)
        yield
    finally:
        process.terminate()
        process.wait(10)
