"""kopf as the source of model events.

This is the only module that imports kopf. A single low-level event handler puts each
InferenceModel into the store. There are no create, update or delete handlers, timers, daemons or
indexes, because these write annotations and finalizers to the user's objects. kopf does not report
a deletion that it missed, not even after a relist, so `sweep` regularly compares the store with a
list.
"""

import asyncio
import math
import platform
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import kopf
import uvloop
from kopf import RawBody
from kopf._core.reactor.inventory import (  # no public name; `kopf.operator` takes it
    ResourceMemories,
    ResourceMemory,
)

from moorage_operator.kube import auth, kinds, reflector, traced
from moorage_operator.kube import client as kube_client
from moorage_operator.kube.client import KubeClient
from moorage_operator.store.existence import Existence
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey

from .arrival import list_versions
from .model_watch import TICK_SECONDS, ModelWatch

Registry = kopf.OperatorRegistry

DISCOVERY_SECONDS = 10.0
"""How long kopf may take until it first asks for models.

It looks for their kind in the discovery once. An API server that is starting may serve the kind
shortly before its list of groups has that of the kind.
"""

LOGIN_SECONDS = 5.0
"""The minimum time between two logins. kopf logs in as soon as the API server rejects the token,
again and again until it is renewed."""

STOP_SECONDS = 3.0
"""kopf normally stops within milliseconds; after this time its thread is abandoned."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no last-handled state, because no handler needs differences.

    kopf computes them for every event anyway; this halves the cost of an event.
    """

    def build(self, **_: Any) -> Any:
        """Return no essence of the object."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Return no former essence."""
        return None

    def store(self, **_: Any) -> None:
        """Write no annotation."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers, because an event handler has none."""

    def fetch(self, **_: Any) -> Any:
        """Return no progress."""
        return None

    def store(self, **_: Any) -> None:
        """Write no annotation."""

    def purge(self, **_: Any) -> None:
        """Do nothing: there is nothing to remove."""

    def touch(self, **_: Any) -> None:
        """Do not write to the object."""

    def clear(self, *, essence: Any) -> Any:
        """Return the essence unchanged."""
        return essence


class NoMemories(ResourceMemories):
    """Keeps no memory of an object between events, which saves 1 KB per object."""

    async def recall(
        self,
        raw_body: RawBody,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,  # noqa: ARG002 -- always true
    ) -> ResourceMemory:
        """Return a memory for this event only."""
        return await super().recall(
            raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True
        )


class JitteredForever:
    """Endless backoff delays in seconds, because kopf must survive an outage of the API server."""

    def __iter__(self) -> Iterator[float]:
        """Yield delays from 0.5 s, doubling to 15 s, each reduced by up to a half."""
        longest = 0.5
        while True:
            yield longest * random.uniform(0.5, 1)  # noqa: S311 -- spreads retries; no secret
            longest = min(15.0, 2 * longest)


def configure(settings: kopf.OperatorSettings, selector: str = "") -> None:
    """Configure kopf to only watch one kind, optionally with a label selector."""
    settings.peering.standalone = True
    settings.scanning.disabled = True  # no watch of all CRDs and namespaces
    settings.posting.enabled = False
    settings.watching.chunk_size = 100
    # The API server ends a watch after the requested time; longer silence means a dead connection.
    settings.watching.server_timeout = reflector.watch_seconds()
    longest = settings.watching.server_timeout + kube_client.WATCH_GRACE_SECONDS
    settings.watching.inactivity_timeout = longest
    settings.watching.connect_timeout = 10
    # With the default, parsed objects stay in memory for 5 s after their last event.
    settings.queueing.idle_timeout = 0.05
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = JitteredForever()
    settings.process.ultimate_exiting_timeout = 25
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = NoProgress()
    if selector:
        kind = kinds.INFERENCE_MODELS
        settings.watching.label_selectors[kind.group, kind.plural] = selector


def registry(
    access: auth.Access,
    seen: Callable[[Mapping[str, Any]], None],
    watch: ModelWatch,
    *,
    selector: str = "",
) -> Registry:
    """Build kopf's registry with handlers for startup, login and events.

    Args:
        access: The API server.
        seen: Receives each watch event, in kopf's thread.
        watch: Records whether the watch works.
        selector: Label selector of the models to watch; "" for all.
    """
    made = kopf.OperatorRegistry()
    token = auth.Token(access, clock=time.monotonic)
    logged_in_at = -math.inf

    @kopf.on.startup(registry=made)  # pyright: ignore[reportArgumentType] -- kopf's protocol does not describe its keyword arguments
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings, selector)

    @kopf.on.login(registry=made)  # pyright: ignore[reportArgumentType] -- as above
    async def login(**_: Any) -> kopf.AiohttpSession:
        nonlocal logged_in_at
        await asyncio.sleep(max(0.0, logged_in_at + LOGIN_SECONDS - time.monotonic()))
        logged_in_at = time.monotonic()
        token.expire()  # kopf logs in again only after a 401
        try:
            text = token.current()
        except OSError as error:
            reason = f"the token file cannot be read: {error}"
            raise kopf.TemporaryError(reason, delay=0) from error
        session = traced.open_session(access, text, kind, watch.livenesses, asked=watch.ask)
        return kopf.AiohttpSession(server=access.server, aiohttp_session=session)

    kind = kinds.INFERENCE_MODELS

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=made)  # pyright: ignore[reportArgumentType] -- as above
    async def event(event: Mapping[str, Any], **_: Any) -> None:
        seen(event)

    _ = start, login, event  # registered by their decorators
    return made


