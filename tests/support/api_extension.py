"""Extensions of the Kubernetes API that run as processes of this host, next to the API server.

    kubectl, controllers --> API server --> Service --> EndpointSlice --> the process on this host
                                               '--> `localhost` ------------------^

The API server authenticates as `front-proxy-client`; the process reads the authority from the
cluster.
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
LOCALHOST = "localhost"


@dataclass(frozen=True)
class Extension:
    """One group and version of the API, and the port of this host that serves it.

    Attributes:
        host: Address of the bridge, or `LOCALHOST` for a control plane without a bridge: no
            EndpointSlice may refer to the loopback, but the name of a Service may.
    """

    name: str
    namespace: str
    group: str
    version: str
    port: int
    host: str = BRIDGE_ADDRESS

    def objects(self) -> list[dict[str, Any]]:
        """The objects that connect the API server to the process."""
        service = {"name": self.name, "namespace": self.namespace, "port": self.port}
        return [
            *(self._named() if self.host == LOCALHOST else self._addressed()),
            {
                "apiVersion": "apiregistration.k8s.io/v1",
                "kind": "APIService",
                "metadata": {"name": f"{self.version}.{self.group}"},
                "spec": {
                    "service": service,
                    "group": self.group,
                    "version": self.version,
                    # the process creates its own certificate
                    "insecureSkipTLSVerify": True,
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                },
            },
        ]

    def _named(self) -> list[dict[str, Any]]:
        return [self._service({"type": "ExternalName", "externalName": self.host})]

    def _addressed(self) -> list[dict[str, Any]]:
        ports = [{"name": "https", "port": self.port}]
        labels = {"kubernetes.io/service-name": self.name}
        return [
            self._service({"ports": ports}),
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {"name": self.name, "namespace": self.namespace, "labels": labels},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [self.host]}],
                "ports": ports,
            },
        ]

    def _service(self, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


@contextmanager
def extended(
    kubectl: Kubectl,
    extension: Extension,
    command: Sequence[str | Path],
    log: Path,
    env: Mapping[str, str] | None = None,
) -> Generator[None]:
    """The API with the extension that the command serves, until the block ends."""
    objects = extension.objects()
    api = f"{extension.version}.{extension.group}"

    def conditions() -> list[dict[str, Any]]:
        assert serving.poll() is None, log.read_text()[-4000:]
        return kubectl.get("apiservice", api).get("status", {}).get("conditions", [])

    def is_available(found: list[dict[str, Any]]) -> bool:
        return any(each["type"] == "Available" and each["status"] == "True" for each in found)

    with process(command, log, env) as serving:
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
