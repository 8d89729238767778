import asyncio
import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from moorage_operator.api import labels, names
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.resources.owned import make_owner_reference
from moorage_operator.store import parse_objects
from moorage_operator.store.existence import KNOWN_SECONDS, Existence, ModelDropped, ModelGone
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import REFUSAL_RETRY_SECONDS, ObjectKey, Refusal
from moorage_operator.write.children import APPLY_SECONDS, HELD_SHARE, Applier
from moorage_operator.write.contests import TIMES, WITHIN_SECONDS
from moorage_operator.write.statuses import StatusWriter
from support.recorded_turns import RecordedTurns

KEY = ObjectKey("ns", "iris")


REFUSED_SECONDS = REFUSAL_RETRY_SECONDS * HELD_SHARE


def service(applied_hash: str = "h1", kind: str = "Service", **metadata: Any) -> dict[str, Any]:
    owner = {"kind": "InferenceModel", "name": "iris", "uid": "u", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": "iris",
            "namespace": "ns",
            "labels": labels.child("iris"),
            "annotations": {names.APPLIED_HASH: applied_hash},
            "ownerReferences": [owner],
            **metadata,
        },
        "spec": {"type": "ClusterIP"},
    }


class Cluster:
    """An API server of one namespace with the client's methods, which records writes."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes: list[str] = []
        self.reads: list[str] = []
        self.refuse: errors.ApiError | None = None
        self.refuse_delete: errors.ApiError | None = None
        self.prune_status = False
        self.missing_kinds: set[str] = set()
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
        assert namespace == "ns"
        assert metadata_only or kind is not kinds.INFERENCE_MODELS
        self.reads.append(kind.plural)
        if kind.plural in self.missing_kinds:
            raise errors.NotFound("the server could not find the requested resource", code=404)
        if (kind.plural, name) not in self.objects:
            raise errors.NotFound("not found", code=404, name=name)
        found = self.objects[kind.plural, name]
        return {"metadata": found["metadata"]} if metadata_only else found

    async def patch(
        self, kind: Kind, namespace: str, name: str, operations: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        assert namespace == "ns"
        metadata = self.objects[kind.plural, name]["metadata"]
        assert operations[-1]["value"] == metadata["resourceVersion"]
        self.writes.append(f"patch {kind.plural}")
        for each in operations[:-1]:
            metadata[each["path"].rpartition("/")[2]] = each["value"]
        self.version += 1
        metadata["resourceVersion"] = str(self.version)
        return self.objects[kind.plural, name]

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
    def __init__(self, places: int = 32) -> None:
        self.cluster = Cluster()
        self.now = 0.0
        self.wrote: list[str] = []
        self.changes: list[ObjectKey] = []
        self.store = Store(
            changed=lambda key, _: self.changes.append(key),
            pod_moved=lambda _: None,
            child_gone=lambda _: None,
        )
        self.store.put_model(self.cluster.objects["inferencemodels", "iris"])
        self.sink = parse_objects.Children("Service", self.store)
        self.missing = 0
        self.existence = Existence(lambda: self.now)
        self.statuses = StatusWriter(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            self.existence,
            selector="",
            turns=RecordedTurns(places),
            wrote=self.wrote.append,
            clock=lambda: self.now,
        )
        self.turns = RecordedTurns(places)
        self.applier = Applier(
            self.cluster,  # type: ignore[arg-type]
            self.store,
            self.existence,
            {kind: parse_objects.Children(kind, self.store) for kind in kinds.CHILDREN},
            wrote=self.wrote.append,
            turns=self.turns,
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

    def refusal(self) -> Refusal:
        """The refusal of the Service iris."""
        found = self.store.refusal(KEY, "Service", "iris")
        assert found is not None
        return found

    def applied(self) -> dict[str, str]:
        """The applied hash of each Service."""
        return {
            name: body["metadata"]["annotations"][names.APPLIED_HASH]
            for (plural, name), body in self.cluster.objects.items()
            if plural == "services"
        }

    def fail(self, which: set[str], seconds: float = 0.0) -> None:
        """Fail writes of objects with these names or kinds after this many seconds."""

        async def failing(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
            if which & {kind.plural, body["metadata"]["name"]}:
                self.now += seconds
                raise errors.ServerError("a webhook does not answer", code=500)
            return await Cluster.apply(self.cluster, kind, body, field_manager=field_manager)

        self.cluster.apply = failing  # type: ignore[method-assign]

    def drop_unknown(self) -> None:
        """The API server drops the field `spec.unknown`."""

        async def dropping(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
            written = await Cluster.apply(self.cluster, kind, body, field_manager=field_manager)
            written["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].pop("f:unknown", None)
            return written

        self.cluster.apply = dropping  # type: ignore[method-assign]

    def refuse_duplicates(self) -> None:
        """Another manager's port makes every apply invalid."""

        async def checking(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
            owners = self.cluster.objects[kind.plural, "iris"]["metadata"]["managedFields"]
            if any(each["manager"] == "kubectl-edit" for each in owners):
                self.cluster.writes.append(kind.plural)
                raise errors.Invalid('Duplicate value: "http"', code=422)
            return await Cluster.apply(self.cluster, kind, body, field_manager=field_manager)

        self.cluster.apply = checking  # type: ignore[method-assign]

    async def apply(self, *bodies: dict[str, Any], keeps_others: bool = False) -> bool:
        return await self.applier.apply(self.record, bodies, keeps_others=keeps_others)

    def edit(self, change: Any, kind: str = "Service") -> None:
        """Edit the child of this kind, with the event of the watch."""
        live = self.cluster.objects[kinds.CHILDREN[kind].plural, "iris"]
        change(live)
        self.cluster.version += 1
        live["metadata"]["resourceVersion"] = str(self.cluster.version)
        parse_objects.Children(kind, self.store).put(live)


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


async def test_a_field_taken_by_another_manager_is_restored(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))

    assert await world.apply(service())
    assert not await world.apply(service())


