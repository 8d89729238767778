"""Reads the spec and the template of an earlier revision from its record; pure.

    ReplicaSet --> RevisionRecord --> exact --> the spec and the template of an earlier revision

A revision is the hash of a pod template, which depends on the spec and on the version of the
operator. The hash in `written` depends on the spec alone. While it is unchanged, the revision
stays as it was first rendered, so a newer operator restarts no pod, and a failed revision stays
rejected.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, cast

import msgspec

from moorage_operator.api import labels
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel, parse
from moorage_operator.api.written_spec import UnreadableSpec, read_kept
from moorage_operator.resources.pod_template import make_pod_template, revision_of
from moorage_operator.values.observed import RevisionRecord

__all__ = ["exact", "read_spec", "read_template", "unreadable"]

# Fields that are taken from the current model.
PRESENT = (
    "namespace", "name", "uid", "generation", "replicas", "suspend", "paused", "scaling",
    "disruption_budget", "network_policy", "route", "object_metadata", "rollout",
)  # fmt: skip

# A reconcile during a rollout reads one or two specs several times.
READ_SPECS = 64


def read_spec(record: RevisionRecord, model: InferenceModel) -> InferenceModel | None:
    """Read the spec of a revision, with the current name, size and rollout section.

    None if it was not kept, or was written by a version of the operator with another format.
    """
    try:
        then = _parsed(record.spec, model.name)
    except UnreadableSpec:
        return None
    return replace(then, **{name: getattr(model, name) for name in PRESENT})


def exact(
    record: RevisionRecord, revision: str, model: InferenceModel, config: OperatorConfig
) -> RevisionRecord:
    """Return the record with the template that this operator renders, if that is the revision.

    A Deployment that was edited by hand also creates a ReplicaSet with the revision's label and
    spec, and its age does not always show that it is not the original. So the record's template is
    used only if another version of the operator rendered the revision.
    """
    then = read_spec(record, model)
    if then is None:
        return record
    rendered = make_pod_template(then, config)
    if revision_of(rendered) != revision:
        return record
    return replace(record, template=msgspec.json.encode(rendered))


def unreadable(record: RevisionRecord | None, model: InferenceModel) -> str:
    """Say why the spec of a revision cannot be read, as the end of a sentence; "" if it can."""
    try:
        _parsed(record.spec if record else b"", model.name)
    except UnreadableSpec as error:
        return str(error)
    return ""


@lru_cache(READ_SPECS)
def _parsed(text: bytes, name: str) -> InferenceModel:
    """Parse a kept spec.

    Raises:
        UnreadableSpec: It cannot be read, or this version of the operator rejects it.
    """
    metadata = {"name": name, "namespace": "", "uid": ""}
    then = parse({"metadata": metadata, "spec": read_kept(text)})
    if then.problems:
        sentences = "; ".join(str(problem) for problem in then.problems)
        raise UnreadableSpec(f"is invalid for this version of the operator: {sentences}")
    return then


def read_template(record: RevisionRecord, model: InferenceModel) -> dict[str, Any]:
    """Return the pod template of a revision, without annotations and labels of other tools.

    `kubectl rollout restart` sets an annotation. If the template kept it, the operator would own
    it, undo the next restart, and restart pods if the Deployment has a newer value.

    Args:
        record: The record of the revision.
        model: The spec that the revision was rendered from.
    """
    template: dict[str, Any] = msgspec.json.decode(record.template)
    written = _metadata_of(model.pod_template)
    metadata = {
        name: marks
        for name in ("labels", "annotations")
        if (marks := _own_marks(template["metadata"].get(name), written.get(name)))
    }
    return {**template, "metadata": metadata}


def _metadata_of(overlay: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata: object = overlay.get("metadata")
    return cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}


def _own_marks(found: Mapping[str, str] | None, written: object) -> dict[str, str]:
    """Return the labels or annotations that the spec names or that have our prefixes."""
    named = cast("Mapping[str, Any]", written) if isinstance(written, Mapping) else {}
    return {
        key: value
        for key, value in (found or {}).items()
        if key in named or key.startswith(labels.OWN_PREFIXES)
    }
