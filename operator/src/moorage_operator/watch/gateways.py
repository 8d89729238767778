"""Tracks whether the operator may still read the Gateways that it knows.

    liveness of the Gateways' watches --> **GatewayAccess** --> store.gateways

The API server checks a right only when a watch begins. While it refuses the watch, the store keeps
the Gateways, but no plan uses them: their addresses may have changed since.
"""

from collections.abc import Callable, Iterable

from moorage_operator.kube import kinds
from moorage_operator.kube.reflector import Reflector
from moorage_operator.store.gateways import GatewayStore

from .namespaces import is_lasting_refusal

__all__ = ["GatewayAccess"]


class GatewayAccess:
    """Keeps plans from using Gateways that the operator may no longer read.

    Args:
        store: The Gateways.
        reflectors: Returns the watches of optional kinds that run now.
    """

    def __init__(self, store: GatewayStore, reflectors: Callable[[], Iterable[Reflector]]) -> None:
        self._store = store
        self._reflectors = reflectors

    def look(self) -> None:
        """Detect changes; called about once per second."""
        for each in self._reflectors():
            if each.kind is not kinds.GATEWAYS or not each.synced.is_set():
                continue
            if is_lasting_refusal(each.liveness):
                self._store.put_unreadable(each.namespace)
            elif not each.liveness.refused_seconds():
                self._store.end_list(each.namespace)
