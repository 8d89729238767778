"""When it is known at a start which runtimes exist, with a simulated API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web

from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.watch import runtimes
from moorage_operator.watch.runtimes import RuntimeWatch
from support.api_server import item, serving

GROUP = "/apis/moorage.dev/v1alpha1"


class Cluster:
    """Discovery with these answers, and one runtime whose list waits for `may_list`."""

    def __init__(self, *discovery: int) -> None:
        self.discovery = list(discovery)
        self.may_list = asyncio.Event()
        self.asked = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.path == GROUP:
            code = self.discovery.pop(0)
            resources = [{"name": "inferenceruntimes"}]
            return web.json_response({"resources": resources, "message": "no"}, status=code)
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        items = []
        if request.path == f"{GROUP}/inferenceruntimes":
            self.asked.set()
            await self.may_list.wait()
            items = [item("standard", spec={"default": True, "image": "server:1"})]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[tuple[RuntimeWatch, RuntimeStore]]:
    store = RuntimeStore(changed=lambda *_: None, namespace_changed=lambda _: None)
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
