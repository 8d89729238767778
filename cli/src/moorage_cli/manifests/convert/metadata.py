"""Names, labels and annotations of a resource, and what its old cluster wrote into it; pure.

draft --> **metadata** --> draft
"""

import re
from collections.abc import Mapping

from .conversion import ConversionError
from .draft import Draft, mapping_of
from .fields import Field

__all__ = ["FIELDS", "carry_metadata", "set_head", "valid_name"]

GROUP_VERSION = "moorage.dev/v1alpha1"
_BY_THE_CLUSTER = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_WRITTEN = "the old cluster wrote it"

FIELDS = (
    Field("metadata.name", "metadata.name"),
    Field("metadata.namespace", "metadata.namespace"),
    Field("metadata.labels", "metadata.labels"),
    Field("metadata.annotations", "metadata.annotations"),
    Field("metadata.ownerReferences", remark="the new object gets an owner of its own"),
    Field("metadata.finalizers", remark="its controller does not serve the new object"),
)


def set_head(draft: Draft, kind: str) -> None:
    """Set kind and version of the result, and leave what the old cluster wrote."""
    draft.take("apiVersion")
    draft.take("kind")
    draft.put("apiVersion", GROUP_VERSION)
    draft.put("kind", kind)
    for name in _BY_THE_CLUSTER:
        draft.skip(("metadata", name), _WRITTEN)
    draft.skip(("metadata", "annotations", _LAST_APPLIED), _WRITTEN)
    draft.skip(("status",), _WRITTEN)


def carry_metadata(draft: Draft) -> str:
    """Carry over name, namespace, labels and the annotations that are still open.

    Returns:
        The name of the resource; empty if the API server generates it.

    Raises:
        ConversionError: The resource has no name.
    """
    prefix = draft.text("metadata", "generateName")
    draft.move(("metadata", "generateName"), "metadata.generateName")
    given = draft.text("metadata", "name")
    if not given and not prefix:
        raise ConversionError("metadata.name is absent: set it")
    if given:
        name = valid_name(given)
        if name == given:
            draft.move(("metadata", "name"), "metadata.name")
        else:
            draft.put("metadata.name", name)
            draft.change(("metadata", "name"), f"{name}: names of objects are lower case")
    draft.text("metadata", "namespace")
    draft.move(("metadata", "namespace"), "metadata.namespace")
    for part in ("labels", "annotations"):
        carry_texts(draft, ("metadata", part), f"metadata.{part}")
    return valid_name(given) if given else ""


def carry_texts(draft: Draft, path: tuple[str, ...], target: str) -> None:
    """Carry over the open strings of an object, such as labels."""
    for name in draft.keys(*path):
        draft.text(*path, name)
    taken = draft.take(*path) if draft.is_open(path) else {}
    texts: Mapping[str, str] = mapping_of(taken)
    for name, text in texts.items():
        draft.put(f"{target}[{name}]", text, (*path, name))


def valid_name(text: str) -> str:
    """A text as the name of an object: RFC 1123, at most 253 characters.

    Raises:
        ConversionError: The text has no letter and no digit.
    """
    name = re.sub(r"[^a-z0-9.-]+", "-", text.lower())
    name = re.sub(r"-*\.[-.]*", ".", name)[:253].strip("-.")
    if not name:
        raise ConversionError(f"{text!r} is invalid as a name: must have a letter or a digit")
    return name