async def test_a_child_that_somebody_changes_after_each_write_is_held_and_reported(
    world: World,
) -> None:
    """Another installation of the operator writes with the same field manager."""
    other, body = service("theirs"), service("ours")
    await world.apply(body)

    for _ in range(2 * TIMES):
        live = copy.deepcopy(other)
        await Cluster.apply(world.cluster, kinds.SERVICES, live, field_manager="moorage")
        world.cluster.writes.pop()
        world.edit(lambda _: None)
        await world.apply(body, service("s2", kind="Ingress"))

    assert world.cluster.writes.count("services") == 1 + TIMES
    assert world.cluster.writes.count("ingresses") == 1
    assert "changed or deleted Service 'iris' 10 times" in world.refusal().message
    assert not world.refusal().transient
    world.now += WITHIN_SECONDS
    assert await world.apply(body)
    assert world.applied() == {"iris": "ours"}
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_child_that_somebody_deletes_after_each_write_is_held_and_reported(
    world: World,
) -> None:
    for _ in range(2 * TIMES):
        await world.apply(service())
        if gone := world.cluster.objects.pop(("services", "iris"), None):
            world.sink.drop(gone["metadata"]["uid"])

    assert world.cluster.writes.count("services") == 1 + TIMES
    assert "changed or deleted Service 'iris' 10 times" in world.refusal().message
    world.now += WITHIN_SECONDS
    assert await world.apply(service())
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_child_that_the_spec_drops_and_wants_again_is_never_held(world: World) -> None:
    for _ in range(2 * TIMES):
        assert await world.apply(service())
        assert await world.apply()

    assert world.applied() == {}


async def test_an_edit_that_arrives_before_the_response_to_an_apply_is_reverted(
    world: World,
) -> None:
    async def edited(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        written = await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)
        answer = copy.deepcopy(written)
        world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))
        return answer

    world.cluster.apply = edited  # type: ignore[method-assign]
    await world.apply(service())
    del world.cluster.apply

    assert await world.apply(service())
    assert not await world.apply(service())


async def test_a_field_that_the_api_server_drops_is_applied_once(world: World) -> None:
    body = service()
    body["spec"]["unknown"] = 1

    world.drop_unknown()
    await world.apply(body)

    assert not await world.apply(body)


async def test_an_orphaned_child_is_adopted(world: World) -> None:
    await world.apply(service())

    def orphan(live: dict[str, Any]) -> None:
        live["metadata"]["ownerReferences"] = []

    world.edit(orphan)

    assert await world.apply(service())
    child = world.store.child(KEY, "Service", "iris")
    assert child is not None
    assert child.owner_uid == "u"


async def test_an_unplanned_orphan_is_adopted_and_deleted(
    world: World,
) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(ownerReferences=[]))

    assert await world.apply()
    (owner,) = world.cluster.objects["services", "iris"]["metadata"]["ownerReferences"]
    assert owner == make_owner_reference(world.record.model)

    assert await world.apply()
    assert world.applied() == {}


OTHER_OWNER = {"kind": "Gateway", "name": "g", "uid": "x"}


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: metadata.update(ownerReferences=[OTHER_OWNER]),
        lambda metadata: metadata.update(ownerReferences=[], managedFields=[], annotations={}),
        lambda metadata: metadata.update(ownerReferences=[], labels={"moorage.dev/model": "b"}),
        lambda metadata: metadata.update(ownerReferences=[], deletionTimestamp="2026-01-01"),
    ],
    ids=["another owner", "never applied by the operator", "another model's label", "deleted"],
)
async def test_an_unplanned_object_that_may_be_foreign_is_not_changed(
    world: World, change: Callable[[dict[str, Any]], None]
) -> None:
    await world.apply(service())
    world.edit(lambda live: change(live["metadata"]))
    world.cluster.writes.clear()

    assert not await world.apply()
    assert world.cluster.writes == []


async def test_a_child_whose_label_admission_changes_is_refused_and_held_back(
    world: World,
) -> None:
    async def relabelled(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        written = await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)
        changed = {**labels.child("iris"), labels.MODEL: "policy's"}
        return {**written, "metadata": {**written["metadata"], "labels": changed}}

    world.cluster.apply = relabelled  # type: ignore[method-assign]

    assert await world.apply(service())
    assert "admission changed the label moorage.dev/model" in world.refusal().message
    world.cluster.writes.clear()
    assert not await world.apply(service())
    assert world.cluster.writes == []


RESTORER = "backup-tool"


def restore(live: dict[str, Any]) -> None:
    """Leave of an object what a backup tool writes again."""
    metadata = live["metadata"]
    (applied,) = metadata["managedFields"]
    metadata["managedFields"] = [{**applied, "manager": RESTORER, "operation": "Update"}]
    metadata["ownerReferences"] = []


async def test_a_child_restored_from_a_backup_is_taken_over_and_applied(world: World) -> None:
    await world.apply(service())
    world.edit(restore)

    assert await world.apply(service("h2"))
    metadata = world.cluster.objects["services", "iris"]["metadata"]
    assert metadata["ownerReferences"] == [make_owner_reference(world.record.model)]
    (manager,) = metadata["managedFields"]
    assert (manager["manager"], manager["operation"]) == (names.FIELD_MANAGER, "Apply")
    assert world.applied() == {"iris": "h1"}

    assert await world.apply(service("h2"))
    assert world.applied() == {"iris": "h2"}


async def test_an_unplanned_child_restored_from_a_backup_is_deleted(world: World) -> None:
    await world.apply(service())
    world.edit(restore)

    assert await world.apply()
    assert await world.apply()
    assert world.applied() == {}


