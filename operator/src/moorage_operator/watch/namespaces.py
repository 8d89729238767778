"""Tracks which of the configured namespaces the operator can access.

    liveness of the watches --> **Namespaces** --> reconcile its models? metric, log, /readyz

A namespace that was deleted, or whose RoleBinding is missing, must not affect the others: its
watches are refused, its models are not changed, and it is served again once access is restored.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moorage_operator.kube.liveness import Liveness

__all__ = ["NamespaceWatch", "Namespaces", "is_lasting_refusal"]

logger = logging.getLogger(__name__)

REFUSED_SECONDS = 5.0
"""How long access must be denied; an API server may deny access briefly during an upgrade."""


def is_lasting_refusal(liveness: Liveness) -> bool:
    """Whether the API server denies access for longer than it might during an upgrade."""
    return liveness.refused_seconds() >= REFUSED_SECONDS


@dataclass(frozen=True, slots=True)
class NamespaceWatch:
    """A watch in a namespace.

    Attributes:
        liveness: Whether it works.
        is_synced: Whether its initial list is complete.
        is_required: Whether models cannot be served without it.
    """

    liveness: Liveness
    is_synced: Callable[[], bool] = lambda: True
    is_required: bool = True


class Namespaces:
    """The state of each configured namespace; "" represents all namespaces.

    Args:
        names: The configured namespaces; none means all.
        watches: Returns the current watches.
        changed: Called at each change with a namespace and whether it is served.

    Attributes:
        wanted: The configured namespaces; empty means all.
        names: The same, or "" if there are none.
    """

    def __init__(
        self,
        names: Sequence[str],
        watches: Callable[[], Iterable[NamespaceWatch]],
        changed: Callable[[str, bool], None],
    ) -> None:
        self.wanted = tuple(names)
        self.names = self.wanted or ("",)
        self._watches = watches
        self._changed = changed
        self._served: dict[str, bool] = {}

    @property
    def are_settled(self) -> bool:
        """Whether each namespace is either served or refused, and at least one is served."""
        return len(self._served) == len(self.names) and any(self._served.values())

    def is_served(self, namespace: str) -> bool:
        """Whether all objects in a namespace have been listed and are watched."""
        return self._served.get(namespace if self.names != ("",) else "", False)

    def look(self) -> None:
        """Detect changes; called about once per second."""
        watches = [each for each in self._watches() if each.is_required]
        for name in self.names:
            mine = [each for each in watches if each.liveness.namespace == name]
            refused = [each for each in mine if self._is_refused(each)]
            if refused and self._served.get(name) is not False:
                self._report_refused(refused)
            if refused:
                self._set(name, is_served=False)
            elif all(each.is_synced() and not each.liveness.refused_seconds() for each in mine):
                self._set(name, is_served=True)

    def troubles(self) -> list[str]:
        """Describe broken watches.

        A refused namespace does not count while another one is served.
        """
        is_partly_served = any(self._served.values())
        return [
            trouble
            for each in self._watches()
            if not (is_partly_served and self._is_refused(each))
            and (trouble := each.liveness.trouble())
        ]

    def _is_refused(self, watch: NamespaceWatch) -> bool:
        # With one watch for all namespaces, there is no other namespace to serve.
        return bool(watch.liveness.namespace) and is_lasting_refusal(watch.liveness)

    def _set(self, name: str, *, is_served: bool) -> None:
        if self._served.get(name) is is_served:
            return
        if is_served and name in self._served:
            logger.info("namespace is served again", extra={"watched_namespace": name})
        self._served[name] = is_served
        self._changed(name, is_served)

    def _report_refused(self, refused: Sequence[NamespaceWatch]) -> None:
        first = refused[0].liveness
        logger.warning(
            "namespace is not served: the API server denies access to it; create the namespace "
            "and its RoleBinding, or remove it from --namespaces",
            extra={
                "watched_namespace": first.namespace,
                "resources": sorted(each.liveness.resource for each in refused),
                "error": first.failure,
            },
        )
