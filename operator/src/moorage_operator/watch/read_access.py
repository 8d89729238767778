"""Tracks whether the operator may still read what a condition or a URL is decided from.

    liveness of the watches --> **ReadAccess** --> store.gateways: Gateways of a namespace
                                               --> store: kinds of children, by namespace

The API server checks a right only when a watch begins. While it refuses the watch, the store keeps
the objects, but no plan relies on them: their statuses may have changed since. A connection error
after a refusal proves nothing, so the refusal counts until a request succeeds.
"""

from collections.abc import Callable, Iterable

from moorage_operator.api.rights import REPORTING
from moorage_operator.kube import kinds
from moorage_operator.kube.reflector import Reflector
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.store.store import Store

from .namespaces import is_lasting_refusal

__all__ = ["ReadAccess", "reports"]

_NAMES = {kind: name for name, kind in kinds.CHILDREN.items() if name in REPORTING}


def reports(reflector: Reflector) -> bool:
    """Whether a condition is decided from the status of the objects of a watch."""
    return reflector.kind in _NAMES


class ReadAccess:
    """Keeps plans from relying on objects that the operator may no longer read.

    Args:
        gateways: The Gateways.
        store: The children.
        reflectors: Returns the watches that run now.
    """

    def __init__(
        self, gateways: GatewayStore, store: Store, reflectors: Callable[[], Iterable[Reflector]]
    ) -> None:
        self._gateways = gateways
        self._store = store
        self._reflectors = reflectors
        self._refused: frozenset[tuple[kinds.Kind, str]] = frozenset()

    def look(self) -> None:
        """Detect changes; called about once per second."""
        running = list(self._reflectors())
        self._refused = frozenset(
            (each.kind, each.namespace) for each in running if self._is_refused(each)
        )
        for each in running:
            if each.kind is kinds.GATEWAYS and each.synced.is_set():
                if (each.kind, each.namespace) in self._refused:
                    self._gateways.put_unreadable(each.namespace)
                else:
                    self._gateways.end_list(each.namespace)
        self._store.put_unreadable_kinds(
            frozenset(
                (_NAMES[kind], namespace) for kind, namespace in self._refused if kind in _NAMES
            )
        )

    def _is_refused(self, reflector: Reflector) -> bool:
        liveness = reflector.liveness
        was_refused = (reflector.kind, reflector.namespace) in self._refused
        return is_lasting_refusal(liveness) or (was_refused and bool(liveness.failure))
