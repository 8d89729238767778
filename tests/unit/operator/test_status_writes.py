"""The writes of statuses, against an API that keeps one model."""

from collections.abc import Mapping
from typing import Any

import pytest

from moorage_operator import names
from moorage_operator.existence import Existence, ModelGone
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.opened import ModelRecord
from moorage_operator.state import ObjectKey
from moorage_operator.status_writes import StatusWriter
from moorage_operator.store import Store
from moorage_operator.urgency import Urgency

KEY = ObjectKey("ns", "iris")


class World:
    """A writer, its store, and the API's side of a status."""

    def __init__(self) -> None:
        self.live: dict[str, Any] = {
            "metadata": {"name": "iris", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
            "spec": {},
        }
        self.writes = 0
        self.prunes = False
        self.refuse: errors.ApiError | None = None
        self.wrote: list[str] = []
        self.told: list[Urgency] = []
        self.store = Store(
            changed=lambda _, urgency: self.told.append(urgency),
            pod_moved=lambda _: None,
            child_gone=lambda _: None,
        )
        self.store.put_model(self.live)
        self.existence = Existence(lambda: 0.0)
        self.writer = StatusWriter(
            self,  # type: ignore[arg-type]
            self.store,
            self.existence,
            wrote=self.wrote.append,
        )

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        assert (kind, field_manager) == (kinds.INFERENCE_MODEL_STATUS, names.STATUS_FIELD_MANAGER)
        if self.refuse:
            raise self.refuse
        if not self.live:
            raise errors.NotFound("gone", code=404)
        metadata = self.live["metadata"]
        if metadata["uid"] != body["metadata"]["uid"]:
            raise errors.Conflict("uid", code=409)
        self.writes += 1
        status = {} if self.prunes else body["status"]
        metadata = {**metadata, "resourceVersion": str(100 + self.writes)}
        self.live = {"metadata": metadata, "spec": {}, "status": status}
        return self.live

    @property
    def record(self) -> ModelRecord:
        found = self.store.model(KEY)
        assert found is not None
        return found


@pytest.fixture
def world() -> World:
    return World()


async def test_a_write_shows_that_the_model_exists_and_is_no_news_to_its_pass(
    world: World,
) -> None:
    world.told.clear()

    await world.writer.write(world.record, {"a": 1})

    assert world.existence.is_known("u")
    assert world.told == []


async def test_a_status_is_written_when_it_differs(world: World) -> None:
    assert await world.writer.write(world.record, {"a": 1})
    assert not await world.writer.write(world.record, {"a": 1})
    assert await world.writer.write(world.record, {"a": 2})

    assert world.wrote == ["status", "status"]
    assert world.record.status == {"a": 2}


async def test_a_status_that_the_api_server_prunes_is_not_written_for_ever(world: World) -> None:
    world.prunes = True

    assert await world.writer.write(world.record, {"unknown": 1})
    assert not await world.writer.write(world.record, {"unknown": 1})


async def test_a_status_edited_by_hand_is_written_again(world: World) -> None:
    await world.writer.write(world.record, {"a": 1})
    live = world.live
    metadata = {**live["metadata"], "resourceVersion": "999"}
    world.store.put_model({**live, "metadata": metadata, "status": {"a": "edited"}})

    assert await world.writer.write(world.record, {"a": 1})


@pytest.mark.parametrize("recreated", [True, False])
async def test_the_status_of_a_model_that_is_gone_ends_its_pass(
    world: World, recreated: bool
) -> None:
    record = world.record
    world.live = {}
    if recreated:
        world.live = {"metadata": {"uid": "another"}}

    with pytest.raises(ModelGone):
        await world.writer.write(record, {"a": 1})


async def test_a_crd_that_is_too_old_is_named(world: World) -> None:
    text = ".status.new: field not declared in schema"
    world.refuse = errors.ServerError(text, code=500)

    with pytest.raises(errors.ServerError) as caught:
        await world.writer.write(world.record, {"new": 1})

    assert "the installed CRD is older than this operator" in caught.value.message
    assert text in caught.value.message