async def test_an_unplanned_revision_restored_from_a_backup_is_deleted_unchanged(
    world: World,
) -> None:
    await world.apply(service(kind="ControllerRevision"))
    world.edit(restore, kind="ControllerRevision")
    world.cluster.writes.clear()

    assert await world.apply()
    assert world.cluster.writes == ["delete controllerrevisions iris"]
    assert not await world.apply()


async def test_a_planned_revision_restored_from_a_backup_is_taken_over(world: World) -> None:
    await world.apply(service(kind="ControllerRevision"))
    world.edit(restore, kind="ControllerRevision")

    assert await world.apply(service(kind="ControllerRevision"))
    metadata = world.cluster.objects["controllerrevisions", "iris"]["metadata"]
    assert metadata["ownerReferences"] == [make_owner_reference(world.record.model)]


async def test_a_copy_of_a_child_under_another_name_is_not_changed(world: World) -> None:
    await world.apply(service())
    copied = world.cluster.objects.pop(("services", "iris"))
    restore(copied)
    copied["metadata"] |= {"name": "iris-debug", "uid": "copy", "resourceVersion": "900"}
    world.cluster.objects["services", "iris-debug"] = copied
    world.sink.drop("child-iris")
    world.sink.put(copied)
    world.cluster.writes.clear()

    assert not await world.apply()
    assert world.cluster.writes == []


async def test_children_of_a_model_that_is_being_deleted_stay_orphaned(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(ownerReferences=[]))
    world.cluster.objects["inferencemodels", "iris"]["metadata"]["generation"] = 2

    assert not await world.apply()
    assert world.applied() == {"iris": "h1"}


async def test_an_orphan_that_admission_protects_does_not_stop_the_others(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(ownerReferences=[]))

    async def refuse(*_: Any) -> None:
        raise errors.Forbidden("denied by a policy", code=403)

    world.cluster.patch = refuse  # type: ignore[method-assign]
    other = service("h2", kind="ControllerRevision")

    assert await world.apply(other)
    assert ("controllerrevisions", "iris") in world.cluster.objects


@pytest.mark.parametrize(
    ("owners", "reason", "said"),
    [
        ([], "AlreadyExists", "no owner"),
        ([{"kind": "Gateway", "name": "g", "uid": "x"}], "AlreadyExists", "to Gateway 'g'"),
        (
            [{"kind": "InferenceModel", "name": "iris", "uid": "old"}],
            "AwaitingDeletion",
            "waiting for the garbage collector to delete Service 'iris'",
        ),
    ],
)
async def test_an_object_with_another_owner_is_reported_and_not_changed(
    world: World, owners: list[dict[str, Any]], reason: str, said: str
) -> None:
    other = {"metadata": {"name": "iris", "namespace": "ns", "ownerReferences": owners}}
    world.cluster.objects["services", "iris"] = other

    assert await world.apply(service())

    refusal = world.store.refusal(KEY, "Service", "iris")
    assert refusal is not None
    assert (refusal.reason, refusal.applied_hash) == (reason, "h1")
    assert said in refusal.message
    assert world.cluster.writes == []

    del world.cluster.objects["services", "iris"]
    assert await world.apply(service())  # at once, without waiting
    assert world.store.refusal(KEY, "Service", "iris") is None


def edited_port(live: dict[str, Any]) -> None:
    """Edit the number of the only port."""
    live["spec"]["ports"] = [{"name": "http", "port": 7777, "protocol": "TCP"}]
    ours = live["metadata"]["managedFields"][0]
    ours["fieldsV1"]["f:spec"] = {"f:type": {}, "f:other": {}}
    item = {'k:{"port":7777,"protocol":"TCP"}': {".": {}}}
    theirs = {"manager": "kubectl-edit", "operation": "Update"}
    live["metadata"]["managedFields"].append({**theirs, "fieldsV1": {"f:spec": {"f:ports": item}}})


