"""A bare control plane from its administrator's view: kubectl, and extensions of its API."""

from pathlib import Path

from support.api_extension import Extension
from support.chart_rights import PROGRAMS
from support.kubectl import Kubectl


def kubectl_of(kubeconfig: Path, namespace: str) -> Kubectl:
    """kubectl in a namespace of the control plane; its cache goes with the plane's folder."""
    home = str(kubeconfig.parent)
    environment = {"KUBECONFIG": str(kubeconfig), "PATH": str(PROGRAMS), "HOME": home}
    return Kubectl(environment, namespace)


def extension_flags(kubeconfig: Path, extension: Extension) -> list[str]:
    """Flags that every API server of the metrics library needs to serve on the loopback.

    Its certificate is that of the control plane, which is valid for localhost.
    """
    pki = kubeconfig.parent / "pki"
    uses = ("authentication-kubeconfig", "authorization-kubeconfig", "lister-kubeconfig")
    return [
        *(f"--{use}={kubeconfig}" for use in uses),
        "--bind-address=127.0.0.1",
        f"--secure-port={extension.port}",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
    ]
