"""Conditions of a model's status, as the API server returns them."""

from typing import Any


def condition(
    type_: str, status: str, reason: str, message: str = "", since: str | None = None
) -> dict[str, Any]:
    """A condition that generation 2 has; `since` is the time of its last transition."""
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": 2,
        "lastTransitionTime": since,
    }
