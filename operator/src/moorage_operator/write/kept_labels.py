"""Refuses children whose labels admission changed during a write. Pure.

The operator watches only objects with its labels. A child that a policy labels otherwise would
never appear, and would be written again for ever.
"""

from collections.abc import Mapping
from typing import Any

from moorage_operator.api import labels
from moorage_operator.kube import errors

__all__ = ["check_labels"]


def check_labels(written: Mapping[str, Any], wanted: Mapping[str, str]) -> None:
    """Check that a written child has the labels by which the operator finds it.

    Args:
        written: The child as the API server returned it.
        wanted: All labels that it should have.

    Raises:
        Forbidden: Admission changed one of them.
    """
    found = written["metadata"].get("labels") or {}
    for label in (labels.MANAGED_BY, labels.MODEL):
        if found.get(label) != wanted.get(label):
            raise errors.Forbidden(
                f"admission changed the label {label} from {wanted.get(label, '')!r} to "
                f"{found.get(label, '')!r}: the operator finds its objects by this label, so "
                "exempt them from the policy",
                code=403,
            )
