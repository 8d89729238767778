"""Writes of statuses to a fake API with one model."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.kinds import Kind
from moorage_operator.store.existence import Existence, ModelGone
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.plan import PodGate
from moorage_operator.values.urgency import Urgency
from moorage_operator.write.contests import TIMES, WITHIN_SECONDS, Contested
from moorage_operator.write.statuses import OUTDATED, StatusWriter
from moorage_operator.write.turns import Turns
from support.operator_values import deaf_store
from support.recorded_turns import RecordedTurns

KEY = ObjectKey("ns", "iris")


class World:
    """A writer, its store, and a fake API with one status."""

    def __init__(self) -> None:
        self.live: dict[str, Any] = {
            "metadata": {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
            "spec": {},
        }
        self.writes = 0
        self.now = 0.0
        self.prunes = False
        self.crd_is_missing = False
        self.is_lent = False
        self.event_comes_first = False
        self.refuse: errors.ApiError | None = None
        self.wrote: list[str] = []
        self.urgencies: list[Urgency] = []
        self.store = Store(
            changed=lambda _, urgency: self.urgencies.append(urgency),
            pod_moved=lambda _: None,
            child_gone=lambda _: None,
        )
        self.store.put_model(self.live)
        self.existence = Existence(lambda: 0.0)
        self.turns = RecordedTurns(1)
        self.writer = StatusWriter(
            self,  # type: ignore[arg-type]
            self.store,
            self.existence,
            selector="team=ours",
            turns=self.turns,
            wrote=self.wrote.append,
            clock=lambda: self.now,
        )

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        assert (kind, field_manager) == (kinds.INFERENCE_MODEL_STATUS, names.STATUS_FIELD_MANAGER)
        if self.refuse:
            raise self.refuse
        if not self.live:
            raise errors.NotFound("gone", code=404, name="iris")
        metadata = self.live["metadata"]
        assert (body["apiVersion"], body["kind"]) == (names.API_VERSION, names.KIND)
        assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("iris", "ns")
        for field in ("uid", "resourceVersion"):
            if metadata[field] != body["metadata"].get(field, metadata[field]):
                raise errors.Conflict(field, code=409)
        self.writes += 1
        status = {} if self.prunes else body["status"]
        newer = max(100 + self.writes, int(metadata["resourceVersion"]) + 1)
        metadata = {**metadata, "resourceVersion": str(newer)}
        self.live = {"metadata": metadata, "spec": {}, "status": status}
        if self.event_comes_first:
            self.store.put_model(self.live)
        return self.live

    async def patch(
        self, kind: Kind, namespace: str, name: str, operations: list[dict[str, Any]]
    ) -> dict[str, Any]:
        assert (kind, namespace, name) == (kinds.INFERENCE_MODEL_STATUS, "ns", "iris")
        assert [(each["op"], each["path"]) for each in operations] == [
            ("add", "/status"),
            ("replace", "/metadata/resourceVersion"),
        ]
        values = {each["path"]: each["value"] for each in operations}
        if values["/metadata/resourceVersion"] != self.live["metadata"]["resourceVersion"]:
            raise errors.Conflict("resourceVersion", code=409)
        self.writes += 1
        status = {key: value for key, value in values["/status"].items() if key != "new"}
        metadata = {**self.live["metadata"], "resourceVersion": str(100 + self.writes)}
        self.live = {"metadata": metadata, "spec": {}, "status": status}
        return self.live

    async def page(self, kind: Kind, namespace: str, *, name: str, selector: str) -> Page:
        assert (kind, namespace, name) == (kinds.INFERENCE_MODELS, "ns", "iris")
        assert selector == "team=ours"
        if self.crd_is_missing:
            raise errors.NotFound("the server could not find the requested resource", code=404)
        return Page([] if self.is_lent or not self.live else [self.live], "50", "")

    def replaced_by_another(self, status: dict[str, Any]) -> None:
        """Another program writes its status."""
        metadata = self.live["metadata"]
        version = str(int(metadata["resourceVersion"]) + 1000)
        self.live = {**self.live, "metadata": {**metadata, "resourceVersion": version}}
        self.live["status"] = status
        self.store.put_model(self.live)

    @property
    def record(self) -> ModelRecord:
        found = self.store.model(KEY)
        assert found is not None
        return found


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("event_comes_first", [True, False])
async def test_a_write_proves_that_the_model_exists_and_triggers_no_reconcile(
    world: World, event_comes_first: bool
) -> None:
    world.event_comes_first = event_comes_first
    world.urgencies.clear()

    await world.writer.write(world.record, {"a": 1})

    assert world.existence.is_known("u")
    assert world.urgencies == []


async def test_a_status_is_written_when_it_differs(world: World) -> None:
    assert await world.writer.write(world.record, {"a": 1})
    assert not await world.writer.write(world.record, {"a": 1})
    assert await world.writer.write(world.record, {"a": 2})

    assert world.wrote == ["status", "status"]
    assert world.record.status == {"a": 2}


async def test_a_status_that_another_program_replaces_is_restored_only_so_often(
    world: World,
) -> None:
    await world.writer.write(world.record, {"a": 1})
    for number in range(TIMES + 1):  # the first one begins the count
        world.replaced_by_another({"b": number})
        assert await world.writer.write(world.record, {"a": 1})
    world.replaced_by_another({"b": 1})

    with pytest.raises(Contested, match="status of InferenceModel 'iris' 10 times within 3 minut"):
        await world.writer.write(world.record, {"a": 2})

    world.now = WITHIN_SECONDS
    assert await world.writer.write(world.record, {"a": 2})


async def test_an_edit_is_reported_in_spite_of_a_contest(world: World) -> None:
    await world.writer.write(world.record, {"a": 1})
    for number in range(TIMES + 1):  # the first one begins the count
        world.replaced_by_another({"b": number})
        assert await world.writer.write(world.record, {"a": 1})
    world.live["metadata"]["generation"] = 2
    world.replaced_by_another({"b": 1})

    assert await world.writer.write(world.record, {"a": 1})


async def test_a_successor_of_the_same_name_begins_without_a_contest(world: World) -> None:
    await world.writer.write(world.record, {"a": 1})
    for number in range(TIMES + 1):
        world.replaced_by_another({"b": number})
        assert await world.writer.write(world.record, {"a": 1})
    world.store.drop_model(KEY, "u", "5000000")
    metadata = {**world.live["metadata"], "uid": "v", "resourceVersion": "6000000"}
    world.live = {"metadata": metadata, "spec": {}}
    world.store.put_model(world.live)
    assert await world.writer.write(world.record, {"a": 1})
    world.replaced_by_another({"b": 1})

    assert await world.writer.write(world.record, {"a": 1})


async def test_the_status_of_a_forgotten_model_is_not_remembered(world: World) -> None:
    await world.writer.write(world.record, {"a": 1})
    for number in range(2 * TIMES):
        world.replaced_by_another({"b": number})
        world.writer.forget("u")
        assert await world.writer.write(world.record, {"a": 1})


async def test_a_status_takes_a_turn_of_its_namespace(world: World) -> None:
    await world.writer.write(world.record, {"a": 1})

    assert world.turns.asked == [("ns", "InferenceModel", False)]


async def test_changes_of_our_own_are_no_contest(world: World) -> None:
    for number in range(3 * TIMES):
        assert await world.writer.write(world.record, {"a": number})


async def test_a_status_with_pruned_fields_is_written_once(world: World) -> None:
    world.prunes = True

    assert await world.writer.write(world.record, {"unknown": 1, "another": 1})
    assert not await world.writer.write(world.record, {"another": 1, "unknown": 1})
    assert await world.writer.write(world.record, {"another": 1, "unknown": 2})


async def test_a_status_is_written_after_the_crd_knows_its_fields(world: World) -> None:
    world.prunes = True
    await world.writer.write(world.record, {"unknown": 1})
    world.prunes = False
    await world.writer.write(world.record, {"unknown": 2})
    metadata = {**world.live["metadata"], "resourceVersion": "999"}
    world.live = {**world.live, "metadata": metadata, "status": {}}  # by hand
    world.store.put_model(world.live)

    assert await world.writer.write(world.record, {"unknown": 1})


async def test_a_forgotten_model_is_written_again(world: World) -> None:
    world.prunes = True
    await world.writer.write(world.record, {"unknown": 1})

    world.writer.forget("u")
    world.writer.forget("never written")

    assert await world.writer.write(world.record, {"unknown": 1})


@pytest.mark.parametrize("edited", [{"a": "edited"}, {}])
async def test_a_status_edited_by_hand_is_written_again(
    world: World, edited: dict[str, str]
) -> None:
    await world.writer.write(world.record, {"a": 1})
    live = world.live
    metadata = {**live["metadata"], "resourceVersion": "999"}
    world.live = {**live, "metadata": metadata, "status": edited}
    world.store.put_model(world.live)

    assert await world.writer.write(world.record, {"a": 1})


@pytest.mark.parametrize("recreated", [True, False])
async def test_the_status_of_a_deleted_model_ends_its_reconcile(
    world: World, recreated: bool
) -> None:
    record = world.record
    world.live = {}
    if recreated:
        world.live = {"metadata": {"uid": "another", "resourceVersion": "1"}}

    with pytest.raises(ModelGone) as gone:
        await world.writer.write(record, {"a": 1})

    assert gone.value.version == ("" if recreated else "50")


def edited(world: World, version: str = "7") -> dict[str, Any]:
    """The resource after an edit during a reconcile."""
    metadata = {**world.live["metadata"], "resourceVersion": version, "generation": 2}
    return {**world.live, "metadata": metadata, "spec": {"replicas": 2}}


async def test_a_model_that_was_edited_meanwhile_is_read_again(world: World) -> None:
    record = world.record
    world.live = edited(world)
    world.urgencies.clear()

    with pytest.raises(errors.Conflict):
        await world.writer.write(record, {"a": 1})

    assert world.record.resource_version == "7"
    assert world.urgencies == [Urgency.SPEC]
    assert await world.writer.write(world.record, {"a": 1})


async def test_the_version_of_a_model_that_left_the_selector_is_not_stored(world: World) -> None:
    # Otherwise the event of its absence would be older than the stored version.
    record = world.record
    world.live, world.is_lent = edited(world), True

    with pytest.raises(ModelGone) as gone:
        await world.writer.write(record, {"a": 1})

    assert gone.value.version == "50"
    assert world.record is record


async def test_a_model_that_was_dropped_meanwhile_stays_dropped(world: World) -> None:
    record = world.record
    world.live = edited(world)  # its label, so that another installation serves it
    world.store.drop_model(KEY, "u")

    with pytest.raises(ModelGone):
        await world.writer.write(record, {"a": 1})

    assert world.store.model(KEY) is None


@pytest.mark.parametrize("refusal", [errors.Conflict, errors.NotFound])
async def test_a_refused_write_keeps_an_existing_model_in_the_store(
    world: World, refusal: type[errors.ApiError]
) -> None:
    world.refuse = refusal("not now", code=404)

    with pytest.raises(refusal):
        await world.writer.write(world.record, {"a": 1})

    assert world.record.model.uid == "u"


async def test_a_missing_kind_is_not_taken_for_a_missing_model(world: World) -> None:
    world.refuse = errors.NotFound("the server could not find the requested resource", code=404)
    world.crd_is_missing = True

    with pytest.raises(errors.NotFound):
        await world.writer.write(world.record, {"a": 1})

    assert world.record.model.uid == "u"


async def test_a_status_is_about_the_version_that_it_was_computed_from(world: World) -> None:
    record = world.record
    await world.writer.write(record, {"a": 1})  # now another leader has written

    with pytest.raises(errors.Conflict):
        await world.writer.write(record, {"a": 2})

    assert world.live["status"] == {"a": 1}


async def test_a_model_whose_version_was_forgotten_is_written_without_one(world: World) -> None:
    world.store.forget_versions()

    assert await world.writer.write(world.record, {"a": 1})


async def test_a_status_is_written_without_the_fields_that_an_older_crd_lacks(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.refuse = errors.Invalid(".status.new: field not declared in schema", code=500)

    for number in (1, 2, 3):
        assert await world.writer.write(world.record, {"new": 1, "old": number})
        assert not await world.writer.write(world.record, {"new": 1, "old": number})
        assert world.record.status == {"old": number}

    assert world.wrote == ["status"] * 3
    [warning] = caplog.records
    assert warning.message == OUTDATED
    assert warning.__dict__["error"] == world.refuse.message


async def test_a_status_is_sent_again_once_its_fields_are_known(world: World) -> None:
    world.prunes = True
    await world.writer.write(world.record, {"new": 1})
    world.replaced_by_another({"b": 1})
    world.prunes = False
    assert await world.writer.write(world.record, {})

    assert await world.writer.write(world.record, {"new": 1})


async def test_an_edit_is_not_overwritten_for_want_of_a_newer_crd(world: World) -> None:
    world.refuse = errors.Invalid(".status.new: field not declared in schema", code=500)
    record, world.live = world.record, edited(world)

    with pytest.raises(errors.Conflict):
        await world.writer.write(record, {"new": 1})

    assert world.record.resource_version == world.live["metadata"]["resourceVersion"]


class Hanging:
    """An API whose writes in one namespace hang, as behind an admission webhook."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.asked: list[str] = []
        self.hangs = asyncio.Event()

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        del kind, field_manager
        metadata = body["metadata"]
        self.asked.append(f"{metadata['namespace']}/{metadata['name']}")
        if metadata["namespace"] == self.namespace:
            self.hangs.set()
            await asyncio.Event().wait()
        return {"metadata": {**metadata, "resourceVersion": "2"}, **body}


async def test_hanging_writes_of_a_namespace_leave_places_for_another() -> None:
    api = Hanging("slow")
    store = deaf_store()
    writer = StatusWriter(
        api,  # type: ignore[arg-type]
        store,
        Existence(lambda: 0.0),
        selector="",
        turns=Turns(1),
        wrote=lambda _: None,
        clock=lambda: 0.0,
    )

    def record(namespace: str, name: str) -> ModelRecord:
        metadata = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
        store.put_model({"metadata": {**metadata, "resourceVersion": "1"}, "spec": {}})
        found = store.model(ObjectKey(namespace, name))
        assert found is not None
        return found

    gate = PodGate("pod", "uid", is_open=True, reason="ModelReady", since="2026-03-04T05:06:07Z")
    slow = [asyncio.create_task(writer.write(record("slow", each), {"a": 1})) for each in "ab"]
    slow.append(asyncio.create_task(writer.write_gates(record("slow", "c"), (gate,))))
    async with asyncio.timeout(5):
        await api.hangs.wait()

        assert await writer.write(record("quick", "d"), {"a": 1})

    assert api.asked == ["slow/a", "quick/d"]
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
