"""The last revision that served, kept by a ControllerRevision while another is tried.

Its ReplicaSet has the same. But that may be deleted, by hand or by what tidies up, and then a
rollout that fails would have nothing to go back to. Outside of rollouts there is none of these.
"""

from typing import Any

import msgspec

from moorage_operator import labels, names
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.memo import by_identity
from moorage_operator.state import RevisionRecord

from .owned import make_owned

__all__ = ["make_kept_revision", "read_kept_revision"]


@by_identity
def make_kept_revision(
    model: InferenceModel, revision: str, record: RevisionRecord
) -> dict[str, Any]:
    """The ControllerRevision.

    The applied hash leaves the data out: the name says whose it is, and what stands there can
    never be changed, while a newer API server tells templates with more defaults.
    """
    name = names.kept_revision(model.name, revision)
    child = make_owned(model, "apps/v1", "ControllerRevision", name, {})
    del child["spec"]
    child["metadata"]["labels"][labels.REVISION] = revision
    data = {"template": msgspec.json.decode(record.template), "spec": record.spec.decode()}
    return {**child, "revision": 1, "data": data}


def read_kept_revision(body: dict[str, Any]) -> RevisionRecord:
    """What `make_kept_revision` was given."""
    data = body["data"]
    return RevisionRecord(msgspec.json.encode(data["template"]), data["spec"].encode())
