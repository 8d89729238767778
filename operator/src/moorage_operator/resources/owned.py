"""What every child has: the owner reference that deletes it with its model, labels, a hash.

The hash is that of the object as planned. The shell skips an apply where the child carries it.
"""

from collections.abc import Mapping
from typing import Any

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel

from .pod_template import canonical_hash

__all__ = ["applied_hash", "make_owned"]


def make_owned(
    model: InferenceModel,
    api_version: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    *,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A whole child with the hash annotation beside its own."""
    kept = dict(annotations or {})
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": model.namespace,
        "labels": labels.child(model.name),
        "ownerReferences": [
            {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "name": model.name,
                "uid": model.uid,
                "controller": True,
            }
        ],
        "annotations": kept,
    }
    child = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    kept[names.APPLIED_HASH] = canonical_hash(child)[:32]
    return child


def applied_hash(child: dict[str, Any]) -> str:
    """The hash annotation of a planned child."""
    return str(child["metadata"]["annotations"][names.APPLIED_HASH])
