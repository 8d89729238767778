import asyncio
import gc
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.app import STUCK_SECONDS, App
from moorage_operator.kube import kinds
from moorage_operator.kube.auth import Access
from moorage_operator.kube.liveness import BROKEN_SECONDS
from moorage_operator.settings import Settings
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.urgency import Urgency

ROUTE = {"parentRefs": [{"name": "web", "namespace": "gateways"}]}
SETTINGS = Settings((), OperatorConfig("runtime:1"), 1, 50, "127.0.0.1", 0, "json", "info")


@pytest.fixture
async def app() -> App:
    return App(SETTINGS, Access("http://127.0.0.1:1"), "1")


async def test_a_waiting_process_is_live(app: App) -> None:
    assert app.troubles() == []


async def test_a_dead_watch_makes_the_process_unready_but_not_dead(
    app: App,
) -> None:
    app._models.waiting, app._listed = "", True
    reflector = next(each for each in app._reflectors if each.kind is kinds.DEPLOYMENTS)
    assert app._unready() == []

    now = time.monotonic() + BROKEN_SECONDS + 1
    reflector.liveness._clock = lambda: now

    (said,) = app._unready()
    assert "the watch of deployments" in said
    assert app.troubles() == []


async def test_a_stuck_worker_fails_the_liveness_check(app: App) -> None:
    app._queue.add(ObjectKey("ns", "iris"), Urgency.SPEC)
    assert app.troubles() == []
    now = app._clock() + STUCK_SECONDS + 1
    app._queue._clock = app._clock = lambda: now
    assert app.troubles() == []  # another process leads

    app._leads.set()

    (trouble,) = app.troubles()
    assert "worker is stuck" in trouble


class Leader:
    """Leads at once, until cancelled."""

    def __init__(self) -> None:
        self.acquired = asyncio.Event()

    async def run(self) -> None:
        self.acquired.set()
        await asyncio.Event().wait()


async def test_a_new_leader_reads_the_models_before_its_worker_starts(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, read = asyncio.Event(), asyncio.Event()

    async def catch_up(runtimes: object, children: object) -> None:
        assert runtimes is app._runtimes
        assert children is app._watches.children
        reading.set()
        await read.wait()

    monkeypatch.setattr(app._models, "catch_up", catch_up)
    leading = asyncio.create_task(app._lead(Leader()))  # type: ignore[arg-type]
    async with asyncio.timeout(5):
        await reading.wait()
        assert not app._leads.is_set()

        read.set()

        await app._leads.wait()
    leading.cancel()


async def test_a_leader_that_cannot_begin_ends(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    async def catch_up(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(app._models, "catch_up", catch_up)

    async with asyncio.timeout(5):
        with pytest.raises(ExceptionGroup, match="unhandled errors"):
            await app._lead(Leader())  # type: ignore[arg-type]

    assert not app._leads.is_set()


async def test_a_long_queue_is_live_while_reconciles_finish(app: App) -> None:
    app._queue.add(ObjectKey("ns", "iris"), Urgency.SPEC)
    app._leads.set()
    now = app._clock() + STUCK_SECONDS + 1
    app._queue._clock = app._clock = lambda: now

    app._passed("ok", 0.1)

    assert app.troubles() == []


async def test_a_stuck_event_loop_of_kopf_fails_the_liveness_check(app: App) -> None:
    app._models.watch.tick()
    assert app.troubles() == []

    now = time.monotonic() + STUCK_SECONDS
    app._models.watch._clock = lambda: now

    assert app.troubles() == ["the event loop that watches the models is stuck"]
    app._models.watch.stop()
    assert app.troubles() == []


async def test_a_stop_during_the_start_leaves_no_unretrieved_exception(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def found() -> None:
        pass

    def spawn(work: Coroutine[Any, Any, None], _: str) -> None:
        work.close()

    monkeypatch.setattr(app._models, "wait_for_crd", found)
    monkeypatch.setattr(app._lifecycle, "spawn", spawn)
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, of: reported.append(of["message"]))
    starting = asyncio.create_task(app._start())
    while len(asyncio.all_tasks()) < 3:  # noqa: ASYNC110 -- the start has no event
        await asyncio.sleep(0)

    starting.cancel()
    await asyncio.wait([starting])
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:  # as at the end of the process
        task.cancel()
    await asyncio.wait(left)
    del starting, left, task
    gc.collect()

    assert reported == []


def queued(app: App, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the models that are queued from now on."""
    found: set[str] = set()
    monkeypatch.setattr(app._queue, "add", lambda key, _: found.add(key.name))
    return found


def put_models(app: App) -> None:
    """Two models with a server of their own, one of them behind a Gateway."""
    image = {"runtime": {"image": "server:1"}}
    for name, spec in {"routed": {**image, "route": ROUTE}, "internal": image}.items():
        metadata = {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"}
        app._store.put_model({"metadata": metadata, "spec": spec})
    app._listed = True


async def test_labels_of_a_namespace_may_open_a_listener_to_its_models(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_models(app)
    found = queued(app, monkeypatch)

    for at, name in enumerate(("other", "shop")):
        app._runtimes.put_namespace({"metadata": {"name": name, "uid": name, "labels": {}}})
        assert found == ({"routed"} if at else set())


async def test_labels_that_may_no_longer_be_read_open_no_listener(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_models(app)
    app._runtimes.put_namespace({"metadata": {"name": "shop", "uid": "shop"}})
    found = queued(app, monkeypatch)

    app._runtimes.put_labels_access(may_read=False)

    assert found == {"routed"}


async def test_each_namespace_has_its_own_watches() -> None:
    settings = Settings(("a", "b"), OperatorConfig("r:1"), 1, 50, "127.0.0.1", 0, "json", "info")

    app = App(settings, Access("http://127.0.0.1:1"), "1")

    watched = sorted((each.namespace, each.kind.plural) for each in app._reflectors)
    always = {kinds.CHILDREN[kind].plural for kind in kinds.CHILDREN.keys() - kinds.OPTIONAL}
    plurals = sorted(always | {"pods"})
    assert watched == [(namespace, plural) for namespace in ("a", "b") for plural in plurals]
