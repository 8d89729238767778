import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from moorage_operator.kube import client, kinds, reflector
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.liveness import BROKEN_SECONDS
from moorage_operator.kube.reflector import Reflector
from support.api_server import Script, event, item, listed, serving


class Seen:
    """A sink that records its calls."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.lists: list[tuple[str, str]] = []
        self.changed = asyncio.Event()

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:  # noqa: ARG002 -- a Sink's
        metadata = body["metadata"]
        self.names[metadata["uid"]] = int(metadata["resourceVersion"])
        self.changed.set()

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- a Sink's
        self.names.pop(uid, None)
        self.changed.set()

    def end_list(self, namespace: str, version: str) -> None:
        self.lists.append((namespace, version))

    async def until(self, holds: Callable[[dict[str, int]], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds(self.names):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_SECONDS", 0.001)


class Clock:
    """A clock that a test can advance."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


@asynccontextmanager
async def mirroring(
    script: Script, clock: Clock | None = None
) -> AsyncIterator[tuple[Seen, Reflector, list[str]]]:
    seen, restarts = Seen(), []
    async with serving(script) as server, KubeClient(Access(server)) as api:
        made = Reflector(
            api,
            kinds.PODS,
            seen,
            selector="a=b",
            clock=clock or Clock(),
            restarted=restarts.append,
        )
        task = asyncio.ensure_future(made.run())
        try:
            async with asyncio.timeout(5):
                await made.synced.wait()
            yield seen, made, restarts
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_list_of_several_pages_is_complete_before_it_is_synced() -> None:
    script = Script([listed(["a"], 10, "more"), listed(["b"], 10)], [[None]])

    async with mirroring(script) as (seen, _, _):
        assert seen.names == {"uid-a": 1, "uid-b": 1}
        assert seen.lists == [("", "10")]
        await script.open.wait()

    first, second, watch = script.asked
    assert (first["limit"], first["labelSelector"]) == ("250", "a=b")
    assert second["continue"] == "more"
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("10", "true")


async def test_events_are_mirrored_and_a_watch_resumes_where_it_ended() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "30"}})
    first = [event("ADDED", item("b", 11)), event("DELETED", item("a", 12)), bookmark]
    script = Script([["a"]], [first, [event("MODIFIED", item("b", 31)), None]])

    async with mirroring(script) as (seen, _, restarts):
        await seen.until(lambda names: names == {"uid-b": 31})

    assert [each["resourceVersion"] for each in script.asked if "watch" in each] == ["10", "30"]
    assert restarts == ["ended"]


async def test_a_missed_deletion_is_found_by_a_relist() -> None:
    gone = event("ERROR", {"code": 410, "message": "too old resource version"})
    script = Script([["a", "b"], ["b", "c"]], [[gone], [None]])

    async with mirroring(script) as (seen, _, restarts):
        await seen.until(lambda names: names.keys() == {"uid-b", "uid-c"})

    assert restarts == ["expired"]


async def test_a_410_answer_to_the_watch_request_causes_a_relist() -> None:
    script = Script([["a"], ["b"]], [410, [None]])  # type: ignore[list-item]

    async with mirroring(script) as (seen, _, _):
        await seen.until(lambda names: names.keys() == {"uid-b"})


async def test_a_connection_cut_within_an_event_resumes_without_a_list() -> None:
    half = event("ADDED", item("b", 12))[:20]
    cut = [event("ADDED", item("b", 11)), half, ConnectionError]
    script = Script([["a"]], [cut, [event("ADDED", item("c", 13)), None]])

    async with mirroring(script) as (seen, _, _):
        await seen.until(lambda names: "uid-c" in names)

    assert [each["resourceVersion"] for each in script.asked if "watch" in each] == ["10", "11"]


async def test_an_expired_continue_token_restarts_the_list() -> None:
    script = Script([listed(["a"], 10, "more"), 410, ["a", "b"]], [[None]])

    async with mirroring(script) as (seen, _, _):
        assert seen.names.keys() == {"uid-a", "uid-b"}


