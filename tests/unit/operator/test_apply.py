import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from moorage_operator import names, observe
from moorage_operator.apply import REFUSED_SECONDS, Applier
from moorage_operator.existence import KNOWN_SECONDS, Existence, ModelGone
from moorage_operator.kube import errors
from moorage_operator.kube.kinds import Kind
from moorage_operator.opened import ModelRecord
from moorage_operator.state import ObjectKey
from moorage_operator.status_writes import StatusWriter
from support.operator_values import deaf_store

KEY = ObjectKey("ns", "iris")


def service(applied_hash: str = "h1", kind: str = "Service", **metadata: Any) -> dict[str, Any]:
    owner = {"kind": "InferenceModel", "name": "iris", "uid": "u", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": "iris",
            "namespace": "ns",
            "labels": {"moorage.dev/model": "iris"},
            "annotations": {names.APPLIED_HASH: applied_hash},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"type": "ClusterIP"},
    }


class Cluster:
    """An API server of one namespace, with the same methods as the client; remembers writes."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.refuse: errors.ApiError | None = None
        self.refuse_delete: errors.ApiError | None = None
        self.prune_status = False
        self.version = 100
        self.objects["inferencemodels", "iris"] = {
            "metadata": {
                "name": "iris",
                "namespace": "ns",
                "uid": "u",
                "resourceVersion": "1",
                "generation": 1,
            },
            "spec": {},
        }

    async def get(
        self, kind: Kind, namespace: str, name: str, *, metadata_only: bool = False
    ) -> dict[str, Any]:
        assert (namespace, metadata_only) == ("ns", True)
        self.reads.append(kind.plural)
        if (kind.plural, name) not in self.objects:
            raise errors.NotFound("not found", code=404)
        return {"metadata": self.objects[kind.plural, name]["metadata"]}

    async def apply(
        self, kind: Kind, body: Mapping[str, Any], *, field_manager: str
    ) -> dict[str, Any]:
        wanted, known = body["metadata"].get("resourceVersion"), self._version_of(kind, body)
        if wanted and known and wanted != known:
            raise errors.Conflict("the object has been modified", code=409)
        self.writes.append(kind.rbac_name)
        if self.refuse:
            raise self.refuse
        self.version += 1
        if kind.subresource:
            return self._status(body, field_manager)
        assert field_manager == names.FIELD_MANAGER
        name = body["metadata"]["name"]
        known = self.objects.get((kind.plural, name))
        wanted = body["metadata"].get("resourceVersion")
        if known and wanted and wanted != known["metadata"].get("resourceVersion"):
            raise errors.Conflict("another resourceVersion", code=409)
        fields = {"f:metadata": _fields(body["metadata"]), "f:spec": _fields(body["spec"])}
        manager = {"manager": field_manager, "operation": "Apply", "fieldsV1": fields}
        metadata = {
            **body["metadata"],
            "uid": f"child-{name}",
            "resourceVersion": str(self.version),
            "managedFields": [manager],
        }
        self.objects[kind.plural, name] = {**body, "metadata": metadata}
        return self.objects[kind.plural, name]

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str, resource_version: str
    ) -> None:
        metadata = self.objects[kind.plural, name]["metadata"]
        assert (namespace, uid) == ("ns", metadata["uid"])
        assert resource_version == metadata["resourceVersion"]
        self.writes.append(f"delete {kind.plural} {name}")
        if self.refuse_delete:
            raise self.refuse_delete
        del self.objects[kind.plural, name]

    def _version_of(self, kind: Kind, body: Mapping[str, Any]) -> str:
        known = self.objects.get((kind.plural, body["metadata"]["name"]))
        return known["metadata"].get("resourceVersion", "somebody's") if known else ""

    def _status(self, body: Mapping[str, Any], field_manager: str) -> dict[str, Any]:
        assert field_manager == names.STATUS_FIELD_MANAGER
        model = self.objects.get(("inferencemodels", "iris"))
        if model is None:
            raise errors.NotFound("gone", code=404)
        if model["metadata"]["uid"] != body["metadata"]["uid"]:
            raise errors.Conflict("uid", code=409)
        status = {} if self.prune_status else body["status"]
        metadata = {**model["metadata"], "resourceVersion": str(self.version)}
        self.objects["inferencemodels", "iris"] = {
            "metadata": metadata,
            "spec": {},
            "status": status,
        }
        return self.objects["inferencemodels", "iris"]


def _fields(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {}
    return {f"f:{key}": _fields(inner) for key, inner in value.items()}


class World:
    def __init__(self) -> None:
        self.cluster = Cluster()
        self.now = 0.0
        self.wrote: list[str] = []
        self.store = deaf_store()
        self.store.put_model(self.cluster.objects["inferencemodels", "iris"])
        self.sink = observe.Children("Service", self.store)
        self.missing = 0
        self.existence = Existence(lambda: self.now)
        self.statuses = StatusWriter(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            self.existence,
            wrote=self.wrote.append,
        )
        self.applier = Applier(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            self.existence,
            {"Service": self.sink},
            wrote=self.wrote.append,
            missing=self.note_missing,
            clock=lambda: self.now,
        )

    def note_missing(self) -> None:
        self.missing += 1

    @property
    def record(self) -> ModelRecord:
        found = self.store.model(KEY)
        assert found is not None
        return found

    async def apply(self, *bodies: dict[str, Any], keeps_others: bool = False) -> bool:
        return await self.applier.apply(self.record, bodies, keeps_others=keeps_others)

    def edit(self, change: Any) -> None:
        """Somebody edits the Service, and the watch tells."""
        live = self.cluster.objects["services", "iris"]
        change(live)
        self.cluster.version += 1
        live["metadata"]["resourceVersion"] = str(self.cluster.version)
        self.sink.put(live)


@pytest.fixture
def world() -> World:
    return World()


async def test_a_child_is_applied_once(world: World) -> None:
    assert await world.apply(service())
    assert not await world.apply(service())

    assert world.cluster.writes == ["services"]
    assert world.wrote == ["Service"]


async def test_a_changed_plan_is_applied(world: World) -> None:
    await world.apply(service("h1"))

    assert await world.apply(service("h2"))


async def test_a_field_that_somebody_took_is_taken_back(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))

    assert await world.apply(service())
    assert not await world.apply(service())


async def test_a_field_that_the_api_server_always_drops_is_not_fought_for(world: World) -> None:
    body = service()
    body["spec"]["unknown"] = 1

    async def dropping(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        written = await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)
        del written["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:unknown"]
        return written

    world.cluster.apply = dropping  # type: ignore[method-assign]
    await world.apply(body)

    assert not await world.apply(body)


async def test_an_orphaned_child_of_ours_is_taken_back(world: World) -> None:
    await world.apply(service())

    def orphan(live: dict[str, Any]) -> None:
        live["metadata"]["ownerReferences"] = []

    world.edit(orphan)

    assert await world.apply(service())
    child = world.store.child(KEY, "Service", "iris")
    assert child is not None
    assert child.owner_uid == "u"


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        ([], "belongs to nobody"),
        ([{"kind": "Gateway", "name": "g", "uid": "x"}], "belongs to Gateway 'g'"),
        ([{"kind": "InferenceModel", "name": "iris", "uid": "old"}], "garbage collection"),
    ],
)
async def test_an_object_of_somebody_else_is_refused_and_left_alone(
    world: World, owners: list[dict[str, Any]], said: str
) -> None:
    other = {"metadata": {"name": "iris", "namespace": "ns", "ownerReferences": owners}}
    world.cluster.objects["services", "iris"] = other

    assert await world.apply(service())

    refusal = world.store.refusal(KEY, "Service", "iris")
    assert refusal is not None
    assert (refusal.reason, refusal.applied_hash) == ("AlreadyExists", "h1")
    assert said in refusal.message
    assert world.cluster.writes == []

    del world.cluster.objects["services", "iris"]
    assert await world.apply(service())  # at once, without waiting
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_child_that_is_being_deleted_is_waited_for(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    assert not await world.apply(service("h2"))
    assert world.cluster.writes == ["services"]


@pytest.mark.parametrize(
    "error",
    [errors.Invalid("bad", code=422, reason="Invalid"), errors.Forbidden("quota", code=403)],
)
async def test_a_refused_child_is_tried_again_after_a_while_and_cleared(
    world: World, error: errors.ApiError
) -> None:
    world.cluster.refuse = error
    assert await world.apply(service())
    assert not await world.apply(service())
    assert len(world.cluster.writes) == 1

    world.now += REFUSED_SECONDS
    assert not await world.apply(service())  # the same refusal is no news
    assert len(world.cluster.writes) == 2

    world.cluster.refuse = None
    world.now += REFUSED_SECONDS
    assert await world.apply(service())
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_an_edited_child_is_tried_at_once_after_a_refusal(world: World) -> None:
    world.cluster.refuse = errors.Invalid("bad", code=422)
    await world.apply(service("h1"))
    world.cluster.refuse = None

    assert await world.apply(service("h2"))


async def test_trouble_of_the_api_server_is_raised_to_be_retried(world: World) -> None:
    world.cluster.refuse = errors.ServerError("no", code=500)

    with pytest.raises(errors.ServerError):
        await world.apply(service())
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_child_is_not_made_for_a_model_whose_deletion_was_missed(world: World) -> None:
    del world.cluster.objects["inferencemodels", "iris"]

    with pytest.raises(ModelGone):
        await world.apply(service())
    assert world.cluster.writes == []


async def test_a_new_model_costs_one_request_a_child(world: World) -> None:
    await world.statuses.write(world.record, {"a": 1})

    await world.apply(service())

    assert world.cluster.reads == []
    assert world.cluster.writes == ["inferencemodels/status", "services"]


async def test_a_model_whose_event_has_just_come_is_not_asked_for(world: World) -> None:
    world.existence.saw("u")

    await world.apply(service(), service(name="other"))

    assert world.cluster.reads == []


async def test_whether_a_model_exists_is_asked_once_for_all_its_children(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert world.cluster.reads == ["inferencemodels"]


async def test_children_that_are_missing_are_made_at_the_same_time(world: World) -> None:
    both = asyncio.Barrier(2)

    async def together(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        await both.wait()
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = together  # type: ignore[method-assign]

    async with asyncio.timeout(10):
        assert await world.apply(service(), service(name="other"))


async def test_a_child_that_cannot_be_made_now_does_not_stop_the_others(world: World) -> None:
    async def failing(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["metadata"]["name"] == "iris":
            raise errors.ServerError("no", code=500)
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = failing  # type: ignore[method-assign]

    with pytest.raises(errors.ServerError):
        await world.apply(service(), service(name="other"))
    assert world.store.child(KEY, "Service", "other") is not None


async def test_whether_a_model_still_exists_is_asked_once_nothing_has_shown_it_for_a_while(
    world: World,
) -> None:
    await world.statuses.write(world.record, {"a": 1})
    world.now += KNOWN_SECONDS + 1
    del world.cluster.objects["inferencemodels", "iris"]

    with pytest.raises(ModelGone):
        await world.apply(service())

    assert world.cluster.writes == ["inferencemodels/status"]


async def test_a_child_that_lost_its_label_is_found_by_its_owner(world: World) -> None:
    owner = {"kind": "InferenceModel", "name": "iris", "uid": "u", "controller": True}
    metadata = {"name": "iris", "namespace": "ns", "ownerReferences": [owner]}
    world.cluster.objects["services", "iris"] = {"metadata": metadata}

    assert await world.apply(service())

    assert world.cluster.reads == ["inferencemodels", "services"]
    assert world.cluster.writes == ["services"]


async def test_a_child_is_not_made_for_a_model_that_was_recreated(world: World) -> None:
    world.cluster.objects["inferencemodels", "iris"]["metadata"] = {"uid": "another"}

    with pytest.raises(ModelGone):
        await world.apply(service())


async def test_a_child_that_is_not_planned_any_more_is_deleted(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert await world.apply(service())
    assert not await world.apply(service())

    assert world.cluster.writes == ["services", "services", "delete services other"]
    assert world.wrote == ["Service"] * 3
    assert world.store.child(KEY, "Service", "other") is None
    assert world.store.child(KEY, "Service", "iris") is not None


async def test_other_children_stay_where_nobody_knows_what_the_spec_wants(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert not await world.apply(keeps_others=True)

    assert len(world.store.children(world.record)) == 2


async def test_what_the_model_does_not_own_is_never_deleted(world: World) -> None:
    await world.apply(service())
    owner = {"kind": "InferenceModel", "name": "iris", "uid": "another", "controller": True}
    world.edit(lambda live: live["metadata"].update(ownerReferences=[owner]))

    assert not await world.apply()

    assert world.cluster.writes == ["services"]


async def test_a_child_that_is_being_deleted_is_not_deleted_again(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    assert not await world.apply()


async def test_nothing_is_deleted_before_what_takes_its_place_is_accepted(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse = errors.Invalid("bad", code=422)

    for _ in range(2):  # refused, and refused a moment ago
        await world.apply(service(name="other"))

    assert world.store.child(KEY, "Service", "iris") is not None
    world.cluster.refuse, world.now = None, REFUSED_SECONDS
    await world.apply(service(name="other"))
    assert world.store.child(KEY, "Service", "iris") is None


async def test_nothing_is_deleted_by_a_spec_that_is_not_the_newest(world: World) -> None:
    await world.apply(service())
    world.cluster.objects["inferencemodels", "iris"]["metadata"]["generation"] = 2
    record = world.record

    assert not await world.applier.apply(record, (), keeps_others=False)
    assert world.store.child(KEY, "Service", "iris") is not None


@pytest.mark.parametrize(
    "error",
    [
        errors.Conflict("edited since", code=409),
        errors.NotFound("gone", code=404),
        errors.Forbidden("no right", code=403),
    ],
)
async def test_a_child_that_cannot_be_deleted_now_ends_no_pass(
    world: World, error: errors.ApiError
) -> None:
    await world.apply(service())
    world.cluster.refuse_delete = error

    assert not await world.apply()


@pytest.mark.parametrize(("kind", "told"), [("Service", 0), ("ScaledObject", 1)])
async def test_a_kind_that_the_api_server_does_not_know_any_more_is_looked_for(
    world: World, kind: str, told: int
) -> None:
    world.cluster.refuse = errors.NotFound("the server could not find the resource", code=404)

    with pytest.raises(errors.NotFound):
        await world.apply(service(kind=kind))
    assert world.missing == told
