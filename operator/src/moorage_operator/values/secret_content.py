"""The content of a Secret, or why there is none.

    watch.secret_reads (kube) --> ReadSecret --> probe.transport.credentials

Only the connections to model servers use the content. Nothing that is logged, planned or written
to the cluster contains it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

__all__ = ["ReadSecret", "Unread", "read_none"]


@dataclass(frozen=True, slots=True)
class Unread:
    """A Secret that could not be read.

    Attributes:
        why: What happened, as a clause about the Secret: "does not exist".
        reader: The user that lacks the right to read it, such as
            system:serviceaccount:moorage:moorage; "" if it is not a matter of rights.
    """

    why: str
    reader: str = ""


ReadSecret = Callable[[str, str], Awaitable[Mapping[str, bytes] | Unread]]
"""Reads the Secret of a namespace and a name; never raises."""


async def read_none(namespace: str, name: str) -> Mapping[str, bytes] | Unread:
    """Read nothing, for a process without a cluster."""
    del namespace, name
    return Unread("cannot be read without a cluster")
