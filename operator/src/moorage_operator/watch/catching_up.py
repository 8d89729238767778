"""Brings the store up to date before a new leader writes.

    versions --> **catch_up** --> models, runtimes, Services and routes that are newer than in the
                                  store, and which of them went --> store

The watches of a process that waited for the lease may be behind, for example because they come
from another API server than the one that the former leader used. Until their events arrive, the
process would take back what the former leader did for a newer spec or runtime, write children of a
model that moved to another installation, or report that a revision serves which the Service does
not select any more. Late events of other children do no harm: what a Deployment runs is shown by
its pods. Lists and reads without a resourceVersion are consistent.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from moorage_operator.api import labels
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.delays import Delays
from moorage_operator.kube.reflector import Sink
from moorage_operator.kube.versions import is_newer
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import Child

from .arrival import list_versions

__all__ = ["catch_up"]

logger = logging.getLogger(__name__)

RETRY_FIRST_SECONDS = 0.1
RETRY_LAST_SECONDS = 10.0

ROUTING = ("Service", "HTTPRoute", "GRPCRoute")
"""The kinds of the children that decide which pods get requests."""


async def catch_up(
    client: KubeClient,
    store: Store,
    runtimes: RuntimeStore,
    children: Mapping[str, Sink],
    served: Callable[[], Sequence[str]],
    *,
    selector: str,
) -> None:
    """Read what has changed of the known objects. Retries until it works.

    A kind that is gone or that may not be read is skipped; its watch reports that.

    Those that are not known yet will arrive in their latest version.

    Args:
        client: The API.
        store: Has the known models and children.
        runtimes: Has the known runtimes.
        children: Receive children, by kind.
        served: Returns the namespaces that are served at the moment, "" for all. Lists of others
            may be refused, and must not keep the leader from the served ones.
        selector: Label selector of the models to watch; "" for all.
    """
    delays = Delays(RETRY_FIRST_SECONDS, RETRY_LAST_SECONDS)
    while namespaces := served():
        try:
            await _read_models(client, store, namespaces, selector)
            await _read_runtimes(client, runtimes)
            for kind in ROUTING:
                for namespace in namespaces:
                    await _read_children(client, store, kind, children, namespace)
        except errors.ApiError as error:
            delay = delays.next_seconds()
            logger.warning(
                "state not read by the new leader",
                extra={"error": error.message, "retry_in_s": delay},
            )
            await asyncio.sleep(delay)
        else:
            return


async def _read_models(
    client: KubeClient, store: Store, namespaces: Sequence[str], selector: str
) -> None:
    known = [
        (record.key, record.model.uid)
        for record in store.models()
        if any(each in {"", record.key.namespace} for each in namespaces)
    ]
    latest = await list_versions(client, namespaces, selector=selector)
    for key, uid in known:
        record = store.model(key)
        if record is None or _is_latest(record.resource_version, latest.get(uid)):
            continue
        page = await client.page(
            kinds.INFERENCE_MODELS, key.namespace, name=key.name, selector=selector
        )
        _take(page, uid, store.put_model, partial(store.drop_model, key))


async def _read_runtimes(client: KubeClient, runtimes: RuntimeStore) -> None:
    known, kind = runtimes.known(), kinds.INFERENCE_RUNTIMES
    if not known:
        return
    try:
        latest = await list_versions(client, [""], selector="", kind=kind)
        for runtime, version in known:
            if not _is_latest(version, latest.get(runtime.uid)):
                page = await client.page(kind, name=runtime.name)
                _take(page, runtime.uid, runtimes.put_runtime, runtimes.drop_runtime)
    except (errors.Forbidden, errors.NotFound):
        return


async def _read_children(
    client: KubeClient, store: Store, kind: str, children: Mapping[str, Sink], namespace: str
) -> None:
    known = [
        (record, child)
        for record in store.models()
        if namespace in {"", record.key.namespace}
        for child in store.children(record)
        if child.kind == kind
    ]
    if not known:
        return
    try:
        latest = await list_versions(
            client, [namespace], kind=kinds.CHILDREN[kind], selector=labels.CHILDREN_SELECTOR
        )
        for record, child in known:
            await _read_child(client, record, child, children[kind], latest.get(child.uid))
    except (errors.Forbidden, errors.NotFound):
        return


async def _read_child(
    client: KubeClient, record: ModelRecord, child: Child, sink: Sink, latest: str | None
) -> None:
    if _is_latest(child.resource_version, latest):
        return
    page = await client.page(
        kinds.CHILDREN[child.kind],
        record.key.namespace,
        name=child.name,
        selector=labels.CHILDREN_SELECTOR,
    )
    _take(page, child.uid, sink.put, sink.drop)


def _is_latest(known: str, listed: str | None) -> bool:
    """Whether the known version is the listed one or later; None: it was not listed."""
    return listed is not None and not is_newer(listed, known)


def _take(
    page: Page,
    uid: str,
    put: Callable[[dict[str, Any]], None],
    drop: Callable[[str, str], None],
) -> None:
    """Store what was read by the name of an object."""
    found = [body for body in page.items if body["metadata"]["uid"] == uid]
    for body in found:
        put(body)
    if not found:
        # With this version, events from before its deletion do not bring it back.
        drop(uid, page.resource_version)
