"""A new leader reads the objects that its watches have not shown in their latest version."""

import asyncio
from typing import Any

import pytest

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.kinds import Kind
from moorage_operator.store import parse_objects
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.watch import catching_up
from moorage_operator.watch.catching_up import catch_up

Body = dict[str, Any]

NAMES = ("iris", "rose", "tulip")


class Lists(KubeClient):
    """Answers each list with one page, at version 9; only those by name are of whole objects."""

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
        assert (continue_, metadata_only) == ("", not name)
        return Page(self.answer(kind, namespace, name, selector), "9", "")

    def answer(self, kind: Kind, namespace: str, name: str, selector: str) -> list[Body]:
        """Return the objects of a list."""
        raise NotImplementedError


class Models(Lists):
    """Has models of these names and versions; fails so many times; records the names it reads."""

    def __init__(self, failures: int = 0, **versions: str) -> None:
        self.versions = versions
        self.failures = failures
        self.read: list[str] = []
        self.listed: list[str] = []

    def answer(self, kind: Kind, namespace: str, name: str, selector: str) -> list[Body]:
        assert (kind.plural, selector) == ("inferencemodels", "team=a")
        assert namespace in (("ns",) if name else ("", "ns", "gone"))
        if self.failures:
            self.failures -= 1
            raise errors.Unreachable("no answer")
        self.read += [name] if name else []
        self.listed += [] if name else [namespace]
        wanted = [each for each in self.versions if name in {"", each}]
        return [model(each, self.versions[each]) for each in wanted]


