import asyncio
import io
import itertools
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web

from moorage_operator.kube.auth import Access
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import WATCH_GRACE_SECONDS
from moorage_operator.kube.liveness import BROKEN_SECONDS
from moorage_operator.kube.reflector import WATCH_SECONDS
from moorage_operator.process import logs
from moorage_operator.store.existence import Existence
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.watch import kopf_source
from moorage_operator.watch.model_watch import ModelWatch
from support.api_server import serving
from support.operator_values import deaf_store

KEY = ObjectKey("ns", "iris")


def body(uid: str = "u", version: str = "1") -> dict[str, Any]:
    metadata = {"name": "iris", "namespace": "ns", "uid": uid, "resourceVersion": version}
    return {"metadata": metadata, "spec": {}}


@pytest.fixture
def store() -> Store:
    return deaf_store()


def test_kopf_has_no_handler_that_writes_to_the_users_objects() -> None:
    watch = ModelWatch((), lambda: 0.0)
    registry = kopf_source.registry(Access("http://host"), lambda _: None, watch)

    assert len(registry._watching.get_all_handlers()) == 1
    for writing in (registry._changing, registry._spawning, registry._indexing):
        assert not writing.get_all_handlers()
    assert not registry._webhooks.get_all_handlers()


def test_kopf_only_watches() -> None:
    settings = kopf.OperatorSettings()

    kopf_source.configure(settings)

    assert settings.scanning.disabled
    assert settings.peering.standalone
    assert not settings.posting.enabled
    assert not settings.watching.initial_streaming  # it loses objects when it is cut
    assert not settings.watching.label_selectors
    assert isinstance(settings.persistence.diffbase_storage, kopf_source.NoDiffBase)
    assert isinstance(settings.persistence.progress_storage, kopf_source.NoProgress)


def test_kopf_detects_a_stuck_watch_before_it_counts_as_broken() -> None:
    settings = kopf.OperatorSettings()

    kopf_source.configure(settings)

    watching = settings.watching
    assert watching.server_timeout is not None
    assert watching.server_timeout < watching.inactivity_timeout
    assert watching.inactivity_timeout <= WATCH_SECONDS + WATCH_GRACE_SECONDS < BROKEN_SECONDS


def test_kopf_watches_the_models_that_match_a_selector() -> None:
    settings = kopf.OperatorSettings()

    kopf_source.configure(settings, "moorage.dev/shard=a")

    assert settings.watching.label_selectors["moorage.dev", "inferencemodels"] == (
        "moorage.dev/shard=a"
    )


def test_the_storages_of_kopf_store_nothing() -> None:
    diffs, progress = kopf_source.NoDiffBase(), kopf_source.NoProgress()

    assert diffs.build(body={}) == {}
    assert diffs.fetch(body={}) is None
    assert diffs.store(body={}, patch=None, essence=None) is None
    assert progress.fetch(key="k", body={}) is None
    assert progress.clear(essence={"a": 1}) == {"a": 1}
    for write in (progress.store, progress.purge, progress.touch):
        assert write(body={}) is None


async def test_kopf_keeps_no_memory_of_an_object() -> None:
    memories = kopf_source.NoMemories()
    seen = kopf.RawBody(metadata={"uid": "u"})  # type: ignore[typeddict-item]

    first, second = [await memories.recall(seen) for _ in range(2)]

    assert first is not second
    assert list(memories.iter_all_memories()) == []


def test_the_backoff_is_endless_and_at_most_15_seconds() -> None:
    delays = list(itertools.islice(kopf_source.JitteredForever(), 100))

    assert all(0.25 <= delay <= 15 for delay in delays)
    assert delays[-1] >= 7.5


