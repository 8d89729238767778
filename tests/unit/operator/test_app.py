import asyncio

import pytest

from moorage_operator.app import STALE_SECONDS, STUCK_SECONDS, App
from moorage_operator.config import OperatorConfig
from moorage_operator.kube import kinds
from moorage_operator.kube.auth import Access
from moorage_operator.settings import Settings
from moorage_operator.state import ObjectKey
from moorage_operator.urgency import Urgency

SETTINGS = Settings((), OperatorConfig("runtime:1"), 1, 50, "127.0.0.1", 0, "json", "info")


@pytest.fixture
async def app() -> App:
    return App(SETTINGS, Access("http://127.0.0.1:1"), "1")


async def test_a_process_that_waits_is_live(app: App) -> None:
    assert app.troubles() == []


async def test_a_watch_that_went_silent_is_trouble(app: App) -> None:
    reflector = next(each for each in app._reflectors if each.kind is kinds.DEPLOYMENTS)
    reflector.last_heard = asyncio.get_running_loop().time() - STALE_SECONDS - 1
    assert app.troubles() == []  # it has not begun

    reflector.synced.set()

    assert app.troubles() == ["the watch of deployments is silent"]


async def test_workers_that_take_nothing_are_trouble(app: App) -> None:
    app._queue.add(ObjectKey("ns", "iris"), Urgency.SPEC)
    assert app.troubles() == []
    now = app._clock() + STUCK_SECONDS + 1
    app._queue._clock = lambda: now
    assert app.troubles() == []  # another process leads

    app._leads.set()

    assert app.troubles() == ["no worker takes a model from the queue"]


async def test_each_namespace_has_watches_of_its_own() -> None:
    settings = Settings(("a", "b"), OperatorConfig("r:1"), 1, 50, "127.0.0.1", 0, "json", "info")

    app = App(settings, Access("http://127.0.0.1:1"), "1")

    watched = sorted((each._namespace, each.kind.plural) for each in app._reflectors)
    always = {kinds.CHILDREN[kind].plural for kind in kinds.CHILDREN.keys() - kinds.OPTIONAL}
    plurals = sorted(always | {"pods"})
    assert watched == [(namespace, plural) for namespace in ("a", "b") for plural in plurals]
