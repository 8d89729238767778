"""The init container that fetches a model, and the empty volume that it fetches it to.

It is the bundled runtime's image with another command, so that a node that serves has it already.
The volume outlives containers: one that is started again goes on with what the last one brought.
"""

from typing import Any

from moorage_operator import names
from moorage_operator.api.v1alpha1 import ModelSpec, ModelUri
from moorage_operator.config import OperatorConfig

__all__ = ["CREDENTIAL_PREFIX", "make_fetch_container", "make_fetch_volume"]

COMMAND = "moorage-fetch"
CREDENTIAL_PREFIX = "MOORAGE_CREDENTIAL_"
MESSAGE_FILE = "/dev/termination-log"  # the kubelet's default
# Enough for eight connections; what is written counts as cache, which the kernel takes back.
RESOURCES: dict[str, Any] = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"memory": "512Mi"},
}


def make_fetch_volume(model: ModelSpec) -> dict[str, Any]:
    """The volume; with a limit the kubelet ends a pod that writes more."""
    limit = model.download.size_limit
    empty = {"sizeLimit": limit} if limit else {}
    return {"name": names.MODEL_VOLUME, "emptyDir": empty}


def make_fetch_container(
    model: ModelSpec, uri: ModelUri, config: OperatorConfig
) -> dict[str, Any]:
    """The container; the Secret's keys are its variables, with a prefix."""
    limit = model.download.size_limit
    secret = model.credentials.secret_name
    words = [
        # the kubelet would put variables in the place of $(NAME)
        uri.text.replace("$", "$$"),
        "--volume",
        names.FETCH_MOUNT_PATH,
        "--message-file",
        MESSAGE_FILE,
        *(["--size-limit", limit] if limit else []),
    ]
    source = {"prefix": CREDENTIAL_PREFIX, "secretRef": {"name": secret}}
    return {
        "name": names.FETCH_CONTAINER,
        "image": config.runtime_image,
        **({"imagePullPolicy": config.image_pull_policy} if config.image_pull_policy else {}),
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
