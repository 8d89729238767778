import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from moorage_operator.kube import kinds, reflector
from moorage_operator.kube.auth import Access
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Reflector
from support.api_server import Script, event, item, listed, serving


class Seen:
    """A sink that keeps what it was told."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.changed = asyncio.Event()

    def put(self, body: dict[str, Any]) -> None:
        metadata = body["metadata"]
        self.names[metadata["uid"]] = int(metadata["resourceVersion"])
        self.changed.set()

    def drop(self, uid: str, version: str = "") -> None:  # noqa: ARG002 -- a Sink's
        del self.names[uid]
        self.changed.set()

    async def until(self, holds: Callable[[dict[str, int]], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds(self.names):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_SECONDS", 0.001)


@asynccontextmanager
async def mirroring(script: Script) -> AsyncIterator[tuple[Seen, Reflector, list[str]]]:
    seen, restarts = Seen(), []
    async with serving(script) as server, KubeClient(Access(server)) as client:
        made = Reflector(
            client,
            kinds.PODS,
            seen,
            selector="a=b",
            clock=asyncio.get_running_loop().time,
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


async def test_a_list_of_several_pages_is_put_whole_before_it_is_synced() -> None:
    script = Script([listed(["a"], 10, "more"), listed(["b"], 10)], [[None]])

    async with mirroring(script) as (seen, _, _):
        assert seen.names == {"uid-a": 1, "uid-b": 1}
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

    assert [each["resourceVersion"] for each in script.asked[1:]] == ["10", "30"]
    assert restarts == ["ended"]


async def test_a_deletion_that_was_missed_is_found_by_the_relist() -> None:
    gone = event("ERROR", {"code": 410, "message": "too old resource version"})
    script = Script([["a", "b"], ["b", "c"]], [[gone], [None]])

    async with mirroring(script) as (seen, _, restarts):
        await seen.until(lambda names: names.keys() == {"uid-b", "uid-c"})

    assert restarts == ["expired"]


async def test_a_410_to_the_request_lists_again_as_well() -> None:
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


async def test_an_expired_page_token_starts_the_list_again() -> None:
    script = Script([listed(["a"], 10, "more"), 410, ["a", "b"]], [[None]])

    async with mirroring(script) as (seen, _, _):
        assert seen.names.keys() == {"uid-a", "uid-b"}


async def test_trouble_is_waited_out() -> None:
    script = Script([500, 429, 403, ["a"]], [503, [None]])  # type: ignore[list-item]

    async with mirroring(script) as (seen, made, restarts):
        await asyncio.wait_for(script.open.wait(), 5)

        assert seen.names.keys() == {"uid-a"}
        assert restarts == ["failed"] * 4
        assert made.synced.is_set()
