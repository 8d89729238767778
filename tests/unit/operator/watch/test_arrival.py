"""Whether all listed models have reached the store."""

from typing import Any

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import Kind
from moorage_operator.store.store import Store
from moorage_operator.watch.arrival import RELIST_SECONDS, Arrival


class Models(KubeClient):
    """Has models of these names and versions, a page for each, and records its lists."""

    def __init__(self, **versions: str) -> None:
        self.versions = versions
        self.namespaces: list[str] = []

    async def page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        selector: str = "",
        continue_: str = "",
        metadata_only: bool = False,
    ) -> Page:
        assert (kind.plural, selector, metadata_only) == ("inferencemodels", "team=a", True)
        if not continue_:
            self.namespaces.append(namespace)
        names = list(self.versions)
        at = names.index(continue_) if continue_ else 0
        items = [model(name, self.versions[name]) for name in names[at : at + 1]]
        return Page(items, "9", next(iter(names[at + 1 :]), ""))


def model(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "generation": 1}
    return {"metadata": {**metadata, "resourceVersion": version}, "spec": {}}


@pytest.fixture
def store() -> Store:
    return Store(changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None)


@pytest.fixture
def clock() -> list[float]:
    return [0.0]


def arrival(
    client: Models, store: Store, clock: list[float], namespaces: tuple[str, ...] = ()
) -> Arrival:
    return Arrival(client, store, lambda: namespaces, "team=a", lambda: clock[0])


async def test_all_models_have_arrived_once_the_store_has_their_versions(
    store: Store, clock: list[float]
) -> None:
    client = Models(iris="5", rose="12")
    arriving = arrival(client, store, clock)
    seen = [await arriving.is_complete()]
    for each in (model("iris", "4"), model("iris", "6"), model("rose", "12")):
        store.put_model(each)
        seen.append(await arriving.is_complete())
    clock[0] += 2 * RELIST_SECONDS
    client.versions["tulip"] = "20"  # a later model is known when its event arrives

    assert seen == [False, False, False, True]
    assert await arriving.is_complete()
    assert client.namespaces == [""]


async def test_a_model_that_is_deleted_before_it_arrives_is_not_awaited(
    store: Store, clock: list[float]
) -> None:
    client = Models(iris="5")
    arriving = arrival(client, store, clock)
    clock[0] = 3 * RELIST_SECONDS
    assert not await arriving.is_complete()
    client.versions.clear()

    before = await arriving.is_complete()
    clock[0] += RELIST_SECONDS

    assert not before
    assert await arriving.is_complete()


async def test_only_the_namespaces_that_are_served_are_listed(
    store: Store, clock: list[float]
) -> None:
    client = Models()

    assert await arrival(client, store, clock, ("a", "b")).is_complete()

    assert client.namespaces == ["a", "b"]


async def test_arrival_is_not_complete_if_the_list_fails(
    store: Store, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Models(iris="5")

    async def failing(*_: Any, **__: Any) -> Page:
        raise errors.Unreachable("no answer", code=0)

    with monkeypatch.context() as broken:
        broken.setattr(client, "page", failing)
        arriving = arrival(client, store, clock)
        for _ in range(2):
            with pytest.raises(errors.Unreachable):
                await arriving.is_complete()

    assert not await arriving.is_complete()
