"""Leadership with a server that stores one Lease like the API server."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.kube import client, errors, kinds, lease
from moorage_operator.kube import leadership as leadership_module
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.leadership import Leadership, LeadershipLost
from support.api_server import serving

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class LeaseServer:
    """One Lease with optimistic concurrency.

    `broken` makes every answer a 500, and `conflicting` every answer to a PUT a 409.
    """

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken = False
        self.conflicting = False
        self.writes = asyncio.Semaphore(0)
        self.refused = asyncio.Semaphore(0)
        self.reads = asyncio.Semaphore(0)

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        name = "" if request.method == "POST" else "/moorage"
        assert request.path == f"/apis/coordination.k8s.io/v1/namespaces/system/leases{name}"
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
        assert (body["apiVersion"], body["kind"]) == ("coordination.k8s.io/v1", "Lease")
        assert body["metadata"].items() >= {"namespace": "system", "name": "moorage"}.items()
        given = body["metadata"].get("resourceVersion")
        if request.method == "POST" and self.lease is not None:
            return web.json_response({"message": "there"}, status=409)
        if request.method == "PUT" and (self.conflicting or given != str(self.version)):
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


class Sleeps:
    """Pauses that only move the clock; the last of `count` does not end."""

    def __init__(self, clock: Clock, count: int) -> None:
        self._clock = clock
        self._count = count
        self.seconds: list[float] = []
        self.last = asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if len(self.seconds) == self._count:
            self.last.set()
            await asyncio.Event().wait()
        self._clock.at += seconds
        await asyncio.sleep(0)


def install(
    monkeypatch: pytest.MonkeyPatch, clock: Clock, count: int, seconds: float = 2.0
) -> Sleeps:
    """Let the candidates of a test pause this often, with renewals at this interval."""
    sleeps = Sleeps(clock, count)
    monkeypatch.setattr(lease, "RENEW_SECONDS", seconds)
    own = SimpleNamespace(Event=asyncio.Event, sleep=sleeps)
    monkeypatch.setattr(leadership_module, "asyncio", own)
    return sleeps


class TimedClient(KubeClient):
    """Records the deadlines of requests for the Lease, in seconds."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self.deadlines: list[tuple[str, float | None]] = []

    async def get(self, *args: Any, **options: Any) -> dict[str, Any]:
        self.deadlines.append(("get", options.get("timeout_seconds")))
        return await super().get(*args, **options)

    async def create_lease(self, *args: Any, **options: Any) -> dict[str, Any]:
        self.deadlines.append(("create", options.get("timeout_seconds")))
        return await super().create_lease(*args, **options)

    async def replace_lease(self, *args: Any, **options: Any) -> dict[str, Any]:
        self.deadlines.append(("replace", options.get("timeout_seconds")))
        return await super().replace_lease(*args, **options)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals without pauses, with the clock of the test."""
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)


@asynccontextmanager
async def candidate(
    address: str,
    identity: str,
    clock: Callable[[], float],
    now: Callable[[], datetime] = lambda: NOW,
) -> AsyncIterator[tuple[Leadership, asyncio.Task[None]]]:
    async with KubeClient(Access(address)) as api:
        leadership = Leadership(api, "system", "moorage", identity=identity, clock=clock, now=now)
        api.write_seconds = leadership.write_seconds
        task = asyncio.create_task(leadership.run())
        try:
            yield leadership, task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_first_process_creates_the_lease_and_the_second_waits():
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


async def test_a_released_lease_is_acquired_at_once():
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


async def test_the_lease_of_a_vanished_holder_is_acquired_after_it_expires():
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


async def test_a_deleted_lease_is_not_acquired_while_its_holder_may_write():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address:
        async with candidate(address, "a", clock) as (first, _):
            await first.acquired.wait()
        async with candidate(address, "b", clock) as (second, _):
            for _ in range(3):
                await server.reads.acquire()
            server.lease = None
            for _ in range(3 + server.reads._value):
                await server.reads.acquire()

            assert not second.acquired.is_set()
            assert first.may_write()

            clock.at += lease.DURATION_SECONDS + 1

            await asyncio.wait_for(second.acquired.wait(), 10)
    assert server.holder == "b"


async def test_a_leader_creates_its_deleted_lease_again():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.lease = None
        for _ in range(2 + server.writes._value):
            await server.writes.acquire()

        assert server.holder == "a"
        assert leader.may_write()
        assert not task.done()


async def test_a_leader_whose_deleted_lease_was_created_by_another_ends():
    server, clock = LeaseServer(), Clock()
    created = {"holderIdentity": "b", "leaseDurationSeconds": lease.DURATION_SECONDS}

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "POST" and server.lease is None and server.version:
            server.lease = {"metadata": {"resourceVersion": "99"}, "spec": created}
        return await server(request)

    async with serving(answer) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.lease = None

        with pytest.raises(LeadershipLost, match="is held by b"):
            await asyncio.wait_for(task, 10)

        assert not leader.may_write()
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


async def test_a_leader_that_cannot_renew_makes_no_request_after_its_last_write(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 2.0)
    server, clock, rest = LeaseServer(), Clock(), asyncio.sleep
    asked: list[float] = []

    async def pass_time(seconds: float) -> None:
        clock.at += seconds
        await rest(0)

    async def answer(request: web.Request) -> web.StreamResponse:
        server.broken = clock.at > renewed
        asked.append(clock.at)
        return await server(request)

    renewed = clock.at
    monkeypatch.setattr(leadership_module.asyncio, "sleep", pass_time)
    async with serving(answer) as address, candidate(address, "a", clock) as (_, task):
        with pytest.raises(LeadershipLost, match="was not renewed in time"):
            await task

    assert clock.at == pytest.approx(renewed + lease.WRITE_SECONDS)
    assert asked[-1] < renewed + lease.WRITE_SECONDS


async def test_a_short_failure_does_not_end_leadership():
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
    async with serving(server) as address, KubeClient(Access(address)) as api:
        api.write_seconds = lambda: 0

        with pytest.raises(errors.NotLeading):
            await api.apply(kinds.SERVICES, body, field_manager="m")
        with pytest.raises(errors.NotLeading):
            await api.create(kinds.EVENTS, body)

    assert server.lease is None
    assert clock.at == 100.0


async def test_a_leader_that_sees_another_holder_stops_at_once_and_ends():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        assert server.lease is not None
        server.version += 1
        server.lease["metadata"]["resourceVersion"] = str(server.version)
        server.lease["spec"]["holderIdentity"] = "b"

        with pytest.raises(LeadershipLost, match="is held by b"):
            await asyncio.wait_for(task, 10)

        assert not leader.may_write()
    assert server.holder == "b"


@pytest.mark.parametrize("left", ["released", "expired"])
async def test_a_leader_that_was_suspended_while_another_one_led_ends(left: str):
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        assert server.lease is not None
        server.version += 1
        server.lease["metadata"]["resourceVersion"] = str(server.version)
        spec = server.lease["spec"]
        spec |= {"holderIdentity": "" if left == "released" else "b", "leaseTransitions": 1}
        spec["leaseDurationSeconds"] = -1 if left == "expired" else 1

        with pytest.raises(LeadershipLost, match=r"the lease moorage (is|was) held by"):
            await asyncio.wait_for(task, 10)

    assert server.holder == ("" if left == "released" else "b")


async def test_an_edit_of_the_lease_by_hand_does_not_end_its_holder():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        for _ in range(20):
            assert server.lease is not None
            server.version += 1
            server.lease["metadata"]["resourceVersion"] = str(server.version)
            await server.reads.acquire()

        assert leader.may_write()
        assert not task.done()


async def test_a_conflict_does_not_count_as_a_renewal():
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.conflicting = True
        clock.at += lease.WRITE_SECONDS

        with pytest.raises(LeadershipLost, match=r"the lease moorage was not renewed in time$"):
            await asyncio.wait_for(task, 10)

        assert not leader.may_write()


@pytest.mark.parametrize("span", ["suspended", "wall clock"])
async def test_a_suspended_leader_may_not_write_before_a_renewal(span: str):
    server, clock, wall = LeaseServer(), Clock(), [NOW]
    async with (
        serving(server) as address,
        candidate(address, "a", clock, lambda: wall[0]) as (leader, task),
    ):
        await leader.acquired.wait()
        server.broken = True
        await server.refused.acquire()
        if span == "suspended":
            clock.at += lease.WRITE_SECONDS
        else:
            wall[0] += timedelta(seconds=lease.WRITE_SECONDS)

        assert not leader.may_write()
        assert leader.write_seconds() == 0
        with pytest.raises(LeadershipLost, match="was not renewed in time"):
            await asyncio.wait_for(task, 10)


async def test_setting_the_clock_back_does_not_extend_the_lease():
    server, clock, wall = LeaseServer(), Clock(), [NOW]
    async with (
        serving(server) as address,
        candidate(address, "a", clock, lambda: wall[0]) as (leader, _),
    ):
        await leader.acquired.wait()
        server.broken = True
        await server.refused.acquire()
        wall[0] -= timedelta(hours=1)

        assert leader.write_seconds() <= lease.WRITE_SECONDS


async def test_an_unanswered_lease_request_times_out_early(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(lease, "CALL_SECONDS", 0.05)
    server, clock, lost = LeaseServer(), Clock(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if server.lease is not None and not lost.is_set():
            lost.set()
            await asyncio.Event().wait()
        return await server(request)

    async with serving(answer) as address, candidate(address, "a", clock) as (leader, task):
        await asyncio.wait_for(lost.wait(), 10)
        for _ in range(3):
            await asyncio.wait_for(server.writes.acquire(), 10)

        assert leader.may_write()
        assert not task.done()


async def test_the_pauses_between_renewals_differ_and_are_never_longer_than_the_interval(
    monkeypatch: pytest.MonkeyPatch,
):
    server, clock = LeaseServer(), Clock()
    sleeps = install(monkeypatch, clock, 100)
    async with serving(server) as address, candidate(address, "a", clock):
        await sleeps.last.wait()

    assert all(1.6 <= each <= 2.0 for each in sleeps.seconds)
    assert max(sleeps.seconds) - min(sleeps.seconds) > 0.1


async def test_a_process_that_waits_for_the_lease_pauses_like_a_leader(
    monkeypatch: pytest.MonkeyPatch,
):
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address:
        async with candidate(address, "a", clock) as (first, _):
            await first.acquired.wait()
        sleeps = install(monkeypatch, clock, 5)
        async with candidate(address, "b", clock) as (second, _):
            await sleeps.last.wait()

    assert not second.acquired.is_set()
    assert all(1.6 <= each <= 2.0 for each in sleeps.seconds)


async def test_a_lease_that_another_process_was_faster_to_take_is_waited_for():
    server, clock = LeaseServer(), Clock()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "PUT" and server.holder == "a":
            server.version += 1
            taken = {"holderIdentity": "c", "leaseDurationSeconds": lease.DURATION_SECONDS}
            server.lease = {"metadata": {"resourceVersion": str(server.version)}, "spec": taken}
        return await server(request)

    async with serving(server) as address, candidate(address, "a", clock) as (first, _):
        await first.acquired.wait()
    server.reads = asyncio.Semaphore(0)
    async with serving(answer) as address, candidate(address, "b", clock) as (second, task):
        await server.reads.acquire()
        await server.reads.acquire()  # the first answer has been read
        clock.at += lease.DURATION_SECONDS + 1
        while server.holder != "c":
            await server.reads.acquire()
        for _ in range(3):
            await asyncio.wait_for(server.reads.acquire(), 10)
        assert not second.acquired.is_set()
        assert not task.done()

        clock.at += lease.DURATION_SECONDS + 1

        await asyncio.wait_for(second.acquired.wait(), 10)
    assert server.holder == "b"


async def test_every_request_of_a_leader_ends_with_its_right_to_write(
    monkeypatch: pytest.MonkeyPatch,
):
    server, clock = LeaseServer(), Clock()
    sleeps = install(monkeypatch, clock, 20)
    async with serving(server) as address, TimedClient(Access(address)) as api:
        leadership = Leadership(
            api, "system", "moorage", identity="a", clock=clock, now=lambda: NOW
        )
        task = asyncio.create_task(leadership.run())
        await leadership.acquired.wait()
        while len(sleeps.seconds) < 3:
            await server.writes.acquire()
        server.conflicting = True
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(task, 10)

    deadlines = [seconds for _, seconds in api.deadlines]
    assert {verb for verb, _ in api.deadlines} == {"get", "create", "replace"}
    assert deadlines[:2] == [lease.CALL_SECONDS] * 2  # while nothing may be written
    assert all(each is not None for each in deadlines)
    assert min(each for each in deadlines if each) < lease.CALL_SECONDS


async def test_a_lease_is_released_with_its_history_and_without_a_holder(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    server, clock = LeaseServer(), Clock()
    sleeps = install(monkeypatch, clock, 2)
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await sleeps.last.wait()  # after the first renewal
        task.cancel()

        await leader.release()

    assert server.lease is not None
    spec = server.lease["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("", 0)
    assert spec["leaseDurationSeconds"] == 1
    became, released = caplog.records
    assert (became.message, vars(became)["identity"]) == ("became the leader", "a")
    assert released.message == "lease released"


async def test_a_process_that_never_read_the_lease_releases_nothing():
    server = LeaseServer()
    async with serving(server) as address, KubeClient(Access(address)) as api:
        leadership = Leadership(
            api, "system", "moorage", identity="a", clock=Clock(), now=lambda: NOW
        )
        await leadership.release()

    assert server.lease is None


async def test_failures_to_renew_and_to_release_are_logged(caplog: pytest.LogCaptureFixture):
    server, clock = LeaseServer(), Clock()
    async with serving(server) as address, candidate(address, "a", clock) as (leader, task):
        await leader.acquired.wait()
        server.broken = True
        for _ in range(2):
            await server.refused.acquire()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        await leader.release()

    found = [(each.message, vars(each)["error"]) for each in caplog.records]
    assert found[0][0] == "lease not renewed"
    assert found[-1][0] == "lease not released"
    assert all("broken" in error for _, error in found)


def test_three_lease_requests_can_time_out_before_writes_end():
    assert 3 * lease.CALL_SECONDS < lease.WRITE_SECONDS
    assert lease.WRITE_SECONDS + client.LEADING_LOOK_SECONDS < lease.DURATION_SECONDS
