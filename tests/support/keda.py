"""The real KEDA: its kinds, and its two programs as processes beside a control plane.

    HPA controller --> API server --> adapter -- gRPC --> operator --> Prometheus
                                                             '--> steps between none and one

Its kinds come from the pinned module, which is a moment's download; to build the programs takes
long, because KEDA has clients for every cloud.
"""

import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.api_extension import process
from support.go_programs import ROOT, program, source
from support.listening import free_port
from support.operator_cluster import Api, eventually

MODULE = ROOT / "tests" / "integration" / "keda"
PATH = "github.com/kedacore/keda/v2"
PROGRAMS = ("operator", "adapter")
NAMESPACE = "keda"
ADAPTER = "keda-adapter"
METRICS_API = "v1beta1.external.metrics.k8s.io"
START_SECONDS = 60


def kinds() -> list[dict[str, Any]]:
    """KEDA's CustomResourceDefinitions."""
    folder = source(MODULE, PATH) / "config" / "crd" / "bases"
    return [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))]


def kind(name: str) -> dict[str, Any]:
    """One of them, such as scaledobjects.keda.sh."""
    return next(each for each in kinds() if each["metadata"]["name"] == name)


@contextmanager
def installed(api: Api, folder: Path) -> Generator[None]:
    """KEDA with everything that it needs, until the block ends.

    Args:
        api: The API as its administrator has it.
        folder: For certificates and logs.
    """
    # as long as they are built nothing of KEDA is in the API, where it would answer nobody
    programs = [program(MODULE, f"{PATH}/cmd/{name}", name) for name in PROGRAMS]
    definitions = kinds()
    objects = [_namespace(), *_api_service(port := free_port())]
    with ExitStack() as undo:
        for each in definitions:
            api.of("CustomResourceDefinition").create(body=each)
            undo.callback(api.delete, "CustomResourceDefinition", each["metadata"]["name"])
        _kubectl(api, "apply", "--filename=-", stdin=yaml.safe_dump_all(objects))
        undo.callback(
            _kubectl,
            api,
            "delete",
            "--filename=-",
            "--wait=false",
            stdin=yaml.safe_dump_all(objects),
        )
        certificates = _certificates(api.kubeconfig.parent / "pki", folder)
        for command in _commands(programs, api.kubeconfig, certificates, port):
            environment = {**os.environ, **_environment(api.kubeconfig)}
            log = folder / f"{Path(command[0]).name}.log"
            undo.enter_context(process(command, log, environment))
        eventually("KEDA's metrics are in the API", lambda: _is_served(api), seconds=START_SECONDS)
        yield


def _namespace() -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}


def _api_service(port: int) -> list[dict[str, Any]]:
    """A name of the loopback, because no Service leads there."""
    version, _, group = METRICS_API.partition(".")
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": ADAPTER, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": METRICS_API},
            "spec": {
                "service": {"name": ADAPTER, "namespace": NAMESPACE, "port": port},
                "group": group,
                "version": version,
                "insecureSkipTLSVerify": True,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
            },
        },
    ]


def _certificates(pki: Path, folder: Path) -> Path:
    """The folder that both programs take theirs from: the control plane's, for localhost."""
    made = folder / "certificates"
    made.mkdir()
    for name, of in (
        ("ca.crt", "ca.crt"),
        ("tls.crt", "apiserver.crt"),
        ("tls.key", "apiserver.key"),
    ):
        (made / name).symlink_to(pki / of)
    return made


def _commands(
    programs: Sequence[Path], kubeconfig: Path, certificates: Path, port: int
) -> list[list[str | Path]]:
    operator, adapter = programs
    asked = free_port()
    return [
        [
            operator,
            f"--metrics-service-bind-address=127.0.0.1:{asked}",
            f"--metrics-bind-address=127.0.0.1:{free_port()}",
            f"--health-probe-bind-address=127.0.0.1:{free_port()}",
            f"--cert-dir={certificates}",
            "--enable-webhook-patching=false",
            "--enable-apiservice-patching=false",
        ],
        [
            adapter,
            f"--metrics-service-address=localhost:{asked}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--port={free_port()}",
            f"--cert-dir={certificates}",
            f"--tls-cert-file={certificates / 'tls.crt'}",
            f"--tls-private-key-file={certificates / 'tls.key'}",
            *(f"--{use}-kubeconfig={kubeconfig}" for use in ("authentication", "authorization")),
            f"--lister-kubeconfig={kubeconfig}",
        ],
    ]


def _environment(kubeconfig: Path) -> dict[str, str]:
    return {
        "KUBECONFIG": str(kubeconfig),
        "POD_NAMESPACE": NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }


def _is_served(api: Api) -> bool:
    text = _kubectl(api, "get", "apiservice", METRICS_API, "--output=yaml")
    conditions = yaml.safe_load(text).get("status", {}).get("conditions", [])
    return any(each["type"] == "Available" and each["status"] == "True" for each in conditions)


def _kubectl(api: Api, *words: str, stdin: str = "") -> str:
    kubectl = ROOT / "build" / "localcluster" / "bin" / "kubectl"
    return subprocess.run(
        [kubectl, f"--kubeconfig={api.kubeconfig}", *words],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
