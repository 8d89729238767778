"""Brings the models in the store up to date before a new leader writes.

    list of versions --> **catch_up** --> models that are newer than in the store --> store

The watch of a process that waited for the lease may be behind, for example because it comes from
another API server than the one that the former leader used. Until its events arrive, the process
would take back what the former leader did for a newer spec. Lists and reads without a
resourceVersion are consistent.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.delays import Delays
from moorage_operator.kube.versions import is_newer
from moorage_operator.store.store import Store

from .arrival import list_versions

__all__ = ["catch_up"]

logger = logging.getLogger(__name__)

RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 10.0


async def catch_up(
    client: KubeClient, store: Store, served: Callable[[], Sequence[str]], *, selector: str
) -> None:
    """Read the known models that have changed. Retries until it works.

    Models that are not known yet will arrive in their latest version.

    Args:
        client: The API.
        store: Has the known models.
        served: Returns the namespaces that are served at the moment, "" for all. Lists of others
            may be refused, and must not keep the leader from the served ones.
        selector: Label selector of the models to watch; "" for all.
    """
    delays = Delays(RETRY_FIRST_SECONDS, RETRY_LAST_SECONDS)
    while namespaces := served():
        try:
            await _read_changed(client, store, namespaces, selector)
        except errors.ApiError as error:
            delay = delays.next_seconds()
            logger.warning(
                "models not read by the new leader",
                extra={"error": error.message, "retry_in_s": delay},
            )
            await asyncio.sleep(delay)
        else:
            return


async def _read_changed(
    client: KubeClient, store: Store, namespaces: Sequence[str], selector: str
) -> None:
    latest = await list_versions(client, namespaces, selector=selector)
    for key, uid in store.uids().items():
        record = store.model(key)
        if record is None or not is_newer(latest.get(uid, "0"), record.resource_version):
            continue
        page = await client.page(
            kinds.INFERENCE_MODELS, key.namespace, name=key.name, selector=selector
        )
        for body in page.items:
            store.put_model(body)
