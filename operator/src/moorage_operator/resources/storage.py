"""The volume with a model's files, its mount, and the model's path in it.

`pvc://claim/path` mounts the whole claim read-only and sets the path in it. `configmap://name`
mounts the ConfigMap as the model's folder. For `oci://` the node pulls an image volume if the
cluster supports that. For all other schemes an init container downloads the model into an empty
volume (`fetch`); the server only sees a folder that appears once the model is complete.
"""

from dataclasses import dataclass
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import ModelSpec, ModelUri, Scheme

from .fetch import make_fetch_container, make_fetch_volume

__all__ = ["NAME_VARIABLE", "PATH_VARIABLE", "Storage", "make_storage"]

REPOSITORY_VARIABLE = "MOORAGE_MODEL_REPOSITORY"
NAME_VARIABLE = "MOORAGE_MODEL_NAME"
PATH_VARIABLE = "MOORAGE_MODEL_PATH"


@dataclass(frozen=True, slots=True)
class Storage:
    """Parts of a pod template; all empty if the image contains the model.

    `path` is where the container finds the model.
    """

    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    init_containers: tuple[dict[str, Any], ...] = ()
    path: str = ""


def make_storage(model: ModelSpec, config: OperatorConfig) -> Storage:
    """Build the parts for one model.

    The variable with the model's name tells the bundled runtime that the whole folder is this one
    model. An image that contains models knows their names itself.
    """
    uri = model.uri
    if uri is None:
        return Storage()
    mounted = model.is_mounted_image(available=config.image_volumes)
    fetched = uri.scheme.is_fetched and not mounted
    root = names.MODEL_MOUNT_PATH
    mount: dict[str, Any] = {"name": names.MODEL_VOLUME, "mountPath": root, "readOnly": True}
    if fetched:
        mount["subPath"] = names.FETCHED_FOLDER
    path = f"{root}/{uri.path}" if uri.path else root
    return Storage(
        volumes=(_make_image_volume(uri) if mounted else _make_volume(model, uri),),
        mounts=(mount,),
        env=(
            {"name": REPOSITORY_VARIABLE, "value": path},
            {"name": NAME_VARIABLE, "value": model.name},
        ),
        init_containers=(make_fetch_container(model, uri, config),) if fetched else (),
        path=path,
    )


def _make_image_volume(uri: ModelUri) -> dict[str, Any]:
    """Build an image volume. With Always, a kubelet would query the registry at each sync."""
    image = {"reference": uri.image, "pullPolicy": "IfNotPresent"}
    return {"name": names.MODEL_VOLUME, "image": image}


def _make_volume(model: ModelSpec, uri: ModelUri) -> dict[str, Any]:
    if uri.scheme is Scheme.PVC:
        claim = {"claimName": uri.name, "readOnly": True}
        return {"name": names.MODEL_VOLUME, "persistentVolumeClaim": claim}
    if uri.scheme is Scheme.CONFIG_MAP:
        return {"name": names.MODEL_VOLUME, "configMap": {"name": uri.name}}
    return make_fetch_volume(model)
