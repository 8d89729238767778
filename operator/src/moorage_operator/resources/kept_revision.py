"""The ControllerRevision that keeps the last revision that served during a rollout.

The ReplicaSet of the revision has the same data, but it may be deleted by a user or a cleanup
tool. Then a failed rollout could not be rolled back. Outside of rollouts there is no such object.
"""

from typing import Any

import msgspec

from moorage_operator.api import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.values.observed import RevisionRecord

from .owned import make_owned

__all__ = ["make_kept_revision", "read_kept_revision"]


def make_kept_revision(
    model: InferenceModel, revision: str, record: RevisionRecord
) -> dict[str, Any]:
    """Build the ControllerRevision.

    The applied hash does not include the data. The data is immutable and identified by the name,
    but a newer API server may return templates with more defaults.
    """
    name = names.kept_revision(model.name, revision)
    child = make_owned(model, "apps/v1", "ControllerRevision", name, {})
    del child["spec"]
    child["metadata"]["labels"][labels.REVISION] = revision
    data = {"template": msgspec.json.decode(record.template), "spec": record.spec.decode()}
    return {**child, "revision": 1, "data": data}


def read_kept_revision(body: dict[str, Any]) -> RevisionRecord:
    """Read back the record from `make_kept_revision`."""
    data = body["data"]
    return RevisionRecord(msgspec.json.encode(data["template"]), data["spec"].encode())
