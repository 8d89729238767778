"""Every label that the operator writes or selects by.

The selector is immutable in a Deployment, so it is made here alone and of the model's name alone.
"""

from .api.v1alpha1 import GROUP
from .shortening import shortened

__all__ = [
    "CHILDREN_SELECTOR",
    "MANAGED_BY",
    "MODEL",
    "NAME",
    "REVISION",
    "TEMPLATE_HASH",
    "child",
    "model_value",
    "pod",
    "revision_selector",
    "selector",
    "selector_text",
]

MANAGED_BY = "app.kubernetes.io/managed-by"
NAME = "app.kubernetes.io/name"
MODEL = f"{GROUP}/model"
REVISION = f"{GROUP}/revision"
# Given by the Deployment controller.
TEMPLATE_HASH = "pod-template-hash"

MANAGER = "moorage"
CHILDREN_SELECTOR = f"{MANAGED_BY}={MANAGER}"


def model_value(model_name: str) -> str:
    """Value of the label `moorage.dev/model`: the name, shortened with a hash above 63."""
    return shortened(model_name)


def selector(model_name: str) -> dict[str, str]:
    """Labels that select this model's pods, and no others, within its namespace."""
    return {MANAGED_BY: MANAGER, MODEL: model_value(model_name)}


def revision_selector(model_name: str, revision: str) -> dict[str, str]:
    """Labels that select the pods of one revision of this model."""
    return {**selector(model_name), REVISION: revision}


def selector_text(model_name: str) -> str:
    """The selector as the scale subresource wants it: `key=value,key=value`."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(model_name).items()))


def child(model_name: str) -> dict[str, str]:
    """Labels of a Deployment or Service of this model."""
    return {**selector(model_name), NAME: model_value(model_name)}


def pod(model_name: str, revision: str) -> dict[str, str]:
    """Labels of a pod: those of a child and the revision of the template that it was made from."""
    return {**child(model_name), REVISION: revision}
