"""Extensions of the Kubernetes API that run as processes beside the local cluster.

    kubectl, controllers --> API server --> Service --> EndpointSlice --> the process on this host

The API server asks as `front-proxy-client`; the process finds in the cluster how to believe it.
"""

import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage_localcluster.layout import BRIDGE_ADDRESS
from support.kubectl import Kubectl
from support.waiting import eventually

START_SECONDS = 60


@dataclass(frozen=True)
class Extension:
    """One group and version of the API, and the port of this host that serves it."""

    name: str
    namespace: str
    group: str
    version: str
    port: int

    def objects(self) -> list[dict[str, Any]]:
        """What leads the API server to the process."""
        metadata = {"name": self.name, "namespace": self.namespace}
        labels = {"kubernetes.io/service-name": self.name}
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": metadata,
                "spec": {"ports": [{"name": "https", "port": 443, "targetPort": self.port}]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**metadata, "labels": labels},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [BRIDGE_ADDRESS]}],
                "ports": [{"name": "https", "port": self.port}],
            },
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{self.version}.{self.group}"},
                "spec": {
                    "service": {"name": self.name, "namespace": self.namespace},
                    "group": self.group,
                    "version": self.version,
                    # the process makes a certificate of its own
                    "insecureSkipTLSVerify": True,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                },
            },
        ]


@contextmanager
def extended(
    kubectl: Kubectl, extension: Extension, command: Sequence[str | Path], log: Path
) -> Generator[None]:
    """The API with the extension that the command serves, until the block ends."""
    objects = extension.objects()
    api = f"{extension.version}.{extension.group}"

    def conditions() -> list[dict[str, Any]]:
        assert serving.poll() is None, log.read_text()[-4000:]
        return kubectl.get("apiservice", api).get("status", {}).get("conditions", [])

    def is_available(found: list[dict[str, Any]]) -> bool:
        return any(each["type"] == "Available" and each["status"] == "True" for each in found)

    with process(command, log) as serving:
        kubectl.apply(*objects)
        try:
            eventually(f"the API has {api}", conditions, is_available, START_SECONDS)
            yield
        finally:
            for each in objects:
                where = f"--namespace={each['metadata'].get('namespace', 'default')}"
                kubectl.run(
                    "delete", each["kind"], each["metadata"]["name"], where, "--ignore-not-found"
                )


@contextmanager
def process(
    command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
) -> Generator[subprocess.Popen[bytes]]:
    """A process that has to run until the block ends."""
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, env=env) as started,
    ):
        try:
            yield started
            assert started.poll() is None, log.read_text()[-4000:]
        finally:
            started.terminate()
