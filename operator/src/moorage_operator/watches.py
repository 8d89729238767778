"""Which watches there are, and what each of them fills.

API server -> Reflector of a kind and namespace -> observe.Pods, observe.Children -> store
"""

from collections.abc import Callable, Sequence

from . import labels, observe
from .kube import kinds
from .kube.client import KubeClient
from .kube.reflector import Reflector, Sink
from .metrics import Metrics
from .store import Store

__all__ = ["Watches"]


class Watches:
    """Makes the reflectors of pods and children.

    Args:
        client: What watches.
        store: What is filled.
        metrics: Counts how often a watch begins again.
        namespaces: The namespaces to watch; none means all.
        clock: Of the event loop.

    Attributes:
        children: Sinks by kind, for what an apply returns as well.
    """

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        metrics: Metrics,
        namespaces: Sequence[str],
        clock: Callable[[], float],
    ) -> None:
        self.children = {kind: observe.Children(kind, store) for kind in kinds.CHILDREN}
        self._client = client
        self._store = store
        self._metrics = metrics
        self._namespaces = namespaces or [""]
        self._clock = clock

    def make(self) -> list[Reflector]:
        """Those of the kinds that every cluster has."""
        made = self._of(kinds.PODS, observe.Pods(self._store))
        for kind, sink in self.children.items():
            if kind not in kinds.OPTIONAL:
                made += self._of(kinds.CHILDREN[kind], sink)
        return made

    def make_optional(self, kind: str, broke: Callable[[], None]) -> list[Reflector]:
        """Those of a kind that a cluster may have, and lose again.

        Args:
            kind: A key of `kinds.CHILDREN`.
            broke: Called where the watch fails: the kind may be gone.
        """
        return self._of(kinds.CHILDREN[kind], self.children[kind], broke)

    def _of(
        self, kind: kinds.Kind, sink: Sink, broke: Callable[[], None] = lambda: None
    ) -> list[Reflector]:
        count = self._metrics.watch_restarted(kind.rbac_name)

        def restarted(reason: str) -> None:
            count(reason)
            if reason == "failed":
                broke()

        return [
            Reflector(
                self._client,
                kind,
                sink,
                namespace=namespace,
                selector=labels.CHILDREN_SELECTOR,
                clock=self._clock,
                restarted=restarted,
            )
            for namespace in self._namespaces
        ]
