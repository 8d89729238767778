"""Optional kinds that are installed and removed, with a simulated API server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.kube import kinds
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Reflector
from moorage_operator.watch import optional_kinds
from moorage_operator.watch.optional_kinds import OptionalKinds
from support.api_server import item, serving

KIND = "ScaledObject"
GROUP = "/apis/keda.sh/v1alpha1"


class Cluster:
    """One optional kind, served or not; its watch stays open until the kind is removed."""

    def __init__(self) -> None:
        self.served = False
        self.listable = True
        self.broken = False
        self.failures = 0
        self.forbidden = False
        self.may_list = asyncio.Event()
        self.may_list.set()
        self.gone = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if self.broken or self.failures > 0:
            self.failures -= 1
            return web.json_response({"message": "trouble"}, status=500)
        if not self.served or not request.path.startswith(GROUP):
            return web.json_response({"message": "not found"}, status=404)
        if request.path == GROUP and not self.forbidden:
            return web.json_response({"resources": [{"name": "scaledobjects"}]})
        if self.forbidden or not self.listable:
            return web.json_response({"message": "forbidden"}, status=403)
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await self.gone.wait()
            return response
        await self.may_list.wait()
        metadata = {"resourceVersion": "1"}
        return web.json_response({"metadata": metadata, "items": [item("iris")]})

    def remove(self) -> None:
        self.served = False
        self.gone.set()


class Sink:
    def __init__(self) -> None:
        self.uids: set[str] = set()

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:  # noqa: ARG002 -- a Sink's
        self.uids.add(body["metadata"]["uid"])

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- a Sink's
        self.uids.remove(uid)

    def end_list(self, namespace: str, version: str) -> None:
        pass


class Running:
    """The watches under test, and the reported kinds."""

    def __init__(self, cluster: Cluster, client: KubeClient) -> None:
        self.cluster = cluster
        self.sink = Sink()
        self.reported: list[frozenset[str]] = []
        self.kinds = OptionalKinds(client, self._make, self._tell)
        self._more = asyncio.Event()

    def _make(self, kind: str) -> list[Reflector]:
        clock = asyncio.get_running_loop().time

        def restarted(reason: str) -> None:
            if reason == "failed":
                self.kinds.look_again()

        client = self.kinds._client
        return [
            Reflector(client, kinds.CHILDREN[kind], self.sink, clock=clock, restarted=restarted)
        ]

    def _tell(self, available: frozenset[str]) -> None:
        self.reported.append(available)
        self._more.set()

    async def until(self, reported: list[frozenset[str]]) -> None:
        async with asyncio.timeout(10):
            while self.reported != reported:
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[Running]:
    async with serving(cluster) as server, KubeClient(Access(server)) as client:
        made = Running(cluster, client)
        task = asyncio.create_task(made.kinds.run())
        try:
            async with asyncio.timeout(10):
                await made.kinds.settled.wait()
            yield made
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_kinds, "LOOK_SECONDS", 0.1)
    monkeypatch.setattr(optional_kinds, "LOOK_AGAIN_SECONDS", 0.01)


async def test_an_installed_kind_is_listed_before_startup_completes() -> None:
    cluster = Cluster()
    cluster.served = True

    async with running(cluster) as run:
        assert run.reported == [frozenset({KIND})]
        assert run.sink.uids == {"uid-iris"}
        assert [each.kind for each in run.kinds.reflectors] == [kinds.SCALED_OBJECTS]


async def test_startup_reports_a_listed_kind_whose_task_looks_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed = optional_kinds._listed

    async def late(reflectors: Sequence[Reflector]) -> None:
        await listed(reflectors)
        task = asyncio.current_task()
        await asyncio.sleep(0.2 if task and task.get_name().startswith("watch") else 0)

    monkeypatch.setattr(optional_kinds, "_listed", late)
    cluster = Cluster()
    cluster.served = True

    async with running(cluster) as run:
        assert run.reported == [frozenset({KIND})]
        await asyncio.sleep(0.3)
        assert run.reported == [frozenset({KIND})]


async def test_a_kind_that_appears_and_vanishes_is_followed() -> None:
    cluster = Cluster()

    async with running(cluster) as run:
        assert run.reported == []
        cluster.served = True
        await run.until([frozenset({KIND})])

        cluster.remove()
        await run.until([frozenset({KIND}), frozenset()])

        assert run.sink.uids == set()
        assert run.kinds.reflectors == []


async def test_a_404_triggers_discovery_immediately(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optional_kinds, "LOOK_SECONDS", 1000.0)
    cluster = Cluster()
    cluster.served = True

    async with running(cluster) as run:
        cluster.remove()

        await run.until([frozenset({KIND}), frozenset()])


async def test_the_last_discovery_is_kept_while_the_api_server_fails() -> None:
    cluster = Cluster()
    cluster.served = True

    async with running(cluster) as run:
        cluster.broken = True
        await run.kinds._look()

        assert run.reported == [frozenset({KIND})]
        assert run.kinds.reflectors


async def test_startup_waits_for_the_first_answer_of_discovery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optional_kinds, "RETRY_SECONDS", 0.01)
    cluster = Cluster()
    cluster.served, cluster.failures = True, 5

    async with running(cluster) as run:
        assert run.reported == [frozenset({KIND})]
        assert cluster.failures <= 0


async def test_without_the_right_to_discover_kinds_startup_goes_on_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optional_kinds, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(optional_kinds, "REFUSED_SECONDS", 0.1)
    cluster = Cluster()
    cluster.served = cluster.forbidden = True

    async with running(cluster) as run:
        assert not run.kinds.reflectors


async def test_a_kind_that_may_no_longer_be_discovered_stays_available() -> None:
    cluster = Cluster()
    cluster.served = True

    async with running(cluster) as run:
        run.kinds._refused_until = 0.0
        cluster.forbidden = True
        await run.kinds._look()

        assert run.reported == [frozenset({KIND})]
        assert run.kinds.reflectors


async def test_an_installed_kind_is_available_at_startup_before_it_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optional_kinds, "SETTLE_SECONDS", 0.05)
    cluster = Cluster()
    cluster.served = True
    cluster.may_list.clear()

    async with running(cluster) as run:
        assert run.reported == [frozenset({KIND})]
        assert not run.sink.uids
        cluster.may_list.set()
        await run.kinds.reflectors[0].synced.wait()

        assert run.sink.uids == {"uid-iris"}
        assert run.reported == [frozenset({KIND})]


async def test_a_kind_without_list_permission_does_not_delay_startup(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(optional_kinds, "SETTLE_SECONDS", 0.05)
    cluster = Cluster()
    cluster.served, cluster.listable = True, False

    async with running(cluster) as run:
        assert run.reported == []


async def test_an_unexpected_error_of_a_watch_is_raised() -> None:
    cluster = Cluster()
    cluster.served = True
    async with serving(cluster) as server, KubeClient(Access(server)) as client:
        made = Running(cluster, client)
        made.sink.put = lambda body: body["absent"]  # type: ignore[method-assign]

        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            async with asyncio.timeout(10):
                await made.kinds.run()
