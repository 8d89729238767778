"""Watches InferenceRuntimes and the labels of namespaces.

    discovery --> is the kind installed? --> reflectors --> store.runtimes
         ^------------- a watch failed -----------'

Both are cluster-scoped, so they are watched with a ClusterRole even if the operator serves only
some namespaces. Without the kind or the right to read it, the operator works as without runtimes.
Until one of the two is known or the runtimes are listed, no model may be reconciled, because it
could start without its default runtime. A right may be granted just after the operator starts or
revoked later, so a single refusal proves nothing, and each watch is retried forever. If the kind
is removed, its watch ends, and discovery looks for the kind again.
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
        self._has_failed = False
        self.settled = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        self._store.put_unreadable("they are not listed yet")
        namespaces = self._make(
            kinds.NAMESPACES, PlainSink(self._store.put_namespace, self._store.drop_namespace)
        )
        async with asyncio.TaskGroup() as group:
            # Gateways select namespaces by labels too, even if there are no runtimes.
            group.create_task(namespaces.run())
            while True:
                await self._wait_until_installed()
                await self._watch(namespaces)

    async def _watch(self, namespaces: Reflector) -> None:
        """Watch the runtimes until the kind is removed."""
        runtimes = self._make(
            kinds.INFERENCE_RUNTIMES,
            PlainSink(self._store.put_runtime, self._store.drop_runtime),
            broke=self._note_failure,
        )
        is_known = False
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(runtimes.run())
            while not await self._is_removed():
                is_known = is_known or _are_listed_or_refused(namespaces, runtimes)
                if is_known:
                    self._look_at_labels(namespaces)
                    self._look(runtimes)
                await asyncio.sleep(LISTED_LOOK_SECONDS if is_known else STATE_SECONDS)
            watching.cancel()
        self._report(NOT_INSTALLED)
        runtimes.forget()

    def _note_failure(self) -> None:
        self._has_failed = True

    async def _is_removed(self) -> bool:
        """Whether the kind is no longer installed; looked up only after a failure of its watch."""
        if not self._has_failed:
            return False
        self._has_failed = False
        return await self._is_installed() is False

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

    async def _wait_until_installed(self) -> None:
        while not (found := await self._is_installed()):
            if found is False:
                self._report(NOT_INSTALLED)
            await asyncio.sleep(LOOK_SECONDS if self.settled.is_set() else RETRY_SECONDS)

    async def _is_installed(self) -> bool | None:
        """Whether the kind is installed; None if the API server does not say."""
        try:
            return await self._client.serves(kinds.INFERENCE_RUNTIMES)
        except errors.ApiError as error:
            logger.warning("discovery failed", extra={"error": error.message})
            return None

    def _report(self, why: str, *, is_forbidden: bool = False, error: str = "") -> None:
        """Record why runtimes cannot be read, and log it once."""
        if self._store.current.unreadable != why:
            logger.warning("works without runtimes", extra={"reason": why, "error": error})
        self._store.put_unreadable(why, is_forbidden=is_forbidden)
        self.settled.set()

    def _make(
        self, kind: kinds.Kind, sink: Sink, *, broke: Callable[[], None] = lambda: None
    ) -> Reflector:
        count = self._restarted(kind.rbac_name)

        def restarted(reason: str) -> None:
            count(reason)
            if reason == "failed":
                broke()

        return Reflector(self._client, kind, sink, clock=self._clock, restarted=restarted)


def _are_listed_or_refused(*reflectors: Reflector) -> bool:
    return all(each.synced.is_set() or is_lasting_refusal(each.liveness) for each in reflectors)
