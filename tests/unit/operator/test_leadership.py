"""Leadership against a server that keeps one Lease as the API server does."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from moorage_operator import lease
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.leadership import Leadership, LeadershipLost
from support.api_server import serving

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class LeaseServer:
    """One Lease with optimistic concurrency; `broken` makes every answer a 500."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.writes = asyncio.Semaphore(0)
        self.refused = asyncio.Semaphore(0)
        self.reads = asyncio.Semaphore(0)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            self.reads.release()
        if self.broken:
            self.refused.release()
            return web.json_response({"message": "broken"}, status=500)
        if request.method == "GET":
            if self.lease is None:
                return web.json_response({"message": "none"}, status=404)
            return web.json_response(self.lease)
        body = await request.json()
        given = body["metadata"].get("resourceVersion")
        if request.method == "POST" and self.lease is not None:
            return web.json_response({"message": "there"}, status=409)
        if request.method == "PUT" and given != str(self.version):
            return web.json_response({"message": "changed"}, status=409)
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.lease = json.loads(json.dumps(body))
        self.writes.release()
        return web.json_response(body)

    @property
    def holder(self) -> str:
        return str(self.lease["spec"]["holderIdentity"]) if self.lease else ""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals follow each other at once; the clock is the test's."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)


@asynccontextmanager
async def candidate(
    address: str, identity: str, clock: Callable[[], float]
) -> AsyncIterator[tuple[Leadership, asyncio.Task[None]]]:
    async with KubeClient(Access(address)) as client:
        leadership = Leadership(
            client, "system", "moorage", identity=identity, clock=clock, now=lambda: NOW
        )
        client.gate = leadership.may_write
        task = asyncio.create_task(leadership.run())
        try:
            yield leadership, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_first_makes_the_lease_and_the_second_waits():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (first, _):
        await first.acquired.wait()
        async with candidate(address, "b", clock) as (second, _):
            for _ in range(5):
                await server.writes.acquire()

            assert server.holder == "a"
            assert first.may_write()
            assert not second.may_write()
            assert not second.acquired.is_set()


async def test_a_released_lease_goes_to_the_next_at_once():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (first, task):
        await first.acquired.wait()
        async with candidate(address, "b", clock) as (second, _):
            task.cancel()
            await first.release()

            await asyncio.wait_for(second.acquired.wait(), 10)

    assert server.holder == "b"
    assert server.lease["spec"]["leaseTransitions"] == 1
    assert not first.may_write()


async def test_a_holder_that_vanished_is_followed_after_its_lease():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address:
        async with candidate(address, "a", clock) as (first, _):
            await first.acquired.wait()
        async with candidate(address, "b", clock) as (second, _):
            while server.reads.locked() is False:
                await server.reads.acquire()
            for _ in range(3):
                await server.reads.acquire()
            assert not second.acquired.is_set()

            clock.at += lease.DURATION_SECONDS + 1

            await asyncio.wait_for(second.acquired.wait(), 10)
    assert server.holder == "b"


async def test_a_leader_that_cannot_renew_stops_writing_and_ends():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.broken = True
        clock.at += lease.WRITE_SECONDS + 0.1

        assert not leader.may_write()
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(task, 10)


async def test_a_short_failure_does_no_harm():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.broken = True
        for _ in range(3):
            await server.refused.acquire()
        server.broken = False
        clock.at += 5

        for _ in range(4):
            await server.writes.acquire()

        assert leader.may_write()
        assert not task.done()


async def test_only_the_leader_writes():
    body = {"metadata": {"namespace": "ns", "name": "x"}}
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, KubeClient(Access(address)) as client:
        client.gate = lambda: False

        with pytest.raises(errors.NotLeading):
            await client.apply(kinds.SERVICES, body, field_manager="m")
        with pytest.raises(errors.NotLeading):
            await client.create(kinds.EVENTS, body)

    assert server.lease is None
    assert clock.at == 100.0
