"""Watches InferenceRuntimes and the labels of namespaces.

    discovery --> is the kind installed? --> reflectors --> store.runtimes

Both are cluster-scoped, so they are watched with a ClusterRole even if the operator serves only
some namespaces. Without the kind or the right to read it, the operator works as without runtimes.
Until one of the two is known or the runtimes are listed, no model may be reconciled, because it
could start without its default runtime. A right may be granted just after the operator starts or
revoked later, so a single refusal proves nothing, and each watch is retried forever.
"""

import asyncio
import logging
from collections.abc import Callable

from moorage_operator.api.rights import may_not_read
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Reflector, Sink
from moorage_operator.store.plain_sink import PlainSink
from moorage_operator.store.runtimes import RuntimeStore

from .namespaces import is_lasting_refusal

__all__ = ["RuntimeWatch"]

logger = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
"""The interval of API discovery while the kind is not installed."""

RETRY_SECONDS = 2.0
"""The same while discovery fails."""

STATE_SECONDS = 0.1
"""The interval of checks whether the runtimes are listed."""

LISTED_LOOK_SECONDS = 1.0
"""The interval of checks whether they may still be read."""

NOT_INSTALLED = (
    "the kind InferenceRuntime is not installed; apply crds/inferenceruntimes.yaml or install the "
    "chart"
)


class RuntimeWatch:
    """Keeps the runtimes in the store in sync with the cluster.

    Args:
        client: The API.
        store: Receives the runtimes and namespaces.
        restarted: Returns, for a kind, a function that counts restarts of its watch by reason.
        clock: Returns monotonic seconds.

    Attributes:
        settled: Set once the runtimes are listed, or it is known why they cannot be.
    """

    def __init__(
        self,
        client: KubeClient,
        store: RuntimeStore,
        restarted: Callable[[str], Callable[[str], None]],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._store = store
        self._restarted = restarted
        self._clock = clock
        self._may_read_labels = True
        self.settled = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        self._store.put_unreadable("they are not listed yet")
        while not await self._is_installed():  # noqa: ASYNC110 -- discovery has no events
            await asyncio.sleep(LOOK_SECONDS if self.settled.is_set() else RETRY_SECONDS)
        store = self._store
        runtimes = self._make(
            kinds.INFERENCE_RUNTIMES, PlainSink(store.put_runtime, store.drop_runtime)
        )
        namespaces = self._make(
            kinds.NAMESPACES, PlainSink(store.put_namespace, store.drop_namespace)
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(runtimes.run())
            group.create_task(namespaces.run())
            await _listed_or_refused(namespaces, runtimes)
            while True:
                self._look_at_labels(namespaces)
                self._look(runtimes)
                await asyncio.sleep(LISTED_LOOK_SECONDS)

    def _look_at_labels(self, namespaces: Reflector) -> None:
        """Detect whether the labels of namespaces may be read."""
        liveness = namespaces.liveness
        if is_lasting_refusal(liveness):
            if self._may_read_labels:
                logger.warning(
                    "the operator may not read the labels of namespaces, so no new or edited "
                    "model can use an InferenceRuntime with allowedNamespaces: grant it list and "
                    "watch",
                    extra={"error": liveness.failure},
                )
            self._may_read_labels = False
        elif namespaces.synced.is_set() and not liveness.failure:
            self._may_read_labels = True
        self._store.put_labels_access(may_read=self._may_read_labels)

    def _look(self, runtimes: Reflector) -> None:
        """Detect whether the runtimes may be read."""
        liveness = runtimes.liveness
        if is_lasting_refusal(liveness):
            self._report(
                may_not_read("InferenceRuntime"), is_forbidden=True, error=liveness.failure
            )
        elif runtimes.synced.is_set() and not liveness.failure and self._store.current.unreadable:
            self._store.put_unreadable("")
            self.settled.set()
            logger.info("runtimes listed")

    async def _is_installed(self) -> bool:
        try:
            if await self._client.serves(kinds.INFERENCE_RUNTIMES):
                return True
        except errors.ApiError as error:
            logger.warning("discovery failed", extra={"error": error.message})
            return False
        self._report(NOT_INSTALLED)
        return False

    def _report(self, why: str, *, is_forbidden: bool = False, error: str = "") -> None:
        """Record why runtimes cannot be read, and log it once."""
        if self._store.current.unreadable != why:
            logger.warning("works without runtimes", extra={"reason": why, "error": error})
        self._store.put_unreadable(why, is_forbidden=is_forbidden)
        self.settled.set()

    def _make(self, kind: kinds.Kind, sink: Sink) -> Reflector:
        return Reflector(
            self._client,
            kind,
            sink,
            clock=self._clock,
            restarted=self._restarted(kind.rbac_name),
        )


async def _listed_or_refused(*reflectors: Reflector) -> None:
    while not all(  # noqa: ASYNC110 -- there is no event for a refusal
        each.synced.is_set() or is_lasting_refusal(each.liveness) for each in reflectors
    ):
        await asyncio.sleep(STATE_SECONDS)
