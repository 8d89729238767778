"""The real KEDA: its kinds, and its two programs as processes next to a control plane.

    HPA controller --> API server --> adapter -- gRPC --> operator --> Prometheus
                                                             '--> steps between zero and one

The kinds come from the pinned module, which is downloaded quickly. Building the programs takes
long, because KEDA includes clients for every cloud.
"""

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.api_extension import LOCALHOST, Extension, extended, process
from support.control_plane import extension_flags, kubectl_of
from support.go_programs import ROOT, program, source
from support.listening import free_port
from support.operator_cluster import Api

MODULE = ROOT / "tests" / "integration" / "keda"
PATH = "github.com/kedacore/keda/v2"
PROGRAMS = ("operator", "adapter")
NAMESPACE = "keda"


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
    # while they are built, KEDA is not in the API, where nothing would answer yet
    programs = [program(MODULE, f"{PATH}/cmd/{name}", name) for name in PROGRAMS]
    extension = Extension(
        "keda-adapter", NAMESPACE, "external.metrics.k8s.io", "v1beta1", free_port(), LOCALHOST
    )
    asked, certificates = free_port(), _certificates(api.kubeconfig.parent / "pki", folder)
    operator, adapter = _commands(programs, certificates, asked)
    adapter += extension_flags(api.kubeconfig, extension)
    kubectl = kubectl_of(api.kubeconfig, NAMESPACE)
    env = {**os.environ, **_environment(api.kubeconfig)}
    with ExitStack() as undo:
        for each in kinds():
            api.of("CustomResourceDefinition").create(body=each)
            undo.callback(api.delete, "CustomResourceDefinition", each["metadata"]["name"])
        kubectl.run("create", "namespace", NAMESPACE)
        undo.callback(kubectl.run, "delete", "namespace", NAMESPACE, "--wait=false")
        undo.enter_context(process(operator, folder / "operator.log", env))
        undo.enter_context(extended(kubectl, extension, adapter, folder / "adapter.log", env))
        yield


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
    programs: Sequence[Path], certificates: Path, asked: int
) -> tuple[list[str | Path], list[str | Path]]:
    operator, adapter = programs
    return [
        operator,
        f"--metrics-service-bind-address=127.0.0.1:{asked}",
        f"--metrics-bind-address=127.0.0.1:{free_port()}",
        f"--health-probe-bind-address=127.0.0.1:{free_port()}",
        f"--cert-dir={certificates}",
        "--enable-webhook-patching=false",
        "--enable-apiservice-patching=false",
    ], [
        adapter,
        f"--metrics-service-address=localhost:{asked}",
        f"--port={free_port()}",
        f"--cert-dir={certificates}",
    ]


def _environment(kubeconfig: Path) -> dict[str, str]:
    return {
        "KUBECONFIG": str(kubeconfig),
        "POD_NAMESPACE": NAMESPACE,
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }
