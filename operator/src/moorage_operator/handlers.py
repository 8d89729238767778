"""kopf as the source of model events, and nothing more of it.

The one importer of kopf. A single low-level event handler puts each InferenceModel into the store;
there is no create, update or delete handler, no timer, no daemon and no index, because these write
annotations and finalizers to the user's objects. kopf never tells of a deletion that it missed
(a relist does not), so `sweep` compares the store with a list from time to time.
"""

import asyncio
import platform
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import kopf
import msgspec
import uvloop
from kopf import RawBody
from kopf._core.reactor.inventory import (  # no public name; `kopf.operator` takes it
    ResourceMemories,
    ResourceMemory,
)

from .existence import Existence
from .kube import auth, kinds
from .kube.client import KubeClient
from .state import ObjectKey
from .store import Store

Registry = kopf.OperatorRegistry

STOP_SECONDS = 3.0
"""kopf ends within milliseconds; its thread is left behind when it does not."""


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no last-handled state: nothing here asks for differences.

    kopf computes them for every event all the same; this halves its cost of an event.
    """

    def build(self, **_: Any) -> Any:
        """No essence of the object."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """No former essence."""
        return None

    def store(self, **_: Any) -> None:
        """Write no annotation."""


class NoProgress(kopf.ProgressStorage):
    """Keeps no handler's progress: an event handler has none."""

    def fetch(self, **_: Any) -> Any:
        """No progress."""
        return None

    def store(self, **_: Any) -> None:
        """Write no annotation."""

    def purge(self, **_: Any) -> None:
        """Nothing to take away."""

    def touch(self, **_: Any) -> None:
        """Never wake an object up by a write."""

    def clear(self, *, essence: Any) -> Any:
        """The essence as it is."""
        return essence


class NoMemories(ResourceMemories):
    """Keeps nothing of an object between its events: 1 KB of each that no handler asks for."""

    async def recall(
        self,
        raw_body: RawBody,
        *,
        memobase: Any = None,
        noticed_by_listing: bool = False,
        ephemeral: bool = False,  # noqa: ARG002 -- they all are
    ) -> ResourceMemory:
        """A memory for this event alone."""
        return await super().recall(
            raw_body, memobase=memobase, noticed_by_listing=noticed_by_listing, ephemeral=True
        )


class JitteredForever:
    """Endless back-off delays in seconds: an outage of the API server is waited out."""

    def __iter__(self) -> Iterator[float]:
        """Delays from 0.5 s, doubling to 15 s, each cut by up to a half."""
        longest = 0.5
        while True:
            yield longest * random.uniform(0.5, 1)  # noqa: S311 -- spreads retries; no secret
            longest = min(15.0, 2 * longest)


def configure(settings: kopf.OperatorSettings, selector: str = "") -> None:
    """Make kopf a quiet watcher of one kind, or of what a label selector leaves of it."""
    settings.peering.standalone = True
    settings.scanning.disabled = True  # no watch of all CRDs and namespaces
    settings.posting.enabled = False
    settings.watching.chunk_size = 100
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    # The default of 5 s keeps every parsed object alive for as long after its last event.
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
    access: auth.Access, seen: Callable[[Mapping[str, Any]], None], *, selector: str = ""
) -> Registry:
    """The registry of kopf with our startup, login and the one event handler.

    Args:
        access: The API server.
        seen: Takes each watch event, in kopf's thread.
        selector: Label selector of the models to watch; "" for all.
    """
    made = kopf.OperatorRegistry()
    token = auth.Token(access, clock=time.monotonic)

    @kopf.on.startup(registry=made)  # pyright: ignore[reportArgumentType] -- kopf's handlers take keywords that its protocol cannot say
    async def start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings, selector)

    @kopf.on.login(registry=made)  # pyright: ignore[reportArgumentType] -- as above
    async def login(**_: Any) -> kopf.ConnectionInfo:
        token.expire()  # kopf logs in again only after a 401
        return kopf.ConnectionInfo(
            server=access.server,
            ca_data=access.ca,
            certificate_data=access.certificate,
            private_key_data=access.key,
            token=token.current(),
            insecure=access.insecure,
        )

    kind = kinds.INFERENCE_MODELS

    @kopf.on.event(kind.group, kind.version, kind.plural, registry=made)  # pyright: ignore[reportArgumentType] -- as above
    async def event(event: Mapping[str, Any], **_: Any) -> None:
        seen(event)

    _ = start, login, event  # registered by their decorators
    return made


def take(store: Store, existence: Existence, event: Mapping[str, Any]) -> None:
    """Put a watch event into the store; `type` is None for what a list showed."""
    body = event["object"]
    if event["type"] == "DELETED":
        metadata = body["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        store.drop_model(key, metadata["uid"])
    else:
        if not body.get("status"):  # its children are about to be made
            existence.saw(body["metadata"]["uid"])
        store.put_model(body)


def take_over(event: Mapping[str, Any]) -> bytes:
    """A watch event on its way from kopf's thread to the loop, as JSON without managed fields.

    kopf reads a list faster than the models in it can be looked at, and what waits would be ten
    times as large as dictionaries: 100 MB of them after a restart with 6,500 models.

    The event is left without what is large in it. kopf wraps each object in views that refer to
    each other, which live until Python's collector looks at everything; once the handler has run
    it asks for nothing but the object's name and finalizers. Of 10,000 models that were listed at
    a restart, whole ones took 60 MiB that the process never gave back.
    """
    body = event["object"]
    body["metadata"].pop("managedFields", None)
    kept = msgspec.json.encode(event)
    for large in ("spec", "status"):
        body.pop(large, None)
    return kept


async def watch_models(
    access: auth.Access,
    take: Callable[[Mapping[str, Any]], None],
    namespaces: Sequence[str],
    *,
    selector: str = "",
) -> None:
    """Run kopf until it gives up or this is cancelled.

    kopf has a thread and an event loop of its own: when it ends it cancels every task of its loop
    that is younger than itself, whoever made it, and it takes SIGTERM and SIGINT for itself.

    Args:
        access: The API server.
        take: Takes each watch event, in the caller's loop.
        namespaces: Namespaces to watch; none: all.
        selector: Label selector of the models to watch; "" for all. A model that ceases to match
            is told as deleted.

    Raises:
        Exception: What kopf gave up for: its kind is gone, an ERROR event, refused credentials.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    stop = threading.Event()

    def seen(event: Mapping[str, Any]) -> None:
        kept = take_over(event)
        loop.call_soon_threadsafe(lambda: take(msgspec.json.decode(kept)))

    def run() -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                made = registry(access, seen, selector=selector)
                runner.run(_operate(made, namespaces, stop))
        except BaseException as caught:  # noqa: BLE001 -- carried to the caller's loop, not lost
            error = caught
        with suppress(RuntimeError):  # the caller's loop has ended before
            loop.call_soon_threadsafe(_settle, ended, error)

    # A daemon, so that a kopf that hangs cannot keep the process alive.
    threading.Thread(target=run, name="kopf", daemon=True).start()
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([ended], timeout=STOP_SECONDS)
        raise


async def _operate(made: Registry, namespaces: Sequence[str], stop: threading.Event) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait() -> None:
        stop.wait()
        with suppress(RuntimeError):  # kopf has ended by itself and its loop with it
            loop.call_soon_threadsafe(stopping.set)

    # Beside kopf's own way to wait for a thread's flag this leaves no executor to be joined.
    threading.Thread(target=wait, name="kopf stop", daemon=True).start()
    try:
        await kopf.operator(
            registry=made,
            memories=NoMemories(),
            clusterwide=not namespaces,
            namespaces=list(namespaces),
            standalone=True,
            # kopf would else look up the user's name, which an arbitrary uid does not have
            identity=cast("Any", platform.node()),
            stop_flag=stopping,
        )
    finally:
        stop.set()


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
    """Forget the models that no longer exist, or match the selector; how many they were.

    Raises:
        ApiError: The list failed.
    """
    # Taken before the list, so that a model that is made meanwhile is not mistaken for a gone one.
    known = store.uids()
    alive: set[str] = set()
    for namespace in namespaces or [""]:
        continue_ = ""
        while True:
            page = await client.page(
                kinds.INFERENCE_MODELS,
                namespace,
                selector=selector,
                continue_=continue_,
                metadata_only=True,
            )
            alive |= {item["metadata"]["uid"] for item in page.items}
            continue_ = page.continue_
            if not continue_:
                break
    gone = [(key, uid) for key, uid in known.items() if uid not in alive]
    for key, uid in gone:
        store.drop_model(key, uid)
    return len(gone)
