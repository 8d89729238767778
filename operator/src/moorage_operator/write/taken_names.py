"""Refusals of children whose names belong to other objects."""

from typing import Any

from moorage_operator.api import names
from moorage_operator.kube import errors
from moorage_operator.values.model_record import ModelRecord

__all__ = [
    "CHECKED_EACH_TIME",
    "NameTaken",
    "being_deleted",
    "still_deleting",
    "taken_by",
]

NAME_TAKEN = "AlreadyExists"
"""The reason of a refusal for a name that another object has; the API uses the same reason."""

AWAITING_DELETION = "AwaitingDeletion"
"""The reason of a refusal for a name that an object of a deleted model still has."""

BEING_DELETED = "BeingDeleted"
"""The reason of a refusal to write a child that is being deleted."""

CHECKED_EACH_TIME = {NAME_TAKEN, AWAITING_DELETION, BEING_DELETED}
"""Reasons that may end at any event."""


class NameTaken(errors.ApiError):
    """Another object has the child's name."""

    def __init__(self, message: str, reason: str = NAME_TAKEN) -> None:
        super().__init__(message, code=409, reason=reason)


def being_deleted(kind: str, name: str) -> NameTaken:
    """Return the refusal for a child of this model that is being deleted."""
    sentence = (
        f"waiting for the deletion of {kind} {name!r}, which is created again afterwards; if it "
        "lasts, look for a finalizer on it"
    )
    return NameTaken(sentence, BEING_DELETED)


def still_deleting(kind: str, name: str) -> NameTaken:
    """Return the refusal for a name whose object is being deleted."""
    sentence = f"waiting for the deletion of {kind} {name!r}, which belongs to another object"
    return NameTaken(sentence, AWAITING_DELETION)


def taken_by(kind: str, name: str, owners: list[Any], record: ModelRecord) -> NameTaken:
    """Return the refusal for a name whose object has these owners."""
    for owner in owners:
        if owner.get("kind") == names.KIND and owner.get("name") == record.key.name:
            return NameTaken(
                f"waiting for the garbage collector to delete {kind} {name!r}, which belongs to "
                "a deleted InferenceModel of the same name",
                AWAITING_DELETION,
            )
    owned = f"belongs to {owners[0]['kind']} {owners[0]['name']!r}" if owners else "has no owner"
    return NameTaken(
        f"{kind} {name!r} already exists and {owned}: rename the InferenceModel or delete the "
        f"{kind}"
    )