class Rejecting:
    """An API server that rejects every token; kopf makes two requests after each login."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.tokens: list[str] = []
        self.asked = asyncio.Semaphore(0)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.times.append(time.monotonic())
        self.tokens.append(request.headers.get("Authorization", ""))
        self.asked.release()
        return web.json_response({"message": "Unauthorized"}, status=401)


@asynccontextmanager
async def watching(server: Rejecting, token_path: Path) -> AsyncIterator[None]:
    async with serving(server) as address:
        access, watch = Access(address, token_path=token_path), ModelWatch((), time.monotonic)
        task = asyncio.create_task(kopf_source.watch_models(access, lambda _: None, (), watch))
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_rejected_token_is_not_presented_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kopf_source, "LOGIN_SECONDS", 0.1)
    server = Rejecting()
    (tmp_path / "token").write_text("one")

    async with watching(server, tmp_path / "token"):
        for _ in range(9):
            await server.asked.acquire()

    assert server.times[8] - server.times[0] > 3 * 0.1


async def test_kopf_makes_no_anonymous_request_while_the_token_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kopf_source, "LOGIN_SECONDS", 0.01)
    server, path = Rejecting(), tmp_path / "token"
    path.write_text("")

    async with watching(server, path):
        while "token is empty" not in caplog.text:  # noqa: ASYNC110 - a log has no event
            await asyncio.sleep(0.01)
        path.write_text("one")
        await server.asked.acquire()

    assert set(server.tokens) == {"Bearer one"}


def listed(plural: str, kind: str) -> dict[str, Any]:
    """A kind as the discovery describes it."""
    verbs = {"namespaced": kind != "Namespace", "verbs": ["list", "watch"]}
    return {"name": plural, "kind": kind, "singularName": kind.lower(), **verbs}


# What a real API server answers to a watch right after the CRD has changed.
REINITIALIZING = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "storage is (re)initializing",
    "reason": "TooManyRequests",
    "details": {"retryAfterSeconds": 1},
    "code": 429,
}


class Starting:
    """An API server with one model.

    Args:
        omissions: How often its list of groups lacks that of the models.
        refusals: How many watches it refuses.
    """

    def __init__(self, *, omissions: int = 0, refusals: int = 0) -> None:
        self.omissions = omissions
        self.refusals = refusals
        self.watched = asyncio.Event()
        self.ended = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        if path == "/apis":
            self.omissions -= 1
            version = {"groupVersion": "moorage.dev/v1alpha1", "version": "v1alpha1"}
            group = {"name": "moorage.dev", "versions": [version], "preferredVersion": version}
            return web.json_response({"groups": [] if self.omissions >= 0 else [group]})
        if path == "/apis/moorage.dev/v1alpha1":
            return web.json_response({"resources": [listed("inferencemodels", "InferenceModel")]})
        if path == "/api":
            return web.json_response({"versions": ["v1"]})
        if path == "/api/v1":
            return web.json_response({"resources": [listed("namespaces", "Namespace")]})
        if path.endswith("/inferencemodels") and "watch" in request.query:
            return await self.watch(request)
        if path.endswith("/inferencemodels"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [body()]})
        raise web.HTTPNotFound

    async def watch(self, request: web.Request) -> web.StreamResponse:
        self.refusals -= 1
        if self.refusals >= 0:
            return web.json_response(REINITIALIZING, status=429)
        self.watched.set()
        response = web.StreamResponse()
        await response.prepare(request)
        await self.ended.wait()
        return response


async def test_kopf_ends_if_the_discovery_lacks_the_models_and_finds_them_when_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kopf_source, "DISCOVERY_SECONDS", 0.3)
    monkeypatch.setattr(kopf_source, "TICK_SECONDS", 0.05)
    server, found = Starting(omissions=1), asyncio.Event()
    ticks: list[None] = []
    watch = ModelWatch((), time.monotonic)
    monkeypatch.setattr(watch, "tick", lambda: ticks.append(None))

    async with asyncio.timeout(10), serving(server) as address:
        take = lambda _: found.set()  # noqa: E731 -- passed on
        with pytest.raises(TimeoutError, match="kopf has not asked for models"):
            await kopf_source.watch_models(Access(address), take, (), watch)
        assert not found.is_set()

        task = asyncio.create_task(kopf_source.watch_models(Access(address), take, (), watch))
        await found.wait()
        ticks.clear()
        while len(ticks) < 10:  # longer than it may take to ask  # noqa: ASYNC110 -- in a thread
            await asyncio.sleep(0.01)
        assert not task.done()
        server.ended.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize(("level", "lines"), [("warning", 1), ("error", 0)])
async def test_a_watch_that_kopf_opens_again_is_logged_as_a_warning(
    level: str, lines: int
) -> None:
    stream = io.StringIO()
    logs.configure("json", level, stream)
    server = Starting(refusals=1)
    watch = ModelWatch((), time.monotonic)

    async with asyncio.timeout(10), serving(server) as address:
        access = Access(address)
        task = asyncio.create_task(kopf_source.watch_models(access, lambda _: None, (), watch))
        await server.watched.wait()
        server.ended.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    records = [json.loads(line) for line in stream.getvalue().splitlines()]
    refused = [each for each in records if "(re)initializing" in each["message"]]
    assert [each["level"] for each in refused] == ["warning"] * lines
    assert not [each for each in records if each["level"] == "error"]


@pytest.mark.parametrize("type_", [None, "ADDED", "MODIFIED"])
def test_a_model_event_is_stored(store: Store, type_: str | None) -> None:
    existence = Existence(lambda: 0.0)

    kopf_source.take(store, existence, {"type": type_, "object": body()})

    assert store.model(KEY) is not None
    assert existence.is_known("u")


def test_a_deleted_model_is_dropped(store: Store) -> None:
    existence = Existence(lambda: 0.0)
    kopf_source.take(store, existence, {"type": None, "object": body()})

    kopf_source.take(store, existence, {"type": "DELETED", "object": body()})

    assert store.model(KEY) is None


def test_only_models_without_a_status_are_recorded_as_existing(store: Store) -> None:
    existence = Existence(lambda: 0.0)

    kopf_source.take(store, existence, {"type": None, "object": {**body(), "status": {"a": 1}}})

    assert not existence.is_known("u")


class Lists:
    """A client whose list has two pages, with an action between them."""

    def __init__(self, *uids: str, meanwhile: Any = None) -> None:
        self.uids = list(uids)
        self.meanwhile = meanwhile
        self.namespaces: list[str] = []

    async def page(
        self, _: Any, namespace: str, *, selector: str, continue_: str, metadata_only: bool
    ) -> Page:
        assert (selector, metadata_only) == ("shard=a", True)
        self.namespaces.append(namespace)
        if not continue_:
            return Page([], "1", "more")
        if self.meanwhile:
            self.meanwhile()
        return Page(
            [{"metadata": {"uid": uid, "resourceVersion": "1"}} for uid in self.uids], "1", ""
        )


async def test_the_sweep_forgets_models_that_no_longer_exist(store: Store) -> None:
    store.put_model(body())

    assert await kopf_source.sweep(Lists("u"), store, (), selector="shard=a") == 0  # type: ignore[arg-type]
    assert store.model(KEY) is not None
    assert await kopf_source.sweep(Lists("other"), store, ["a", "ns"], selector="shard=a") == 1  # type: ignore[arg-type]
    assert store.model(KEY) is None


async def test_the_sweep_ignores_models_of_other_namespaces(store: Store) -> None:
    store.put_model(body())

    assert await kopf_source.sweep(Lists(), store, ["a", "b"], selector="shard=a") == 0  # type: ignore[arg-type]
    assert store.model(KEY) is not None


async def test_the_sweep_keeps_a_model_that_is_created_meanwhile(store: Store) -> None:
    lists = Lists(meanwhile=lambda: store.put_model(body()))

    assert await kopf_source.sweep(lists, store, (), selector="shard=a") == 0  # type: ignore[arg-type]
    assert store.model(KEY) is not None


def test_an_event_reaches_the_loop_without_managed_fields() -> None:
    event: dict[str, Any] = {"type": None, "object": body()}
    bulky = {**event, "object": body()}
    bulky["object"]["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert kopf_source.take_over(bulky) == event


def test_kopf_keeps_only_the_metadata_of_an_event() -> None:
    event: dict[str, Any] = {"type": "ADDED", "object": {**body(), "status": {"replicas": 1}}}

    kopf_source.take_over(event)

    assert event == {"type": "ADDED", "object": {"metadata": body()["metadata"]}}
