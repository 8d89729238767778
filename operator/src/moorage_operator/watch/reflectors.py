"""Creates the watches of pods, children and Gateways.

API server -> Reflector of a kind and namespace -> parse_objects.Pods, .Children -> store
                                                -> PlainSink -> gateways
"""

from collections.abc import Callable, Sequence

from moorage_operator.api import labels
from moorage_operator.kube import kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Reflector, Sink
from moorage_operator.store import parse_objects
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.store.plain_sink import PlainSink
from moorage_operator.store.store import Store

__all__ = ["Watches"]


class Watches:
    """Creates the reflectors of pods and children.

    Args:
        client: The API.
        store: Receives the pods and children.
        gateways: Receives the Gateways.
        restarted: Returns, for a kind, a function that counts restarts of its watch by reason.
        namespaces: The namespaces to watch; none means all.
        clock: Returns monotonic seconds.
        rewound: Called when a list shows that etcd was restored from a backup.

    Attributes:
        children: Sinks by kind, also for the results of an apply.
    """

    def __init__(  # noqa: PLR0913 -- two stores and three injected functions
        self,
        client: KubeClient,
        store: Store,
        gateways: GatewayStore,
        restarted: Callable[[str], Callable[[str], None]],
        namespaces: Sequence[str],
        *,
        clock: Callable[[], float],
        rewound: Callable[[], None],
    ) -> None:
        self.children = {kind: parse_objects.Children(kind, store) for kind in kinds.CHILDREN}
        self._client = client
        self._store = store
        self._gateways = PlainSink(gateways.put, gateways.drop, gateways.end_list)
        self._restarted = restarted
        self._namespaces = namespaces or [""]
        self._clock = clock
        self._rewound = rewound

    def make(self) -> list[Reflector]:
        """Create the reflectors of kinds that every cluster has."""
        made = self._of(kinds.PODS, parse_objects.Pods(self._store))
        for kind, sink in self.children.items():
            if kind not in kinds.OPTIONAL:
                made += self._of(kinds.CHILDREN[kind], sink)
        return made

    def make_optional(self, kind: str, broke: Callable[[], None]) -> list[Reflector]:
        """Create the reflectors of an optional kind.

        Args:
            kind: A key of `kinds.OPTIONAL`.
            broke: Called when the watch fails, because the kind may have been removed.
        """
        if kind == kinds.GATEWAY:
            return self._of(kinds.GATEWAYS, self._gateways, broke, selector="")
        return self._of(kinds.CHILDREN[kind], self.children[kind], broke)

    def _of(
        self,
        kind: kinds.Kind,
        sink: Sink,
        broke: Callable[[], None] = lambda: None,
        *,
        selector: str = labels.CHILDREN_SELECTOR,
    ) -> list[Reflector]:
        count = self._restarted(kind.rbac_name)

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
                selector=selector,
                clock=self._clock,
                restarted=restarted,
                rewound=self._rewound,
            )
            for namespace in self._namespaces
        ]
