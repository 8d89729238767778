"""How a model's files reach the container: a volume, its mount, and the path to look in.

`pvc://claim/path` mounts the claim whole, read-only, and points the runtime at the path in it.
`configmap://name` mounts the ConfigMap as one model's folder. `oci://` is a volume that the node
pulls where the cluster has those. Of every other scheme an init container fetches the model into
an empty volume of the pod, of which the server sees the one folder that appears when the model is
whole (`fetch`).
"""

from dataclasses import dataclass
from typing import Any

from moorage_operator import names
from moorage_operator.api.v1alpha1 import ModelSpec, ModelUri, Scheme
from moorage_operator.config import OperatorConfig

from .fetch import make_fetch_container, make_fetch_volume

__all__ = ["Storage", "make_storage"]

REPOSITORY_VARIABLE = "MOORAGE_MODEL_REPOSITORY"
NAME_VARIABLE = "MOORAGE_MODEL_NAME"


@dataclass(frozen=True, slots=True)
class Storage:
    """Pieces of a pod template; all empty where the image holds the model."""

    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    init_containers: tuple[dict[str, Any], ...] = ()


def make_storage(model: ModelSpec, config: OperatorConfig) -> Storage:
    """The pieces for one model.

    The name goes with the files: to the bundled runtime it says that the whole folder is this one
    model. An image that holds models knows their names itself.
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
    return Storage(
        volumes=(_make_image_volume(uri) if mounted else _make_volume(model, uri),),
        mounts=(mount,),
        env=(
            {"name": REPOSITORY_VARIABLE, "value": f"{root}/{uri.path}" if uri.path else root},
            {"name": NAME_VARIABLE, "value": model.name},
        ),
        init_containers=(make_fetch_container(model, uri, config),) if fetched else (),
    )


def _make_image_volume(uri: ModelUri) -> dict[str, Any]:
    """The image itself. With Always a kubelet would ask the registry at each sync of the pod."""
    image = {"reference": uri.image, "pullPolicy": "IfNotPresent"}
    return {"name": names.MODEL_VOLUME, "image": image}


def _make_volume(model: ModelSpec, uri: ModelUri) -> dict[str, Any]:
    if uri.scheme is Scheme.PVC:
        claim = {"claimName": uri.name, "readOnly": True}
        return {"name": names.MODEL_VOLUME, "persistentVolumeClaim": claim}
    if uri.scheme is Scheme.CONFIG_MAP:
        return {"name": names.MODEL_VOLUME, "configMap": {"name": uri.name}}
    return make_fetch_volume(model)
