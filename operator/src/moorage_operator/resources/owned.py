"""The common metadata of all children: an owner reference, labels, those of the spec, and a hash.

The hash is that of the planned object. A child that already has it need not be applied again.
"""

from collections.abc import Mapping
from typing import Any

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel

from .pod_template import canonical_hash

__all__ = ["applied_hash", "make_owned", "make_owner_reference"]


def make_owned(
    model: InferenceModel,
    api_version: str,
    kind: str,
    name: str,
    spec: dict[str, Any],
    *,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Build a child with the hash annotation."""
    kept = {**model.object_metadata.annotations, **(annotations or {})}
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": model.namespace,
        "labels": {**model.object_metadata.labels, **labels.child(model.name)},
        "ownerReferences": [make_owner_reference(model)],
        "annotations": kept,
    }
    child = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
    kept[names.APPLIED_HASH] = canonical_hash(child)[:32]
    return child


def make_owner_reference(model: InferenceModel) -> dict[str, Any]:
    """Build the reference that makes the model the controller of a child."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": model.name,
        "uid": model.uid,
        "controller": True,
    }


def applied_hash(child: dict[str, Any]) -> str:
    """Return the hash annotation of a planned child."""
    return str(child["metadata"]["annotations"][names.APPLIED_HASH])
