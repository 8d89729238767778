"""A new leader reads the models that its watch has not shown in their latest version."""

import asyncio
from typing import Any

import pytest

from moorage_operator.kube import errors
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import Kind
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.watch import catching_up
from moorage_operator.watch.catching_up import catch_up


class Models(KubeClient):
    """Has models of these names and versions; fails so many times; records the names it reads."""

    def __init__(self, failures: int = 0, **versions: str) -> None:
        self.versions = versions
        self.failures = failures
        self.read: list[str] = []
        self.listed: list[str] = []

    async def page(
        self,
        kind: Kind,
        namespace: str = "",
        *,
        name: str = "",
        selector: str = "",
        continue_: str = "",
        metadata_only: bool = False,
    ) -> Page:
        assert (kind.plural, selector, continue_) == ("inferencemodels", "team=a", "")
        assert metadata_only is not bool(name)
        assert namespace in (("ns",) if name else ("", "ns", "gone"))
        if self.failures:
            self.failures -= 1
            raise errors.Unreachable("no answer")
        self.read += [name] if name else []
        self.listed += [] if name else [namespace]
        wanted = [name] if name else list(self.versions)
        return Page([model(each, self.versions[each]) for each in wanted], "9", "")


def model(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "generation": 1}
    return {"metadata": {**metadata, "resourceVersion": version}, "spec": {}}


def version(store: Store, name: str) -> str:
    record = store.model(ObjectKey("ns", name))
    return record.resource_version if record else ""


@pytest.fixture
def store() -> Store:
    made = Store(changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None)
    for name in ("iris", "rose", "tulip"):
        made.put_model(model(name, "5"))
    return made


async def test_only_models_that_are_newer_than_known_are_read(store: Store) -> None:
    client = Models(iris="5", rose="7", violet="6")

    await catch_up(client, store, lambda: ("",), selector="team=a")

    assert client.read == ["rose"]
    assert [version(store, each) for each in ("iris", "rose", "tulip")] == ["5", "7", "5"]
    assert version(store, "violet") == ""  # it arrives by the watch


async def test_it_is_repeated_until_it_works(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(catching_up, "RETRY_FIRST_SECONDS", 0.001)
    client = Models(failures=2, rose="7")

    async with asyncio.timeout(5):
        await catch_up(client, store, lambda: ("",), selector="team=a")

    assert version(store, "rose") == "7"
    assert [
        (each.message, each.__dict__["error"], each.__dict__["retry_in_s"] > 0)
        for each in caplog.records
    ] == [("models not read by the new leader", "no answer", True)] * 2


async def test_a_namespace_that_is_refused_meanwhile_keeps_no_leader_from_the_others(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "RETRY_FIRST_SECONDS", 0.001)
    client, answers = Models(failures=1, rose="7"), iter([("gone", "ns"), ("ns",)])

    async with asyncio.timeout(5):
        await catch_up(client, store, lambda: next(answers), selector="team=a")

    assert version(store, "rose") == "7"
    assert client.listed == ["ns"]


async def test_nothing_is_read_while_no_namespace_is_served(store: Store) -> None:
    client = Models(rose="7")

    await catch_up(client, store, tuple, selector="team=a")

    assert client.read == []
