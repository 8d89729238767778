"""Keys and certificates of one cluster, created with openssl.

One authority signs all of them, because the cluster is disposable. Existing certificates are kept,
so a repeated `up` changes nothing. A certificate gets its final name when it is complete.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from moorage_localcluster import layout as places
from moorage_localcluster.layout import Layout
from moorage_localcluster.processes import run

VALID_DAYS = "825"
KEY_MODE = 0o600


@dataclass(frozen=True, slots=True)
class Subject:
    """One certificate to create: file name, subject, alternative names."""

    file: str
    common_name: str
    organization: str = ""
    names: str = ""


def subjects(layout: Layout) -> tuple[Subject, ...]:
    """Every certificate of a cluster; pure."""
    api_names = (
        f"IP:127.0.0.1,IP:{places.BRIDGE_ADDRESS},IP:{places.API_SERVICE_ADDRESS},DNS:localhost,"
        f"DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,"
        f"DNS:kubernetes.default.svc.{places.CLUSTER_DOMAIN}"
    )
    control = (
        Subject("apiserver", "kube-apiserver", names=api_names),
        Subject("admin", "moorage-local-admin", "system:masters"),
        Subject(places.FRONT_PROXY, places.FRONT_PROXY),
        Subject("kube-controller-manager", "system:kube-controller-manager"),
    )
    if not layout.full:
        return control
    node = places.NODE_NAME
    return (
        *control,
        Subject("apiserver-kubelet-client", "kube-apiserver-kubelet-client", "system:masters"),
        Subject("kube-scheduler", "system:kube-scheduler"),
        Subject("kube-proxy", "system:kube-proxy", "system:node-proxier"),
        Subject("coredns", "system:coredns"),
        Subject("kubelet", f"system:node:{node}", "system:nodes"),
        Subject("kubelet-server", node, names=f"IP:{places.BRIDGE_ADDRESS},DNS:{node}"),
    )


def make_all(layout: Layout) -> None:
    """Create the missing keys and certificates."""
    layout.pki.mkdir(parents=True, exist_ok=True)
    os.chmod(layout.pki, 0o700)  # noqa: PTH101 - Path.chmod follows the same call
    _make_authority(layout.pki)
    _make_service_account_key(layout.pki)
    for subject in subjects(layout):
        _make_certificate(layout.pki, subject)


def _make_authority(pki: Path) -> None:
    if (pki / "ca.crt").exists():
        return
    run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            VALID_DAYS,
            "-subj",
            "/CN=moorage-local-ca",
            "-keyout",
            pki / "ca.key",
            "-out",
            pki / "ca.partial",
        ]
    )
    (pki / "ca.key").chmod(KEY_MODE)
    (pki / "ca.partial").rename(pki / "ca.crt")


def _make_service_account_key(pki: Path) -> None:
    if (pki / "sa.pub").exists():
        return
    run(["openssl", "genrsa", "-out", pki / "sa.key", "2048"])
    (pki / "sa.key").chmod(KEY_MODE)
    run(["openssl", "rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.partial"])
    (pki / "sa.partial").rename(pki / "sa.pub")


def _make_certificate(pki: Path, subject: Subject) -> None:
    certificate = pki / f"{subject.file}.crt"
    if certificate.exists():
        return
    name = (
        f"/O={subject.organization}" if subject.organization else ""
    ) + f"/CN={subject.common_name}"
    key, request, extensions = (pki / f"{subject.file}.{end}" for end in ("key", "csr", "ext"))
    lines = ["keyUsage=digitalSignature", "extendedKeyUsage=serverAuth,clientAuth"]
    if subject.names:
        lines.append(f"subjectAltName={subject.names}")
    extensions.write_text("\n".join(lines) + "\n")
    run(
        [
            "openssl",
            "req",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-subj",
            name,
            "-keyout",
            key,
            "-out",
            request,
        ]
    )
    key.chmod(KEY_MODE)
    partial = certificate.with_suffix(".partial")
    run(
        [
            "openssl",
            "x509",
            "-req",
            "-in",
            request,
            "-CA",
            pki / "ca.crt",
            "-CAkey",
            pki / "ca.key",
            "-CAcreateserial",
            "-days",
            VALID_DAYS,
            "-extfile",
            extensions,
            "-out",
            partial,
        ]
    )
    partial.rename(certificate)
    request.unlink()
    extensions.unlink()