async def test_leftovers_of_an_edited_key_are_taken_over_before_the_repair(
    world: World,
) -> None:
    body = service()
    body["spec"]["ports"] = [{"name": "http", "port": 8000, "protocol": "TCP"}]
    await world.apply(copy.deepcopy(body))
    world.edit(edited_port)
    world.refuse_duplicates()

    assert await world.apply(body)

    assert world.cluster.writes[1:] == ["patch services", "services"]
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_refusal_without_leftovers_is_reported(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse = errors.Invalid("bad", code=422)

    assert await world.apply(service("h2"))

    assert world.cluster.writes == ["services", "services"]
    assert not world.refusal().transient


async def test_a_child_that_is_being_deleted_is_awaited_and_reported(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    assert await world.apply(service("h2"))
    assert not await world.apply(service("h2"))  # it is reported already
    assert world.cluster.writes == ["services"]
    refusal = world.refusal()
    assert (refusal.reason, refusal.missing) == ("BeingDeleted", False)
    assert refusal.message == (
        "waiting for the deletion of Service 'iris', which is created again afterwards; if it "
        "lasts, look for a finalizer on it"
    )


@pytest.mark.parametrize(
    "error",
    [errors.Invalid("bad", code=422, reason="Invalid"), errors.Forbidden("quota", code=403)],
)
async def test_a_refused_child_is_retried_later_and_cleared(
    world: World, error: errors.ApiError
) -> None:
    world.cluster.refuse = error
    assert await world.apply(service())
    assert not await world.apply(service())
    assert len(world.cluster.writes) == 1

    world.now += REFUSED_SECONDS
    assert not await world.apply(service())  # the same refusal needs no new plan
    assert len(world.cluster.writes) == 2

    world.cluster.refuse = None
    world.now += REFUSED_SECONDS
    assert await world.apply(service())
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_refusal_of_a_dropped_model_is_not_kept(world: World) -> None:
    record = world.record

    async def drop_and_refuse(*_: Any, **__: Any) -> Any:
        world.store.drop_model(KEY, record.model.uid)  # a list of a lagging API server lacks it
        raise errors.ServerError("a webhook does not answer", code=500)

    sends = world.cluster.apply
    world.cluster.apply = drop_and_refuse  # type: ignore[method-assign]
    await world.apply(service())
    world.applier.forget(KEY)
    world.cluster.apply = sends  # type: ignore[method-assign]

    assert world.store.refusal(KEY, "Service", "iris") is None
    world.store.put_model(world.cluster.objects["inferencemodels", "iris"])
    assert await world.apply(service())


async def test_an_edited_child_is_retried_at_once_after_a_refusal(world: World) -> None:
    world.cluster.refuse = errors.Invalid("bad", code=422)
    await world.apply(service("h1"))
    world.cluster.refuse = None

    assert await world.apply(service("h2"))


@pytest.mark.parametrize(
    "error",
    [
        errors.ServerError("no", code=500),
        errors.Unreachable("timed out"),
        errors.Conflict("modified", code=409),
        errors.Throttled("later", code=429),
    ],
)
async def test_a_failed_write_is_retried_with_backoff_until_it_succeeds(
    world: World, error: errors.ApiError
) -> None:
    world.cluster.refuse = error
    pauses: list[float] = []
    for _ in range(7):
        assert await world.apply(service())
        assert not await world.apply(service())  # held back
        pauses.append(world.refusal().retry_seconds)
        world.now += world.refusal().retry_seconds
    assert pauses == [1, 2, 4, 8, 15, 15, 15]
    # A conflict may mean that the name is taken, so there it is looked at and tried once more.
    assert len(world.cluster.writes) == (14 if error.code == 409 else 7)
    assert [world.refusal().tries, world.refusal().message] == [7, error.message]

    world.cluster.refuse = None
    assert await world.apply(service())
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_failed_write_respects_retry_after(
    world: World,
) -> None:
    world.cluster.refuse = errors.Throttled("later", code=429, retry_after_seconds=40)

    await world.apply(service())

    assert world.refusal().retry_seconds == 40


async def test_a_child_that_cannot_be_deleted_does_not_stop_other_deletions(world: World) -> None:
    await world.apply(service(), service(name="other"))
    world.cluster.refuse_delete = errors.Throttled("later", code=429)

    with pytest.raises(errors.Throttled):
        await world.apply()

    assert world.cluster.writes[2:] == ["delete services iris", "delete services other"]


async def test_a_process_that_is_not_the_leader_stops_at_once(world: World) -> None:
    world.cluster.refuse = errors.NotLeading("not the leader")

    with pytest.raises(errors.NotLeading):
        await world.apply(service(), service(name="other"))
    assert world.store.refusal(KEY, "Service", "iris") is None


async def test_a_change_that_fails_does_not_stop_those_after_it(world: World) -> None:
    await world.apply(service(), service(name="other"), service(name="third"))
    world.fail({"iris"})

    assert await world.apply(*(service("h2", name=each) for each in ("iris", "other", "third")))

    assert world.applied() == {"iris": "h1", "other": "h2", "third": "h2"}
    assert world.refusal().transient
    assert not world.refusal().missing


@pytest.mark.parametrize(
    ("seconds", "written"), [(APPLY_SECONDS, "h2"), (APPLY_SECONDS + 1, "h1")]
)
async def test_a_hanging_webhook_does_not_block_the_reconcile(
    world: World, seconds: float, written: str
) -> None:
    await world.apply(*(service(name=each) for each in ("iris", "other", "third")))
    world.fail({"iris"}, seconds=seconds)

    await world.apply(*(service("h2", name=each) for each in ("iris", "other", "third")))
    assert world.applied() == {"iris": "h1", "other": written, "third": written}

    # The next reconcile does not retry the failed child yet, so the others are applied.
    await world.apply(*(service("h2", name=each) for each in ("iris", "other", "third")))
    assert world.applied() == {"iris": "h1", "other": "h2", "third": "h2"}


@pytest.mark.parametrize(
    ("seconds", "leaves", "written"),
    [
        (0, True, "h1"),
        (APPLY_SECONDS + 1, True, "h1"),
        (APPLY_SECONDS + 1, False, "h2"),
    ],
)
async def test_a_model_that_leaves_during_a_write_is_written_no_further(
    world: World, seconds: float, *, leaves: bool, written: str
) -> None:
    await world.apply(*(service(name=each) for each in ("iris", "other")))
    send = world.cluster.apply

    async def slowly(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["metadata"]["name"] == "iris":
            world.now += seconds
            if leaves:
                world.store.drop_model(KEY, "u")
        return await send(kind, body, field_manager=field_manager)

    world.cluster.apply = slowly  # type: ignore[method-assign]
    record = world.record
    bodies = tuple(service("h2", name=each) for each in ("iris", "other"))
    with pytest.raises(ModelDropped) if leaves else nullcontext():
        await world.applier.apply(record, bodies, keeps_others=True)

    assert world.cluster.objects["services", "other"]["metadata"]["annotations"] == {
        names.APPLIED_HASH: written
    }


async def test_nothing_more_is_created_for_a_model_that_left_during_a_creation(
    world: World,
) -> None:
    send = world.cluster.apply

    async def slowly(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        world.store.drop_model(KEY, "u")
        return await send(kind, body, field_manager=field_manager)

    world.cluster.apply = slowly  # type: ignore[method-assign]
    with pytest.raises(ModelDropped):
        await world.applier.apply(world.record, (service(), workload()), keeps_others=True)

    assert world.cluster.writes == ["services"]


@pytest.mark.parametrize(
    ("change", "found"),
    [
        pytest.param({}, True, id="ours"),
        pytest.param({"ownerReferences": []}, False, id="nobody's"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False, id="terminating"),
    ],
)
async def test_an_unlabelled_deployment_is_found_before_another_is_created(
    world: World, change: dict[str, Any], *, found: bool
) -> None:
    status = {"revisions": {"current": "r2", "lastGood": "r2"}}
    await world.statuses.write(world.record, status)
    side = service(kind="Deployment", name="iris-r2", labels={"a": "b"}, resourceVersion="7")
    side["metadata"] |= {"uid": "side", **change}
    world.cluster.objects["deployments", "iris-r2"] = side

    assert await world.apply(workload())

    made = [each for each in world.cluster.writes if each.endswith("deployments")]
    assert made == (["patch deployments"] if found else ["deployments"])
    assert (world.store.child(KEY, "Deployment", "iris-r2") is not None) is found


def policy(applied_hash: str = "p1") -> dict[str, Any]:
    return service(applied_hash, kind="NetworkPolicy")


def workload(applied_hash: str = "d1", replicas: int = 1) -> dict[str, Any]:
    return {**service(applied_hash, kind="Deployment"), "spec": {"replicas": replicas}}


async def test_the_network_policy_is_created_first(world: World) -> None:
    await world.apply(workload(), service(), policy())

    assert world.cluster.writes[0] == "networkpolicies"
    assert len(world.cluster.writes) == 3


@pytest.mark.parametrize(
    "error", [errors.Forbidden("a webhook says no", code=403), errors.ServerError("no", code=500)]
)
async def test_without_its_network_policy_no_workload_is_created(
    world: World, error: errors.ApiError
) -> None:
    world.cluster.refuse = error
    await world.apply(service(), policy(), workload())
    assert world.cluster.writes == ["networkpolicies"]

    world.cluster.refuse = None
    world.now += REFUSED_SECONDS
    await world.apply(service(), policy(), workload())
    assert world.cluster.writes[2:] == ["services", "deployments"]


async def test_a_workload_does_not_change_ahead_of_its_network_policy(world: World) -> None:
    await world.apply(policy(), service(), workload())
    await world.apply(policy(), service(), workload(), service(name="old"), keeps_others=True)
    world.cluster.writes.clear()
    world.cluster.refuse = errors.Invalid("bad peer", code=422)

    await world.apply(policy("p2"), service("h2"), workload("d2"))

    assert world.cluster.writes == ["networkpolicies"]
    assert world.store.child(KEY, "Service", "old") is not None


async def test_a_model_is_suspended_even_without_its_network_policy(world: World) -> None:
    await world.apply(policy(), service(), workload())
    world.fail({"networkpolicies"})

    for _ in range(2):  # the second time, the failed write is not tried again yet
        assert await world.apply(policy("p2"), service("h2"), workload("d2", replicas=0))
        stopped = world.cluster.objects["deployments", "iris"]["spec"]["replicas"] == 0
        assert stopped
        await world.apply(workload("d1"), keeps_others=True)

    assert await world.apply(policy("p2"), service("h2"), workload("d2", replicas=0))

    assert world.cluster.objects["deployments", "iris"]["spec"]["replicas"] == 0
    assert world.applied() == {"iris": "h1"}


async def test_no_child_is_created_for_a_model_whose_deletion_was_missed(world: World) -> None:
    del world.cluster.objects["inferencemodels", "iris"]

    with pytest.raises(ModelGone):
        await world.apply(service())
    assert world.cluster.writes == []


async def test_a_missing_kind_is_not_taken_for_a_deleted_model(world: World) -> None:
    await world.apply(service(name="old"))
    world.now += KNOWN_SECONDS + 1
    world.cluster.writes.clear()
    world.cluster.missing_kinds.add("inferencemodels")  # as while its CRD is being replaced

    assert await world.apply(service(), keeps_others=True)
    assert world.refusal().transient
    with pytest.raises(errors.NotFound):
        await world.apply()

    assert world.cluster.writes == []


async def test_each_write_takes_a_turn_of_its_namespace(world: World) -> None:
    await world.apply(service(), workload())
    await world.apply(service("h2"), workload(), keeps_others=True)
    await world.apply(workload())

    created = [("ns", "Service", True), ("ns", "Deployment", True)]
    assert world.turns.asked == [*created, ("ns", "Service", False), ("ns", "Service", False)]


async def test_a_new_model_needs_one_request_per_child(world: World) -> None:
    await world.statuses.write(world.record, {"a": 1})

    await world.apply(service())

    assert world.cluster.reads == []
    assert world.cluster.writes == ["inferencemodels/status", "services"]


async def test_a_model_with_a_recent_event_is_not_looked_up(world: World) -> None:
    world.existence.saw("u")

    await world.apply(service(), service(name="other"))

    assert world.cluster.reads == []


async def test_the_existence_of_a_model_is_checked_once_for_all_its_children(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert world.cluster.reads == ["inferencemodels"]


async def test_missing_children_are_created_concurrently(world: World) -> None:
    both = asyncio.Barrier(2)

    async def together(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        await both.wait()
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = together  # type: ignore[method-assign]

    async with asyncio.timeout(10):
        assert await world.apply(service(), service(name="other"))


@pytest.mark.parametrize("kind", ["Deployment", "HorizontalPodAutoscaler", "ScaledObject"])
async def test_a_deployment_is_created_after_the_service_was_written(
    world: World, kind: str
) -> None:
    sent, may_answer = asyncio.Event(), asyncio.Event()

    async def slow(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["kind"] == "Service":
            sent.set()
            await may_answer.wait()
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = slow  # type: ignore[method-assign]
    applying = asyncio.create_task(world.apply(service(kind=kind), service()))
    await sent.wait()
    for _ in range(10):  # turns of the event loop, in which the other could be sent
        await asyncio.sleep(0)
    assert world.cluster.writes == []

    may_answer.set()

    assert await applying
    assert world.cluster.writes == ["services", kinds.CHILDREN[kind].rbac_name]


async def test_a_deployment_is_created_although_the_service_was_refused(world: World) -> None:
    async def failing(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["kind"] == "Service":
            raise errors.ServerError("no", code=500)
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = failing  # type: ignore[method-assign]

    assert await world.apply(service(kind="Deployment"), service())
    assert world.store.child(KEY, "Deployment", "iris") is not None
    assert world.refusal().code == 500


async def test_a_child_that_cannot_be_created_does_not_stop_the_others(world: World) -> None:
    async def failing(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["metadata"]["name"] == "iris":
            raise errors.ServerError("no", code=500)
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = failing  # type: ignore[method-assign]

    assert await world.apply(service(), service(name="other"))
    assert world.store.child(KEY, "Service", "other") is not None
    assert world.refusal().code == 500
    assert world.refusal().missing


async def test_the_existence_of_a_model_is_checked_again_after_a_while(
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

    assert world.cluster.reads == ["inferencemodels", "services", "services"]
    assert world.cluster.writes == ["services"]


async def test_no_child_is_created_for_a_model_that_was_recreated(world: World) -> None:
    world.cluster.objects["inferencemodels", "iris"]["metadata"] = {"uid": "another"}

    with pytest.raises(ModelGone):
        await world.apply(service())


async def test_a_child_that_is_no_longer_planned_is_deleted(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert await world.apply(service())
    assert not await world.apply(service())

    assert world.cluster.writes == ["services", "services", "delete services other"]
    assert world.wrote == ["Service"] * 3
    assert world.store.child(KEY, "Service", "other") is None
    assert world.store.child(KEY, "Service", "iris") is not None


async def test_other_children_are_kept_for_an_invalid_spec(world: World) -> None:
    await world.apply(service(), service(name="other"))

    assert not await world.apply(keeps_others=True)

    assert len(world.store.children(world.record)) == 2


async def test_objects_without_the_models_owner_reference_are_never_deleted(world: World) -> None:
    await world.apply(service())
    owner = {"kind": "InferenceModel", "name": "iris", "uid": "another", "controller": True}
    world.edit(lambda live: live["metadata"].update(ownerReferences=[owner]))

    assert not await world.apply()

    assert world.cluster.writes == ["services"]


async def test_a_child_that_is_being_deleted_is_not_deleted_again(world: World) -> None:
    await world.apply(service())
    world.edit(lambda live: live["metadata"].update(deletionTimestamp="2026-01-01T00:00:00Z"))

    assert not await world.apply()


async def test_nothing_is_deleted_before_its_replacement_is_accepted(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse = errors.Invalid("bad", code=422)

    for _ in range(2):  # refused, and refused a moment ago
        await world.apply(service(name="other"))

    assert world.store.child(KEY, "Service", "iris") is not None
    world.cluster.refuse, world.now = None, REFUSED_SECONDS
    await world.apply(service(name="other"))
    assert world.store.child(KEY, "Service", "iris") is None


async def test_an_outdated_spec_deletes_nothing(world: World) -> None:
    await world.apply(service())
    world.cluster.objects["inferencemodels", "iris"]["metadata"]["generation"] = 2
    record = world.record

    assert not await world.applier.apply(record, (), keeps_others=False)
    assert world.store.child(KEY, "Service", "iris") is not None


async def test_a_child_that_is_gone_does_not_end_the_reconcile(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse_delete = errors.NotFound("gone", code=404)

    assert not await world.apply()
    assert world.store.refusals(KEY) == ()


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (errors.Forbidden("no right", code=403, reason="Forbidden"), False),
        (errors.Invalid("a webhook says no", code=400, reason="Bad"), False),
        (errors.ServerError("a webhook does not answer", code=500, reason="Down"), True),
    ],
)
async def test_a_refused_deletion_is_kept_for_the_next_plan(
    world: World, error: errors.ApiError, transient: bool
) -> None:
    await world.apply(service(), service(name="other"))
    world.cluster.refuse_delete = error

    assert await world.apply(service(name="other"))

    (refusal,) = world.store.refusals(KEY)
    assert (refusal.kind, refusal.name, refusal.applied_hash) == ("Service", "iris", "")
    assert (refusal.code, refusal.reason, refusal.message) == (
        error.code,
        error.reason,
        error.message,
    )
    assert (refusal.transient, refusal.tries, refusal.at) == (transient, 1, world.now)
    child = world.store.child(KEY, "Service", "iris")
    assert child
    assert refusal.deletes == child.uid


async def test_a_failing_deletion_is_tried_less_and_less_often(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse_delete = errors.ServerError("a webhook does not answer", code=500)
    pauses = []
    for _ in range(5):
        assert await world.apply()
        assert not await world.apply()  # just tried
        pauses.append(world.applier.retry_seconds(KEY))
        world.now += pauses[-1] or 0.0

    assert pauses == [1, 2, 4, 8, REFUSAL_RETRY_SECONDS]
    assert world.cluster.writes.count("delete services iris") == 5


async def test_a_deletion_needs_a_new_plan_although_another_one_was_just_refused(
    world: World,
) -> None:
    await world.apply(service(), service(name="other"))
    world.cluster.refuse_delete = errors.Forbidden("a policy says no", code=403)
    await world.apply()
    world.edit(lambda live: live["metadata"].update(uid="another"))

    world.cluster.refuse_delete = None
    assert await world.apply()
    assert world.applied() == {"other": "h1"}


async def test_another_child_of_the_same_name_is_deleted_at_once(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse_delete = errors.Forbidden("a policy says no", code=403)
    await world.apply()
    world.edit(lambda live: live["metadata"].update(uid="another"))
    assert world.applier.retry_seconds(KEY) is None

    world.cluster.refuse_delete = None
    assert await world.apply()
    assert world.applied() == {}


async def test_a_refused_deletion_is_retried_and_logged_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    other = service(name="other")
    await world.apply(service(), other)
    assert world.applier.retry_seconds(KEY) is None

    world.cluster.refuse_delete = errors.Forbidden("a policy says no", code=403)
    for is_new in (True, False):
        world.now += REFUSED_SECONDS
        assert await world.apply(other) is is_new
        assert world.applier.retry_seconds(KEY) == REFUSAL_RETRY_SECONDS
    assert [each.message for each in caplog.records] == ["child cannot be deleted"]
    assert world.cluster.writes.count("delete services iris") == 2

    world.cluster.refuse_delete = None
    world.now += REFUSED_SECONDS
    await world.apply(other)
    assert world.applied() == {"other": "h1"}
    assert world.applier.retry_seconds(KEY) is None
    assert world.store.refusals(KEY) == ()


async def test_a_child_that_is_wanted_again_needs_no_deletion(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse_delete = errors.Forbidden("a policy says no", code=403)
    await world.apply()
    assert world.applier.retry_seconds(KEY)

    await world.apply(service())

    assert world.applier.retry_seconds(KEY) is None


async def test_a_deletion_of_an_older_version_is_retried(world: World) -> None:
    # The event of the newer version may change nothing that starts a pass.
    await world.apply(service())
    world.cluster.refuse_delete = errors.Conflict("edited since", code=409)

    with pytest.raises(errors.Conflict):
        await world.apply()


@pytest.mark.parametrize(("kind", "expected"), [("Service", 0), ("ScaledObject", 1)])
async def test_a_removed_kind_triggers_discovery(world: World, kind: str, expected: int) -> None:
    world.cluster.refuse = errors.NotFound("the server could not find the resource", code=404)

    await world.apply(service(kind=kind))
    assert world.missing == expected


async def test_every_write_of_a_reconcile_needs_a_new_plan(world: World) -> None:
    kept = service(name="kept")
    await world.apply(policy(), service(), kept)

    assert await world.apply(policy(), service("h2"), kept)  # the first, but not the last
    assert await world.apply(policy("p2"), service("h2"), kept)  # only the guard
    world.cluster.refuse_delete = errors.Forbidden("no right", code=403)
    assert await world.apply(policy("p2"), service("h3"))  # "kept" cannot be deleted
    assert not await world.apply(policy("p2"), service("h3"))


async def test_a_refused_change_needs_no_new_plan_twice(world: World) -> None:
    await world.apply(service())
    world.cluster.refuse = errors.Invalid("bad", code=422)

    assert await world.apply(service("h2"))
    assert not await world.apply(service("h2"))
    assert world.cluster.writes == ["services", "services"]
    assert await world.apply(service())  # as it was, so nothing is refused any more
    assert world.store.refusal(KEY, "Service", "iris") is None
    assert not await world.apply(service())


async def test_the_deletion_of_another_owners_child_is_reported(world: World) -> None:
    theirs = service(uid="x", resourceVersion="5", ownerReferences=[OTHER_OWNER])
    theirs["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.objects["services", "iris"] = theirs
    world.sink.put(theirs)

    assert await world.apply(service())

    refusal = world.refusal()
    assert refusal.reason == "AwaitingDeletion"
    assert "Service 'iris'" in refusal.message
    assert world.cluster.writes == []


async def test_a_failed_write_after_a_refusal_counts_from_one(world: World) -> None:
    world.cluster.refuse = errors.Invalid("bad", code=422)
    await world.apply(service())
    world.cluster.refuse = errors.ServerError("a webhook does not answer", code=500)
    world.now += REFUSED_SECONDS
    await world.apply(service())

    assert (world.refusal().transient, world.refusal().tries) == (True, 1)


@pytest.mark.parametrize("remembered", [0, 1, 100])
async def test_what_the_api_server_drops_is_known_for_each_child(
    world: World, monkeypatch: pytest.MonkeyPatch, remembered: int
) -> None:
    monkeypatch.setattr("moorage_operator.write.children.INTACT", remembered)
    body = service()
    body["spec"]["unknown"] = 1

    world.drop_unknown()
    plain = service("h9", name="plain")
    await world.apply(body, plain)

    for _ in range(2):
        assert not await world.apply(body, plain)
    world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))
    assert await world.apply(body, plain)
    assert not await world.apply(body, plain)


async def test_a_field_that_the_api_server_no_longer_drops_is_restored(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_operator.write.children.INTACT", 0)
    body = service()
    body["spec"]["unknown"] = 1

    def without_unknown(live: dict[str, Any]) -> None:
        live["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"].pop("f:unknown", None)

    world.drop_unknown()
    await world.apply(body)
    del world.cluster.apply  # of a newer API server
    world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))
    assert await world.apply(body)  # now kept
    world.edit(without_unknown)

    assert await world.apply(body)


async def test_nothing_is_known_about_the_children_of_a_forgotten_model(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_operator.write.children.INTACT", 0)
    body = service()
    body["spec"]["unknown"] = 1

    world.drop_unknown()
    await world.apply(body)

    world.applier.forget(KEY)

    assert await world.apply(body)


async def test_the_event_of_a_child_that_is_being_created_triggers_nothing(world: World) -> None:
    async def shown(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        written = await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)
        world.sink.put(copy.deepcopy(written))
        return written

    world.cluster.apply = shown  # type: ignore[method-assign]
    world.changes.clear()

    await world.apply(service())

    assert world.changes == []


async def test_pods_of_known_deployments_cause_no_lookups(world: World) -> None:
    await world.statuses.write(world.record, {"revisions": {"current": "r3"}})
    await world.apply(workload(), {**workload(), "metadata": workload_metadata("iris-r2")})
    world.cluster.reads.clear()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True, "uid": "r"}
    for name, made_by, revision in (("p", "iris-h", "r1"), ("q", "iris-r2-h", "r2")):
        marks = {
            "moorage.dev/model": "iris",
            "pod-template-hash": "h",
            "moorage.dev/revision": revision,
        }
        about = {"name": name, "namespace": "ns", "uid": name, "labels": marks}
        about |= {"resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
        about["ownerReferences"] = [{**owner, "name": made_by}]
        parse_objects.Pods(world.store).put({"metadata": about, "spec": {}})
    assert world.store.deployments_of_pods(KEY) == {"iris", "iris-r2"}

    assert not await world.apply(workload(), keeps_others=True)

    assert world.cluster.reads == []


async def test_a_changed_plan_needs_no_lookup(world: World) -> None:
    await world.apply(service())
    world.cluster.reads.clear()

    await world.apply(service("h2"))

    assert world.cluster.reads == []


async def test_a_child_that_was_just_refused_needs_no_lookup_of_its_model(world: World) -> None:
    world.cluster.refuse = errors.Invalid("bad", code=422)
    await world.apply(service())
    world.cluster.reads.clear()
    world.existence.doubt("u")

    await world.apply(service())

    assert world.cluster.reads == []


async def test_leftovers_of_an_edit_without_an_event_are_taken_over(world: World) -> None:
    body = service()
    body["spec"]["ports"] = [{"name": "http", "port": 8000, "protocol": "TCP"}]
    await world.apply(copy.deepcopy(body))
    edited_port(world.cluster.objects["services", "iris"])
    world.refuse_duplicates()
    body["metadata"]["annotations"] = {names.APPLIED_HASH: "h2"}

    assert await world.apply(body)

    assert world.cluster.writes[1:] == ["services", "patch services", "services"]
    assert world.applied() == {"iris": "h2"}


async def test_a_guard_with_a_dropped_field_is_in_place(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage_operator.write.children.INTACT", 0)
    guard = policy()
    guard["spec"]["unknown"] = 1

    world.drop_unknown()

    await world.apply(guard, service())

    assert world.applied() == {"iris": "h1"}


async def test_workloads_are_created_last() -> None:
    world = World(places=1)
    begun: list[str] = []

    async def recording(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        begun.append(kind.plural)
        await asyncio.sleep(0)
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = recording  # type: ignore[method-assign]

    await world.apply(service(name="a"), workload(), service(name="b"))

    assert begun == ["services", "services", "deployments"]


async def test_a_creation_ends_before_its_reconcile_does(world: World) -> None:
    ended: list[str] = []

    async def losing(kind: Kind, body: Mapping[str, Any], *, field_manager: str) -> Any:
        if body["metadata"]["name"] == "a":
            raise errors.NotLeading("another one leads")
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append(body["metadata"]["name"])
        return await Cluster.apply(world.cluster, kind, body, field_manager=field_manager)

    world.cluster.apply = losing  # type: ignore[method-assign]

    with pytest.raises(errors.NotLeading):
        await world.apply(service(name="a"), service(name="b"))

    assert ended == ["b"]


def workload_metadata(name: str) -> dict[str, Any]:
    return {**workload()["metadata"], "name": name}


async def test_the_log_names_the_child(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await world.apply(service())
    world.edit(lambda live: live["metadata"]["managedFields"][0]["fieldsV1"].pop("f:spec"))
    await world.apply(service())
    world.cluster.refuse = errors.Invalid("bad", code=422)
    await world.apply(service("h2"))
    world.cluster.refuse = errors.ServerError("no webhook", code=500)
    await world.apply(service("h3"))
    world.cluster.refuse, world.cluster.refuse_delete = None, errors.Forbidden("no", code=403)
    await world.apply()
    world.cluster.refuse_delete, world.now = None, world.now + REFUSED_SECONDS
    await world.apply()

    facts = [
        (each.message, *(each.__dict__.get(name) for name in ("kind", "object", "error")))
        for each in caplog.records
    ]
    assert facts == [
        ("child was edited", "Service", "iris", None),
        ("child refused", "Service", "iris", "bad"),
        ("child write failed", "Service", "iris", "no webhook"),
        ("child cannot be deleted", "Service", "iris", "no"),
        ("child deleted", "Service", "iris", None),
    ]
    assert caplog.records[0].__dict__["fields"] == [".spec"]


async def test_an_ingress_without_its_class_is_created_again(world: World) -> None:
    ingress, plain = service(kind="Ingress"), service("i3", kind="Ingress")
    ingress["spec"]["ingressClassName"] = "nginx"
    changed = copy.deepcopy(ingress)
    changed["metadata"]["annotations"] = {names.APPLIED_HASH: "i2"}
    await world.apply(ingress)
    await world.apply(changed)
    assert world.cluster.writes == ["ingresses", "ingresses"]
    world.cluster.writes.clear()

    assert await world.apply(plain, keeps_others=True)
    assert world.cluster.writes == ["delete ingresses iris"]
    assert await world.apply(plain, keeps_others=True)
    assert world.cluster.writes == ["delete ingresses iris", "ingresses"]
    edited = service("i4", kind="Ingress")
    assert await world.apply(edited, keeps_others=True)  # had no class before either
    assert world.cluster.writes[2:] == ["ingresses"]


async def test_a_service_with_a_field_of_that_name_is_not_replaced(world: World) -> None:
    body = service()
    body["spec"]["ingressClassName"] = "nginx"
    await world.apply(body)

    await world.apply(service("h2"))

    assert world.cluster.writes == ["services", "services"]
