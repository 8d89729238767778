"""Detects when all models of the API server have reached the store.

    list of versions --> **Arrival** <-- versions in the store

kopf delivers the models of a list one by one, without an end. A decision that counts models would
miss some of them after a start.
"""

from collections.abc import Callable, Sequence

from moorage_operator.kube import kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.versions import is_newer
from moorage_operator.store.store import Store

__all__ = ["Arrival", "list_versions"]

RELIST_SECONDS = 5.0
"""The minimum time between two lists. A listed model may be deleted before it arrives."""


class Arrival:
    """Whether the store has every model in at least the version that a list showed.

    Args:
        client: The API.
        store: Receives the models.
        namespaces: Returns the namespaces that are served; none means all.
        selector: Label selector of the models to watch; "" for all.
        clock: Returns monotonic seconds.
    """

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        namespaces: Callable[[], Sequence[str]],
        selector: str,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._store = store
        self._namespaces = namespaces
        self._selector = selector
        self._clock = clock
        self._listed_at: float | None = None
        self._missing: dict[str, str] = {}  # versions by uid

    async def is_complete(self) -> bool:
        """Whether all models have arrived; once they have, it stays true.

        Raises:
            ApiError: The models could not be listed; retry.
        """
        now = self._clock()
        if self._listed_at is None or (self._missing and now - self._listed_at >= RELIST_SECONDS):
            self._missing = await list_versions(
                self._client, self._namespaces(), selector=self._selector
            )
            self._listed_at = now
        if self._missing:
            known = {each.model.uid: each.resource_version for each in self._store.models()}
            self._missing = {
                uid: version
                for uid, version in self._missing.items()
                if uid not in known or is_newer(version, known[uid])
            }
        return not self._missing


async def list_versions(
    client: KubeClient,
    namespaces: Sequence[str],
    *,
    selector: str,
    kind: kinds.Kind = kinds.INFERENCE_MODELS,
) -> dict[str, str]:
    """List the resourceVersion of each object by uid; no namespaces means all.

    Raises:
        ApiError: The list failed.
    """
    found: dict[str, str] = {}
    for namespace in namespaces or [""]:
        continue_ = ""
        while True:
            page = await client.page(
                kind,
                namespace,
                selector=selector,
                continue_=continue_,
                metadata_only=True,
            )
            for item in page.items:
                metadata = item["metadata"]
                found[metadata["uid"]] = metadata["resourceVersion"]
            continue_ = page.continue_
            if not continue_:
                break
    return found
