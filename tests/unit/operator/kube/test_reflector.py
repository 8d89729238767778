import asyncio
import random
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

GONE = event("ERROR", {"code": 410, "message": "too old resource version"})


class Seen:
    """A sink that records its calls, and why the reflector restarted."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.calls: list[tuple[str, ...]] = []
        self.restarts: list[str] = []
        self.changed = asyncio.Event()

    def put(self, body: dict[str, Any], *, listed_at: str = "not given") -> None:
        metadata = body["metadata"]
        self.names[metadata["uid"]] = int(metadata["resourceVersion"])
        self._record("put", metadata["uid"], listed_at)

    def drop(self, uid: str, version: str = "not given") -> None:
        self.names.pop(uid, None)
        self._record("drop", uid, version)

    def end_list(self, namespace: str, version: str) -> None:
        self._record("end_list", namespace, version)

    def restarted(self, reason: str) -> None:
        self.restarts.append(reason)
        self.changed.set()

    def _record(self, *call: str) -> None:
        self.calls.append(call)
        self.changed.set()

    async def until(self, holds: Callable[[dict[str, int]], bool]) -> None:
        async with asyncio.timeout(5):
            while not holds(self.names):
                self.changed.clear()
                await self.changed.wait()


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_SECONDS", 0.001)


class Clock:
    """A clock that only a test advances."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.read = asyncio.Event()

    def __call__(self) -> float:
        self.read.set()
        return self.now

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what holds after the clock was read."""
        async with asyncio.timeout(5):
            while not holds():
                self.read.clear()
                await self.read.wait()


@asynccontextmanager
async def mirroring(
    script: Script, clock: Clock | None = None, **options: Any
) -> AsyncIterator[tuple[Seen, Reflector, list[str]]]:
    seen = Seen()
    async with serving(script) as server, KubeClient(Access(server)) as api:
        made = Reflector(
            api,
            kinds.PODS,
            seen,
            clock=clock or Clock(),
            restarted=seen.restarted,
            **options,
        )
        task = asyncio.ensure_future(made.run())
        try:
            async with asyncio.timeout(5):
                await made.synced.wait()
            yield seen, made, seen.restarts
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_a_list_of_several_pages_is_complete_before_it_is_synced() -> None:
    script = Script([listed(["a"], 10, "more"), listed(["b"], 10)], [[None]])

    async with mirroring(script, selector="a=b") as (seen, _, _):
        assert seen.names == {"uid-a": 1, "uid-b": 1}
        await script.open.wait()

    first, second, watch = script.asked
    assert first == {"limit": "250", "labelSelector": "a=b"}
    assert second["continue"] == "more"
    assert (watch["resourceVersion"], watch["allowWatchBookmarks"]) == ("10", "true")


@pytest.mark.parametrize(
    ("namespace", "path"), [("", "/api/v1/pods"), ("ns", "/api/v1/namespaces/ns/pods")]
)
@pytest.mark.parametrize("selector", ["", "a=b"])
async def test_every_request_is_limited_to_the_namespace_and_the_selector(
    namespace: str, path: str, selector: str
) -> None:
    script = Script([["a"]], [503, [None]])  # type: ignore[list-item]
    wanted = {
        name: text for name, text in [("namespace", namespace), ("selector", selector)] if text
    }

    async with mirroring(script, **wanted) as (seen, _, _):
        await asyncio.wait_for(script.open.wait(), 5)

    assert script.paths == [path] * 4  # list, watch, a look at the version, watch
    selectors = [
        each.get("labelSelector", "") for each in script.asked if each.get("limit") != "1"
    ]
    assert selectors == [selector] * 3
    assert seen.calls[-1] == ("end_list", namespace, "10")


async def test_the_sink_is_told_the_version_of_each_list_and_of_each_deletion() -> None:
    changes = [event("ADDED", item("c", 11)), event("DELETED", item("a", 12)), GONE]
    pages = [listed(["a"], 10, "more"), listed(["b"], 10), listed(["c"], 20)]

    async with mirroring(Script(pages, [changes, [None]])) as (seen, _, _):
        await seen.until(lambda _: ("end_list", "", "20") in seen.calls)

    assert seen.calls == [
        ("put", "uid-a", "10"),
        ("put", "uid-b", "10"),
        ("end_list", "", "10"),
        ("put", "uid-c", ""),
        ("drop", "uid-a", "12"),
        ("put", "uid-c", "20"),
        ("drop", "uid-b", ""),
        ("end_list", "", "20"),
    ]


async def test_a_kind_that_is_no_longer_watched_leaves_nothing_in_the_sink() -> None:
    script = Script([["a", "b"]], [[event("ADDED", item("c", 11)), None]])

    async with mirroring(script) as (seen, made, _):
        await seen.until(lambda names: "uid-c" in names)
        made.forget()
        made.forget()

    assert seen.names == {}
    dropped = [call for call in seen.calls if call[0] == "drop"]
    assert sorted(dropped) == [("drop", f"uid-{name}", "") for name in "abc"]


async def test_events_are_mirrored_and_a_watch_resumes_where_it_ended() -> None:
    bookmark = event("BOOKMARK", {"metadata": {"resourceVersion": "30"}})
    first = [event("ADDED", item("b", 11)), event("DELETED", item("a", 12)), bookmark]
    script = Script([["a"]], [first, [event("MODIFIED", item("b", 31)), None]])

    async with mirroring(script) as (seen, _, restarts):
        await seen.until(lambda names: names == {"uid-b": 31})

    assert [each["resourceVersion"] for each in script.asked if "watch" in each] == ["10", "30"]
    assert restarts == ["ended"]


async def test_an_event_without_a_version_does_not_change_where_a_watch_resumes() -> None:
    first = [event("DELETED", {"metadata": {"uid": "uid-a"}}), event("BOOKMARK", {})]
    script = Script([["a"]], [first, [None]])

    async with mirroring(script) as (seen, _, _):
        await asyncio.wait_for(script.open.wait(), 5)

    assert [each["resourceVersion"] for each in script.asked if "watch" in each] == ["10", "10"]
    assert seen.calls[-1] == ("drop", "uid-a", "")


async def test_a_missed_deletion_is_found_by_a_relist() -> None:
    script = Script([["a", "b"], ["b", "c"]], [[GONE], [None]])

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


@pytest.mark.parametrize(("pick", "share"), [(min, 0.5), (max, 1)])
async def test_the_delay_doubles_up_to_a_limit_and_starts_again_after_an_event(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pick: Callable[[float, float], float],
    share: float,
) -> None:
    monkeypatch.setattr(random, "uniform", pick)
    monkeypatch.setattr(reflector, "BACKOFF_FIRST_SECONDS", 0.001)
    monkeypatch.setattr(reflector, "BACKOFF_LAST_SECONDS", 0.005)
    cut = [event("ADDED", item("b", 11)), ConnectionError]
    script = Script([500, 500, 500, 500, 500, ["a"]], [503, cut, 503, [None]])  # type: ignore[list-item]

    async with mirroring(script):
        await asyncio.wait_for(script.open.wait(), 5)

    longest = [0.001, 0.002, 0.004, 0.005, 0.005, 0.005, 0.001, 0.002]
    delays = [record.__dict__["retry_in_s"] for record in caplog.records]
    assert delays == [share * each for each in longest]


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the reflector would have slept each time; it does not."""
    sleep, found = asyncio.sleep, list[float]()

    async def record(seconds: float) -> None:
        if seconds:
            found.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", record)
    monkeypatch.setattr(random, "uniform", max)
    monkeypatch.setattr(reflector, "BACKOFF_LAST_SECONDS", 0.004)
    return found