def take(store: Store, existence: Existence, event: Mapping[str, Any]) -> None:
    """Put a watch event into the store; `type` is None for an object from a list."""
    body = event["object"]
    if event["type"] == "DELETED":
        metadata = body["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        store.drop_model(key, metadata["uid"], metadata.get("resourceVersion", ""))
    else:
        if not body.get("status"):  # its children are about to be created
            existence.saw(body["metadata"]["uid"])
        store.put_model(body)


def take_over(event: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a watch event without managed fields, to pass it to the event loop.

    Large parts are removed from the event itself. kopf keeps each object in cyclic references
    until a full garbage collection, but afterwards only needs its name and finalizers. With 10,000
    models at a restart, whole objects took 60 MiB that the process never returned.
    """
    body = event["object"]
    body["metadata"].pop("managedFields", None)
    taken = {**event, "object": dict(body)}
    for large in ("spec", "status"):
        body.pop(large, None)
    return taken


async def watch_models(
    access: auth.Access,
    take: Callable[[Mapping[str, Any]], None],
    namespaces: Sequence[str],
    watch: ModelWatch,
    *,
    selector: str = "",
) -> None:
    """Run kopf until it fails or this is cancelled.

    kopf runs in its own thread and event loop, because on exit it cancels all newer tasks of its
    loop, including those of others, and because it handles SIGTERM and SIGINT itself.

    Args:
        access: The API server.
        take: Receives each watch event, in the caller's loop.
        namespaces: The namespaces to watch; if empty, all.
        watch: Records whether the watch works.
        selector: Label selector of the models to watch; "" for all. A model that no longer matches
            is reported as deleted.

    Raises:
        Exception: The error that ended kopf: its kind was removed or not found, an ERROR event, or
            rejected credentials.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stop = threading.Event()

    def seen(event: Mapping[str, Any]) -> None:
        taken = take_over(event)
        loop.call_soon_threadsafe(lambda: take(taken))

    def run() -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                made = registry(access, seen, watch, selector=selector)
                runner.run(_operate(made, namespaces, watch, stop))
        except BaseException as caught:  # noqa: BLE001 -- raised again in the caller's loop
            error = caught
        with suppress(RuntimeError):  # the caller's loop has already ended
            loop.call_soon_threadsafe(_settle, ended, error)

    # A daemon thread, so that a hanging kopf does not keep the process alive.
    watch.begin()
    threading.Thread(target=run, name="kopf", daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([ended], timeout=STOP_SECONDS)
        raise
    finally:
        watch.stop()


async def _operate(
    made: Registry, namespaces: Sequence[str], watch: ModelWatch, stop: threading.Event
) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    latest = loop.time() + DISCOVERY_SECONDS
    is_blind = False

    def tick() -> None:
        nonlocal is_blind
        if stop.is_set():
            return
        watch.tick()
        is_blind = not watch.has_asked and loop.time() >= latest
        if is_blind:
            stopping.set()
        else:
            loop.call_later(TICK_SECONDS, tick)

    def wait() -> None:
        stop.wait()
        with suppress(RuntimeError):  # kopf and its loop have already ended
            loop.call_soon_threadsafe(stopping.set)

    # Unlike kopf's own support for a thread's flag, this leaves no executor to be joined.
    threading.Thread(target=wait, name="kopf stop", daemon=True).start()
    tick()
    try:
        await kopf.operator(
            registry=made,
            memories=NoMemories(),
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            standalone=True,
            # Otherwise kopf would look up the user's name, which an arbitrary uid does not have.
            identity=cast("Any", platform.node()),
            stop_flag=stopping,
        )
    finally:
        stop.set()
    if is_blind:
        raise TimeoutError(f"kopf has not asked for models within {DISCOVERY_SECONDS:.0f} s")


def _settle(ended: asyncio.Future[None], error: BaseException | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


async def sweep(
    client: KubeClient, store: Store, namespaces: Sequence[str], *, selector: str = ""
) -> int:
    """Forget models that no longer exist or no longer match the selector; return their number.

    Models outside the namespaces are unchanged; no namespaces means all.

    Raises:
        ApiError: The list failed.
    """
    # Read before the list, so that a model created meanwhile does not count as deleted.
    known = store.uids()
    alive = await list_versions(client, namespaces, selector=selector)
    gone = [
        (key, uid)
        for key, uid in known.items()
        if uid not in alive and (not namespaces or key.namespace in namespaces)
    ]
    for key, uid in gone:
        store.drop_model(key, uid)
    return len(gone)