def model(name: str, version: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ns", "uid": name, "generation": 1}
    return {"metadata": {**metadata, "resourceVersion": version}, "spec": {}}


def version(store: Store, name: str) -> str:
    record = store.model(ObjectKey("ns", name))
    return record.resource_version if record else ""


@pytest.fixture
def store() -> Store:
    made = Store(changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None)
    for name in NAMES:
        made.put_model(model(name, "5"))
    return made


@pytest.fixture
def runtimes() -> RuntimeStore:
    return RuntimeStore(
        changed=lambda *_: None, namespace_changed=lambda _: None, access_changed=lambda: None
    )


async def test_only_models_that_are_newer_than_known_are_read(
    store: Store, runtimes: RuntimeStore
) -> None:
    client = Models(iris="5", rose="7", tulip="5", violet="6")

    await catch_up(client, store, runtimes, {}, lambda: ("",), selector="team=a")

    assert client.read == ["rose"]
    assert [version(store, each) for each in ("iris", "rose", "tulip")] == ["5", "7", "5"]
    assert version(store, "violet") == ""  # it arrives by the watch


async def test_a_model_that_went_or_moved_is_dropped_and_no_older_event_brings_it_back(
    store: Store, runtimes: RuntimeStore
) -> None:
    client = Models(iris="5", rose="5")  # the list has version 9

    await catch_up(client, store, runtimes, {}, lambda: ("",), selector="team=a")

    assert client.read == ["tulip"]
    assert version(store, "tulip") == ""
    store.put_model(model("tulip", "8"))
    assert version(store, "tulip") == ""
    store.put_model(model("tulip", "10"))
    assert version(store, "tulip") == "10"


async def test_models_in_namespaces_that_are_not_served_stay(
    store: Store, runtimes: RuntimeStore
) -> None:
    await catch_up(Models(), store, runtimes, {}, lambda: ("gone",), selector="team=a")

    assert version(store, "tulip") == "5"


async def test_it_is_repeated_until_it_works(
    store: Store,
    runtimes: RuntimeStore,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(catching_up, "RETRY_FIRST_SECONDS", 0.001)
    client = Models(failures=2, rose="7")

    async with asyncio.timeout(5):
        await catch_up(client, store, runtimes, {}, lambda: ("",), selector="team=a")

    assert version(store, "rose") == "7"
    assert [
        (each.message, each.__dict__["error"], each.__dict__["retry_in_s"] > 0)
        for each in caplog.records
    ] == [("state not read by the new leader", "no answer", True)] * 2


async def test_a_namespace_that_is_refused_meanwhile_keeps_no_leader_from_the_others(
    store: Store, runtimes: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "RETRY_FIRST_SECONDS", 0.001)
    client, answers = Models(failures=1, rose="7"), iter([("gone", "ns"), ("ns",)])

    async with asyncio.timeout(5):
        await catch_up(client, store, runtimes, {}, lambda: next(answers), selector="team=a")

    assert version(store, "rose") == "7"
    assert client.listed == ["ns"]


async def test_nothing_is_read_while_no_namespace_is_served(
    store: Store, runtimes: RuntimeStore
) -> None:
    client = Models(rose="7")

    await catch_up(client, store, runtimes, {}, tuple, selector="team=a")

    assert client.read == []


OWNER = {"apiVersion": "moorage.dev/v1alpha1", "kind": "InferenceModel", "controller": True}


def child(kind: str, name: str, version: str, *, owner: str, uid: str = "") -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "ns",
        "uid": uid or f"{kind}-{name}",
        "resourceVersion": version,
        "labels": {"app.kubernetes.io/managed-by": "moorage", "moorage.dev/model": owner},
        "ownerReferences": [{**OWNER, "name": owner, "uid": owner}],
    }
    return {"metadata": metadata, "spec": {}}


class Children(Lists):
    """Has children of some kinds, and models at version 5; records what is read by name."""

    def __init__(self, **found: list[dict[str, Any]]) -> None:
        self.found = found
        self.refused: dict[str, errors.ApiError] = {}
        self.listed: list[tuple[str, str]] = []
        self.read: list[tuple[str, str]] = []

    def answer(self, kind: Kind, namespace: str, name: str, selector: str) -> list[Body]:
        if kind.plural == "inferencemodels":
            return [model(each, "5") for each in NAMES]
        assert selector == "app.kubernetes.io/managed-by=moorage"
        assert not name or namespace == "ns"
        (self.read if name else self.listed).append((kind.plural, name or namespace))
        if kind.plural in self.refused:
            raise self.refused[kind.plural]
        bodies = self.found.get(kind.plural, [])
        return [each for each in bodies if name in {"", each["metadata"]["name"]}]


@pytest.fixture
def sinks(store: Store) -> dict[str, parse_objects.Children]:
    """Sinks of all kinds; the store has children of iris in version 5."""
    made = {kind: parse_objects.Children(kind, store) for kind in kinds.CHILDREN}
    for kind in ("Service", "Deployment", "HTTPRoute"):
        made[kind].put(child(kind, "iris", "5", owner="iris"))
    return made


def versions(store: Store, name: str = "iris") -> dict[str, str]:
    record = store.model(ObjectKey("ns", name))
    assert record
    return {each.kind: each.resource_version for each in store.children(record)}


async def test_services_and_routes_that_are_newer_than_known_are_read(
    store: Store, runtimes: RuntimeStore, sinks: dict[str, parse_objects.Children]
) -> None:
    client = Children(
        services=[child("Service", "iris", "7", owner="iris")],
        httproutes=[child("HTTPRoute", "iris", "5", owner="iris")],
        deployments=[child("Deployment", "iris", "8", owner="iris")],
    )

    await catch_up(client, store, runtimes, sinks, lambda: ("",), selector="")

    assert client.listed == [("services", ""), ("httproutes", "")]
    assert client.read == [("services", "iris")]
    assert versions(store) == {"Service": "7", "Deployment": "5", "HTTPRoute": "5"}


async def test_a_service_that_went_is_dropped_and_no_older_event_brings_it_back(
    store: Store, runtimes: RuntimeStore, sinks: dict[str, parse_objects.Children]
) -> None:
    again = child("Service", "iris", "8", owner="iris", uid="another")
    client = Children(services=[again], httproutes=[child("HTTPRoute", "iris", "5", owner="iris")])

    await catch_up(client, store, runtimes, sinks, lambda: ("",), selector="")

    assert "Service" not in versions(store)  # the new one arrives by the watch
    sinks["Service"].put(child("Service", "iris", "6", owner="iris"))
    assert "Service" not in versions(store)
    sinks["Service"].put(again)
    assert versions(store)["Service"] == "8"


@pytest.mark.parametrize(
    "error", [errors.Forbidden("no right", code=403), errors.NotFound("no kind", code=404)]
)
async def test_a_kind_that_cannot_be_read_does_not_keep_the_leader_from_the_others(
    store: Store,
    runtimes: RuntimeStore,
    sinks: dict[str, parse_objects.Children],
    error: errors.ApiError,
) -> None:
    client = Children(httproutes=[child("HTTPRoute", "iris", "7", owner="iris")])
    client.refused["services"] = error

    async with asyncio.timeout(5):
        await catch_up(client, store, runtimes, sinks, lambda: ("",), selector="")

    assert versions(store) == {"Service": "5", "Deployment": "5", "HTTPRoute": "7"}


async def test_only_children_in_served_namespaces_are_read(
    store: Store, runtimes: RuntimeStore, sinks: dict[str, parse_objects.Children]
) -> None:
    client = Children()

    await catch_up(client, store, runtimes, sinks, lambda: ("other",), selector="")
    assert client.listed == []

    await catch_up(client, store, runtimes, sinks, lambda: ("other", "ns"), selector="")
    assert client.listed == [("services", "ns"), ("httproutes", "ns")]


def runtime(name: str, version: str, *, uid: str = "", image: str = "server:1") -> dict[str, Any]:
    metadata = {"name": name, "uid": uid or name, "resourceVersion": version}
    return {"metadata": metadata, "spec": {"image": image}}


class Runtimes(Lists):
    """Has these runtimes, and models at version 5; records which it reads by name."""

    def __init__(self, *found: dict[str, Any], error: errors.ApiError | None = None) -> None:
        self.found = found
        self.error = error
        self.listed = 0
        self.read: list[str] = []

    def answer(self, kind: Kind, namespace: str, name: str, selector: str) -> list[Body]:
        if kind.plural == "inferencemodels":
            return [model(each, "5") for each in NAMES]
        if kind.plural != "inferenceruntimes":
            return []
        assert (namespace, selector) == ("", "")
        self.listed += not name
        self.read += [name] if name else []
        if self.error:
            raise self.error
        return [each for each in self.found if name in {"", each["metadata"]["name"]}]


def images(runtimes: RuntimeStore) -> dict[str, str]:
    return {
        name: each.content["runtime"]["image"] for name, each in runtimes.current.by_name.items()
    }


async def test_runtimes_that_are_newer_than_known_are_read(
    store: Store, runtimes: RuntimeStore
) -> None:
    runtimes.put_runtime(runtime("standard", "5"))
    runtimes.put_runtime(runtime("triton", "5"))
    new = runtime("triton", "7", image="triton:2")
    client = Runtimes(runtime("standard", "5"), new, runtime("unknown", "6"))

    await catch_up(client, store, runtimes, {}, lambda: ("",), selector="team=a")

    assert client.read == ["triton"]
    assert images(runtimes) == {"standard": "server:1", "triton": "triton:2"}
    runtimes.put_runtime(runtime("triton", "6"))  # an event that comes late
    assert images(runtimes)["triton"] == "triton:2"


async def test_a_runtime_that_went_is_dropped_and_no_older_event_brings_it_back(
    store: Store, runtimes: RuntimeStore
) -> None:
    runtimes.put_runtime(runtime("triton", "5"))
    again = runtime("triton", "8", uid="another", image="triton:2")

    await catch_up(Runtimes(again), store, runtimes, {}, lambda: ("",), selector="")

    assert images(runtimes) == {}  # the new one arrives by the watch
    runtimes.put_runtime(runtime("triton", "6"))
    assert images(runtimes) == {}
    runtimes.put_runtime(again)
    assert images(runtimes) == {"triton": "triton:2"}


async def test_no_runtime_is_listed_if_none_is_known(store: Store, runtimes: RuntimeStore) -> None:
    client = Runtimes(runtime("triton", "7"))

    await catch_up(client, store, runtimes, {}, lambda: ("",), selector="")

    assert client.listed == 0


@pytest.mark.parametrize(
    "error", [errors.Forbidden("no right", code=403), errors.NotFound("no kind", code=404)]
)
async def test_runtimes_that_cannot_be_read_do_not_keep_the_leader_from_the_children(
    store: Store,
    runtimes: RuntimeStore,
    sinks: dict[str, parse_objects.Children],
    error: errors.ApiError,
) -> None:
    runtimes.put_runtime(runtime("triton", "5"))
    client = Runtimes(error=error)

    async with asyncio.timeout(5):
        await catch_up(client, store, runtimes, sinks, lambda: ("",), selector="")

    assert (client.listed, images(runtimes)) == (1, {"triton": "server:1"})
    assert "Service" not in versions(store)
