"""How soon a model must be looked at, said by whoever noticed the change.

store, poller --> Urgency --> queue: one lane for each
"""

from enum import IntEnum

__all__ = ["Urgency"]


class Urgency(IntEnum):
    """The lanes of the queue."""

    READINESS = 0
    """Traffic depends on it: a pod became ready or ceased to be, or a server said so."""

    SPEC = 1
    """Somebody waits for it: a model was made or edited, or lost a child."""

    FOLLOWING = 2
    """Of many that are made at once: what a model gets when all of them have got the first."""

    ROUTINE = 3
    """The rest: children that came about as they should, timers, retries, references."""
