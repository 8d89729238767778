"""The init container that downloads a model, and its volume.

It uses the image of the bundled runtime, which most nodes already have. The volume outlives the
container, so that a restarted container resumes the download.
"""

from typing import Any

from moorage_operator.api import names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import ModelSpec, ModelUri

__all__ = ["CREDENTIAL_PREFIX", "make_fetch_container", "make_fetch_volume"]

COMMAND = "moorage-fetch"
CREDENTIAL_PREFIX = "MOORAGE_CREDENTIAL_"
MESSAGE_FILE = "/dev/termination-log"  # the kubelet's default
# Enough for eight connections; written files count as cache, which the kernel reclaims.
RESOURCES: dict[str, Any] = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}


def make_fetch_volume(model: ModelSpec) -> dict[str, Any]:
    """Build the volume; the kubelet evicts a pod that exceeds its limit."""
    limit = model.download.size_limit
    empty = {"sizeLimit": limit} if limit else {}
    return {"name": names.MODEL_VOLUME, "emptyDir": empty}


def make_fetch_container(
    model: ModelSpec, uri: ModelUri, config: OperatorConfig
) -> dict[str, Any]:
    """Build the container; the keys of the Secret become variables with a prefix."""
    limit = model.download.size_limit
    secret = model.credentials.secret_name
    words = [
        _literal(uri.text),
        "--volume",
        names.FETCH_MOUNT_PATH,
        "--message-file",
        MESSAGE_FILE,
        *(["--size-limit", limit] if limit else []),
        # one word each, because a pattern may start with '-'
        *(f"--include={_literal(pattern)}" for pattern in model.files.include),
        *(f"--exclude={_literal(pattern)}" for pattern in model.files.exclude),
    ]
    source = {"prefix": CREDENTIAL_PREFIX, "secretRef": {"name": secret}}
    return {
        "name": names.FETCH_CONTAINER,
        "image": config.runtime_image,
        "imagePullPolicy": config.image_pull_policy,
        "command": [COMMAND],
        "args": words,
        **({"envFrom": [source]} if secret else {}),
        "resources": dict(model.download.resources or RESOURCES),
        "volumeMounts": [{"name": names.MODEL_VOLUME, "mountPath": names.FETCH_MOUNT_PATH}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _literal(text: str) -> str:
    """Return an argument in which the kubelet does not expand $(NAME)."""
    return text.replace("$", "$$")
