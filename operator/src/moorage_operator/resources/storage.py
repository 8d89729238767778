"""How a model's files reach the container: a volume, its mount, and the path to look in.

`pvc://claim/path` mounts the claim whole, read-only, and points the runtime at the path in it.
`configmap://name` mounts the ConfigMap as one model's folder.
"""

from dataclasses import dataclass
from typing import Any

from moorage_operator import names
from moorage_operator.api.v1alpha1 import ModelSpec, Scheme

__all__ = ["Storage", "make_storage"]

REPOSITORY_VARIABLE = "MOORAGE_MODEL_REPOSITORY"
NAME_VARIABLE = "MOORAGE_MODEL_NAME"


@dataclass(frozen=True, slots=True)
class Storage:
    """Pieces of a pod template; all empty where the image holds the model."""

    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


def make_storage(model: ModelSpec) -> Storage:
    """The pieces for one model.

    The name goes with the files: to the bundled runtime it says that the whole folder is this one
    model. An image that holds models knows their names itself.
    """
    uri = model.uri
    if uri is None:
        return Storage()
    source: dict[str, Any] = (
        {"persistentVolumeClaim": {"claimName": uri.name, "readOnly": True}}
        if uri.scheme is Scheme.PVC
        else {"configMap": {"name": uri.name}}
    )
    root = names.MODEL_MOUNT_PATH
    return Storage(
        volumes=({"name": names.MODEL_VOLUME, **source},),
        mounts=({"name": names.MODEL_VOLUME, "mountPath": root, "readOnly": True},),
        env=(
            {"name": REPOSITORY_VARIABLE, "value": f"{root}/{uri.path}" if uri.path else root},
            {"name": NAME_VARIABLE, "value": model.name},
        ),
    )
