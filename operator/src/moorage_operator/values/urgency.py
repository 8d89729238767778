"""How soon a change needs a reconcile of its model.

store, poller --> Urgency --> queue
"""

from enum import IntEnum

__all__ = ["Urgency"]


class Urgency(IntEnum):
    """The urgency of a change, the most urgent first."""

    READINESS = 0
    """Traffic depends on it: the readiness of a pod or the answer of a server changed."""

    SPEC = 1
    """A model was edited or lost a child, or its timer expired."""

    ROUTINE = 2
    """Other changes, such as those of existing children and of references."""
