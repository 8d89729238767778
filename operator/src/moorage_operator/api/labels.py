"""All labels that the operator writes or selects by.

A Deployment's selector is immutable, so it is built only here and only from the model's name.
"""

from .names import shortened
from .v1alpha1 import GROUP

__all__ = [
    "CHILDREN_SELECTOR",
    "MANAGED_BY",
    "MODEL",
    "NAME",
    "OWN_PREFIXES",
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
# Set by the Deployment controller.
TEMPLATE_HASH = "pod-template-hash"

# Prefixes of all labels and annotations that the operator itself sets in a template.
OWN_PREFIXES = (f"{GROUP}/", "app.kubernetes.io/")

MANAGER = "moorage"
CHILDREN_SELECTOR = f"{MANAGED_BY}={MANAGER}"


def model_value(model_name: str) -> str:
    """Return the value of the label `moorage.dev/model`: the name or its shortened form."""
    return shortened(model_name)


def selector(model_name: str) -> dict[str, str]:
    """Return labels that select exactly this model's pods within its namespace."""
    return {MANAGED_BY: MANAGER, MODEL: model_value(model_name)}


def revision_selector(model_name: str, revision: str) -> dict[str, str]:
    """Return labels that select the pods of one revision of this model."""
    return {**selector(model_name), REVISION: revision}


def selector_text(model_name: str) -> str:
    """Return the selector in the form of the scale subresource: `key=value,key=value`."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector(model_name).items()))


def child(model_name: str) -> dict[str, str]:
    """Return the labels of a Deployment or Service of this model."""
    return {**selector(model_name), NAME: model_value(model_name)}


def pod(model_name: str, revision: str) -> dict[str, str]:
    """Return the labels of a pod: those of a child and the revision of its template."""
    return {**child(model_name), REVISION: revision}
