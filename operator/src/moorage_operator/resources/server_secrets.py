"""The Secrets that a server reads: its certificate, and the bearer tokens of its clients.

    spec.tls, spec.access --> volumes, mounts and settings of the container `runtime`

Each Secret is mounted as a whole volume, never as a subPath: the kubelet then updates the files
when the Secret changes, and the server reloads them. The template contains only the names of the
Secrets, so a renewed certificate or a rotated token starts no rollout.

Source: Kubernetes concepts, "Secrets", "Using Secrets as files from a Pod".
"""

from collections.abc import Iterator
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import InferenceModel

__all__ = ["make_secret_env", "make_secret_mounts", "make_secret_volumes"]

CERTIFICATE_VARIABLE = "MOORAGE_TLS_CERTIFICATE"
KEY_VARIABLE = "MOORAGE_TLS_KEY"
TOKEN_VARIABLE = "MOORAGE_TOKEN_FILE"  # noqa: S105  the name of a setting


def make_secret_volumes(model: InferenceModel) -> list[dict[str, Any]]:
    """Build the volumes of the Secrets that the spec names."""
    return [
        {"name": volume, "secret": {"secretName": secret}} for volume, secret, _ in _mounted(model)
    ]


def make_secret_mounts(model: InferenceModel) -> list[dict[str, Any]]:
    """Build the mounts of these volumes."""
    return [
        {"name": volume, "mountPath": path, "readOnly": True}
        for volume, _, path in _mounted(model)
    ]


def make_secret_env(model: InferenceModel) -> list[dict[str, Any]]:
    """Build the bundled runtime's settings; other images may read the same variables."""
    found: dict[str, str] = {}
    if model.tls:
        found[CERTIFICATE_VARIABLE] = f"{names.TLS_MOUNT_PATH}/tls.crt"
        found[KEY_VARIABLE] = f"{names.TLS_MOUNT_PATH}/tls.key"
    if model.access.token_secret_name:
        found[TOKEN_VARIABLE] = names.TOKEN_MOUNT_PATH
    return [{"name": name, "value": value} for name, value in found.items()]


def _mounted(model: InferenceModel) -> Iterator[tuple[str, str, str]]:
    """Yield the volume, the Secret and the mount path of each."""
    if model.tls:
        yield names.TLS_VOLUME, model.tls.secret_name, names.TLS_MOUNT_PATH
    if model.access.token_secret_name:
        yield names.TOKEN_VOLUME, model.access.token_secret_name, names.TOKEN_MOUNT_PATH