@pytest.mark.parametrize(
    ("lists", "watches"),
    [
        pytest.param([["a"]] * 5, [[GONE]] * 4, id="410 after a list"),
        pytest.param([listed(["a"], 10, "more"), 410] * 4 + [["a"]], [], id="410 within a list"),
        pytest.param([listed(["a"], 10, "more"), 503] * 4 + [["a"]], [], id="503 within a list"),
        pytest.param([["a"]], [[]] * 4, id="watches that end at once"),
        pytest.param([["a"]], [[ConnectionError]] * 4, id="watches that are cut at once"),
    ],
)
async def test_nothing_is_repeated_as_fast_as_the_server_answers(
    delays: list[float], lists: list[Any], watches: list[Any]
) -> None:
    script = Script(list(lists), [*watches, [None]])

    async with mirroring(script) as (seen, _, restarts):
        await asyncio.wait_for(script.open.wait(), 5)

    assert seen.names == {"uid-a": 1}
    assert len(restarts) == 4
    assert delays == [0.001, 0.002, 0.004, 0.004]


@pytest.mark.parametrize(("seconds", "second"), [(0.9, 0.002), (1.0, 0.001)])
async def test_a_watch_without_events_has_worked_after_a_second(
    delays: list[float], seconds: float, second: float
) -> None:
    clock = Clock()
    script = Cut(clock, [0.0, seconds])

    async with mirroring(script, clock):
        await asyncio.wait_for(script.open.wait(), 5)

    assert delays == [0.001, second]


class Cut(Script):
    """Watches without events, each of which is cut after some seconds."""

    def __init__(self, clock: Clock, lasting: list[float]) -> None:
        super().__init__([[]], [])
        self.clock = clock
        self.lasting = lasting

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if not self.lasting:
            return await super()._watch(request)
        response = web.StreamResponse()
        await response.prepare(request)
        # the client has read the head once it reads the clock
        self.clock.read.clear()
        await asyncio.wait_for(self.clock.read.wait(), 5)
        self.clock.now += self.lasting.pop(0)
        assert request.transport is not None
        request.transport.abort()
        return response


