"""When it is known at a start which runtimes exist, with a simulated API server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from moorage_operator.api.rights import may_not_read
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.watch import namespaces, runtimes
from moorage_operator.watch.runtimes import RuntimeWatch
from support.api_server import item, serving

GROUP = "/apis/moorage.dev/v1alpha1"
NAMESPACES = "/api/v1/namespaces"


class Cluster:
    """Discovery with these answers, and one runtime whose list waits for `may_list`.

    While `refuses` is set, lists and watches of runtimes are forbidden. `hides` is the same for
    namespaces. While `removed` is set, the kind does not exist. The last answer of discovery is
    repeated.
    """

    def __init__(self, *discovery: int, refuses: bool = False) -> None:
        self.discovery = list(discovery)
        self.refuses = refuses
        self.hides = False
        self.removed = False
        self.discovered = 0
        self.refused = 0
        self.revoked = asyncio.Event()
        self.may_list = asyncio.Event()
        self.access: list[str] = []
        self.asked = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == GROUP:
            self.discovered += 1
            code = self.discovery.pop(0) if len(self.discovery) > 1 else self.discovery[0]
            resources = [] if self.removed else [{"name": "inferenceruntimes"}]
            return web.json_response({"resources": resources, "message": "no"}, status=code)
        if self.refuses and request.path == f"{GROUP}/inferenceruntimes":
            self.refused += 1
            return web.json_response({"message": "cannot list it"}, status=403)
        if self.hides and request.path == NAMESPACES:
            return web.json_response({"message": "cannot list it"}, status=403)
        if "watch" in request.query:
            if self.removed and request.path != NAMESPACES:
                raise web.HTTPNotFound
            response = web.StreamResponse()
            await response.prepare(request)
            await self.revoked.wait()
            return response
        items = []
        if request.path == f"{GROUP}/inferenceruntimes":
            self.asked.set()
            await self.may_list.wait()
            if self.removed:
                raise web.HTTPNotFound
            items = [item("standard", spec={"default": True, "image": "server:1"})]
        if request.path == NAMESPACES:
            namespace = item("ns")
            namespace["metadata"]["labels"] = {"team": "a"}
            items = [namespace]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[tuple[RuntimeWatch, RuntimeStore]]:
    store = RuntimeStore(
        changed=lambda *_: None,
        namespace_changed=lambda _: None,
        access_changed=lambda: cluster.access.append(store.current.unreadable),
    )
    clock = asyncio.get_running_loop().time
    async with serving(cluster) as server, KubeClient(Access(server)) as client:
        watch = RuntimeWatch(client, store, lambda _: lambda _: None, clock)
        task = asyncio.create_task(watch.run())
        try:
            async with asyncio.timeout(10):
                yield watch, store
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def test_it_is_settled_only_after_a_slow_list() -> None:
    cluster = Cluster(200)
    async with running(cluster) as (watch, store):
        await cluster.asked.wait()
        before = watch.settled.is_set()
        cluster.may_list.set()
        await watch.settled.wait()

    assert not before
    assert store.current.by_name["standard"].is_default
    assert store.current.unreadable == ""


async def test_a_failure_of_discovery_does_not_settle_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtimes, "RETRY_SECONDS", 0.01)
    cluster = Cluster(500, 500, 200)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()

    assert list(store.current.by_name) == ["standard"]


async def test_it_is_settled_without_the_kind() -> None:
    async with running(Cluster(404)) as (watch, store):
        await watch.settled.wait()

    assert "not installed" in store.current.unreadable


async def test_labels_of_namespaces_are_known_without_the_kind() -> None:
    async with running(Cluster(404)) as (_, store):
        await until(lambda: store.current.namespace_labels)

    assert store.current.namespace_labels == {"ns": {"team": "a"}}


FORBIDDEN = may_not_read("InferenceRuntime")


async def until(is_so: Callable[[], object]) -> None:
    while not is_so():  # noqa: ASYNC110 -- the watch has no events for this
        await asyncio.sleep(0.01)


async def test_a_first_refusal_does_not_settle_it() -> None:
    cluster = Cluster(200, refuses=True)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await until(lambda: cluster.refused > 1)
        before = watch.settled.is_set()
        cluster.refuses = False
        await watch.settled.wait()

    assert not before
    assert list(store.current.by_name) == ["standard"]
    assert FORBIDDEN not in cluster.access


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "REFUSED_SECONDS", 0.2)
    monkeypatch.setattr(runtimes, "LISTED_LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
async def test_runtimes_are_used_as_soon_as_they_may_be_read() -> None:
    cluster = Cluster(200, refuses=True)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()
        before = store.current
        cluster.refuses = False
        await until(lambda: not store.current.unreadable)

    assert (before.unreadable, before.is_forbidden) == (FORBIDDEN, True)
    assert list(store.current.by_name) == ["standard"]
    assert not store.current.is_forbidden
    assert cluster.access[-2:] == [FORBIDDEN, ""]


@pytest.mark.usefixtures("impatient")
async def test_a_right_that_is_revoked_later_makes_runtimes_unreadable() -> None:
    cluster = Cluster(200)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()
        cluster.refuses = True
        cluster.revoked.set()
        await until(lambda: store.current.unreadable)

    assert (store.current.unreadable, store.current.is_forbidden) == (FORBIDDEN, True)


@pytest.mark.usefixtures("impatient")
async def test_a_kind_that_is_removed_and_installed_again_is_reported_once_each(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtimes, "LOOK_SECONDS", 0.02)
    cluster = Cluster(200)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()
        cluster.removed = True
        cluster.revoked.set()
        await until(lambda: store.current.unreadable)
        await until(lambda: not store.current.by_name)
        looks = cluster.discovered
        await until(lambda: cluster.discovered > looks + 5)
        told = [record.message for record in caplog.records]
        assert store.current.unreadable == runtimes.NOT_INSTALLED
        assert store.current.namespace_labels
        cluster.removed = False
        await until(lambda: not store.current.unreadable)

    assert list(store.current.by_name) == ["standard"]
    assert cluster.access == ["they are not listed yet", "", runtimes.NOT_INSTALLED, ""]
    assert told.count("works without runtimes") == 1
    assert told.count("watch interrupted") <= 2


@pytest.mark.usefixtures("impatient")
async def test_a_kind_that_is_removed_before_it_is_listed_settles_it() -> None:
    cluster = Cluster(200)
    async with running(cluster) as (watch, store):
        await cluster.asked.wait()
        cluster.removed = True
        cluster.may_list.set()
        await watch.settled.wait()

    assert store.current.unreadable == runtimes.NOT_INSTALLED


@pytest.mark.usefixtures("impatient")
async def test_a_watch_that_fails_while_discovery_fails_too_goes_on() -> None:
    cluster = Cluster(200, 500)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()
        cluster.removed = True
        cluster.revoked.set()
        await until(lambda: cluster.discovered > 2)

    assert store.current.unreadable == ""
    assert list(store.current.by_name) == ["standard"]


@pytest.mark.usefixtures("impatient")
async def test_labels_of_namespaces_do_not_count_while_they_may_not_be_read() -> None:
    cluster = Cluster(200)
    cluster.may_list.set()
    async with running(cluster) as (watch, store):
        await watch.settled.wait()
        await until(lambda: store.current.namespace_labels)
        before, told = store.current.namespace_labels, len(cluster.access)
        cluster.hides = True
        cluster.revoked.set()
        await until(lambda: store.current.namespace_labels is None)
        assert len(cluster.access) == told + 1
        cluster.hides = False
        await until(lambda: store.current.namespace_labels == before)

    assert before == {"ns": {"team": "a"}}
    assert len(cluster.access) == told + 2