async def test_errors_are_retried_with_backoff() -> None:
    script = Script([500, 429, 403, ["a"]], [503, [None]])  # type: ignore[list-item]

    async with mirroring(script) as (seen, made, restarts):
        await asyncio.wait_for(script.open.wait(), 5)

        assert seen.names.keys() == {"uid-a"}
        assert restarts == ["failed"] * 4
        assert made.synced.is_set()


class EndingWatches(Script):
    """Watches without events that end after the requested time."""

    def __init__(self, clock: Clock) -> None:
        super().__init__([[]], [])
        self.clock = clock
        self.ended = asyncio.Semaphore(0)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.clock.ahead += int(request.query["timeoutSeconds"])
        self.ended.release()
        return response


async def test_a_quiet_watch_is_healthy_while_it_ends_regularly() -> None:
    clock = Clock()
    script = EndingWatches(clock)

    async with mirroring(script, clock) as (_, made, restarts):
        for _ in range(15):  # a quarter of an hour and more
            await script.ended.acquire()
            assert made.liveness.trouble() == ""
            assert made.liveness.refused_seconds() == 0

    assert clock.ahead >= 15 * 60
    assert set(restarts) == {"ended"}
    assert [each for each in script.asked if "watch" not in each] == [script.asked[0]]  # one list


class Swallowing(Script):
    """The first watch stops receiving bytes, before or after its head."""

    def __init__(self, *, with_head: bool) -> None:
        super().__init__([["a"]], [])
        self.with_head = with_head

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        is_first = len([each for each in self.asked if "watch" in each]) == 1
        response = web.StreamResponse()
        if self.with_head or not is_first:
            await response.prepare(request)
        if not is_first:
            await response.write(event("ADDED", item("b", 11)))
        await asyncio.Event().wait()
        return response


@pytest.mark.parametrize("with_head", [True, False])
async def test_a_watch_without_data_is_reopened(
    monkeypatch: pytest.MonkeyPatch, *, with_head: bool
) -> None:
    monkeypatch.setattr(reflector, "WATCH_SECONDS", 1)
    monkeypatch.setattr(client, "WATCH_GRACE_SECONDS", 0.2)

    async with mirroring(Swallowing(with_head=with_head)) as (seen, made, restarts):
        await seen.until(lambda names: "uid-b" in names)

        assert restarts == ["failed"]
        assert made.liveness.trouble() == ""


async def test_a_stuck_watch_is_closed_within_two_minutes() -> None:
    assert reflector.WATCH_SECONDS + client.WATCH_GRACE_SECONDS <= 100
    lengths = {reflector.watch_seconds() for _ in range(200)}

    assert min(lengths) >= 60
    assert max(lengths) <= reflector.WATCH_SECONDS
    assert len(lengths) > 5  # they do not all end at once
    assert BROKEN_SECONDS <= 120


async def test_a_restored_backup_is_detected_before_a_watch_resumes() -> None:
    rewound: list[str] = []
    script = Script([listed(["a", "b"], 100), listed(["b", "c"], 60)], [503, [None]])  # type: ignore[list-item]
    script.version = 60

    async with mirroring(script) as (seen, made, _):
        made._rewound = lambda: rewound.append("rewound")
        await seen.until(lambda names: names.keys() == {"uid-b", "uid-c"})
        await asyncio.wait_for(script.open.wait(), 5)

    assert rewound == ["rewound"]
    watches = [each["resourceVersion"] for each in script.asked if "watch" in each]
    assert watches == ["100", "60"]


async def test_a_list_with_lower_versions_replaces_known_objects() -> None:
    first = {**listed([], 100), "items": [item("a", 90)]}
    second = {**listed([], 60), "items": [item("a", 50)]}
    script = Script([first, second], [410, [None]])  # type: ignore[list-item]
    drops: list[tuple[str, str]] = []

    async with mirroring(script) as (seen, _, _):
        drop = seen.drop
        seen.drop = lambda uid, version="": (drops.append((uid, version)), drop(uid))[1]  # type: ignore[method-assign]
        await seen.until(lambda names: names == {"uid-a": 50})

    assert drops == [("uid-a", "")]