async def test_an_interruption_is_logged_with_the_delay_that_the_server_asks_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with mirroring(Refusing(429, "7")) as (seen, _, restarts):
        await seen.until(lambda _: restarts == ["failed"])

    [record] = caplog.records
    assert (record.levelname, record.message) == ("WARNING", "watch interrupted")
    fields = {"resource": "pods", "error": "code 429", "retry_in_s": 7.0}
    assert fields.items() <= record.__dict__.items()


class Refusing(Script):
    """Watches that are refused, with a delay until the next request."""

    def __init__(self, status: int, retry_after: str) -> None:
        super().__init__([["a"]], [])
        self.status = status
        self.retry_after = retry_after

    async def _watch(self, request: web.Request) -> web.StreamResponse:  # noqa: ARG002 -- a Script's
        body = {"message": f"code {self.status}"}
        headers = {"Retry-After": self.retry_after}
        return web.json_response(body, status=self.status, headers=headers)


@pytest.mark.parametrize(("status", "refused_seconds"), [(403, 31), (503, 0)])
async def test_a_failing_watch_is_reported_with_its_kind_namespace_and_error(
    status: int, refused_seconds: float
) -> None:
    clock = Clock()

    async with mirroring(Refusing(status, "60"), clock, namespace="ns") as (seen, made, restarts):
        await seen.until(lambda _: restarts == ["failed"])
        clock.now += 31

        assert made.liveness.trouble() == (
            f"the watch of pods in namespace ns has been broken for 31 s: code {status}"
        )
        assert made.liveness.refused_seconds() == refused_seconds


async def test_an_accepted_watch_is_a_sign_of_life_before_its_first_event() -> None:
    clock = Clock()
    script = Script([["a"]], [503, [None]])  # type: ignore[list-item]

    async with mirroring(script, clock) as (seen, made, restarts):
        await seen.until(lambda _: restarts == ["failed"])
        await clock.until(lambda: made.liveness.failure == "")

    assert restarts == ["failed"]


class EndingWatches(Script):
    """Watches without events, which end some seconds before the requested time."""

    def __init__(self, clock: Clock, early: list[float]) -> None:
        super().__init__([[]], [])
        self.clock = clock
        self.early = early
        self.ended = asyncio.Semaphore(0)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        if not self.early:
            return await super()._watch(request)
        response = web.StreamResponse()
        await response.prepare(request)
        self.clock.now += int(request.query["timeoutSeconds"]) - self.early.pop(0)
        self.ended.release()
        return response

    @property
    def looks(self) -> int:
        """How often the collection's version was requested."""
        return len([each for each in self.asked if each.get("limit") == "1"])


async def test_a_quiet_watch_is_healthy_while_it_ends_regularly() -> None:
    clock = Clock()
    script = EndingWatches(clock, [0.0] * 15)

    async with mirroring(script, clock) as (_, made, restarts):
        for _ in range(15):  # a quarter of an hour and more
            await script.ended.acquire()
            assert made.liveness.trouble() == ""
            assert made.liveness.refused_seconds() == 0
        await asyncio.wait_for(script.open.wait(), 5)

    assert clock.now >= 1000 + 15 * 60
    assert restarts == ["ended"] * 15
    assert [each for each in script.asked if "watch" not in each] == [script.asked[0]]  # one list


@pytest.mark.parametrize(("early", "looks"), [(0, 0), (1, 0), (1.5, 1), (50, 1)])
async def test_only_a_watch_that_ended_early_casts_doubt_on_the_history(
    early: float, looks: int
) -> None:
    clock = Clock()
    script = EndingWatches(clock, [early, 0])

    async with mirroring(script, clock) as (_, _, restarts):
        await asyncio.wait_for(script.open.wait(), 5)

    assert script.looks == looks
    assert restarts == ["ended", "ended"]


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


async def test_a_restored_backup_is_detected_before_a_watch_resumes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rewound: list[str] = []
    script = Script([listed(["a", "b"], 100), listed(["b", "c"], 60)], [503, [None]])  # type: ignore[list-item]
    script.version = 60

    async with mirroring(script, rewound=lambda: rewound.append("rewound")) as (seen, _, _):
        await seen.until(lambda names: names.keys() == {"uid-b", "uid-c"})
        await asyncio.wait_for(script.open.wait(), 5)

    assert rewound == ["rewound"]
    watches = [each["resourceVersion"] for each in script.asked if "watch" in each]
    assert watches == ["100", "60"]
    [_, record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.message == "etcd was restored from a backup; listing all objects again"
    assert {"resource": "pods", "version": "60", "known": "100"}.items() <= record.__dict__.items()


async def test_a_list_with_lower_versions_replaces_known_objects() -> None:
    first = {**listed([], 100), "items": [item("a", 90)]}
    second = {**listed([], 60), "items": [item("a", 50)]}
    script = Script([first, second], [410, [None]])  # type: ignore[list-item]

    async with mirroring(script) as (seen, _, _):
        await seen.until(lambda names: names == {"uid-a": 50})

    assert [call for call in seen.calls if call[0] == "drop"] == [("drop", "uid-a", "")]
