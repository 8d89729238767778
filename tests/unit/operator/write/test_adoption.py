"""Deployments that lost their label or owner, found by the names in the status."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api import labels, names
from moorage_operator.kube import errors, kinds
from moorage_operator.resources.owned import make_owner_reference
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import Child, ChildObserved
from moorage_operator.values.observed import ObjectKey
from moorage_operator.write.adoption import Adoption, is_ours, is_restored
from support.operator_values import model

NAME = "digits-abc"
OWNER = {"uid": "uid-digits", "controller": True}
APPLIED = [{"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


class Cluster:
    """One Deployment, with a record of changes."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = {"name": NAME, "resourceVersion": "7", **metadata}
        self.operations: Sequence[Any] = ()
        self.written_body = {"metadata": {**self.metadata, "labels": labels.child("digits")}}
        self.found: list[Any] = []
        self.asked: list[str] = []
        self.error: errors.ApiError | None = None

    async def get(self, kind: Any, namespace: str, name: str, *, metadata_only: bool) -> Any:
        assert (kind, namespace, metadata_only) == (kinds.DEPLOYMENTS, "ns", True)
        self.asked.append(name)
        if name != NAME:
            raise errors.NotFound("no", code=404)
        return {"metadata": self.metadata}

    async def patch(self, kind: Any, namespace: str, name: str, operations: Sequence[Any]) -> Any:
        assert (kind, namespace, name) == (kinds.DEPLOYMENTS, "ns", NAME)
        if self.error:
            raise self.error
        self.operations = operations
        return self.written_body

    def put(self, body: Any, *, listed_at: str = "") -> None:  # noqa: ARG002 -- a Sink's
        self.found.append(body)

    async def restore(
        self, revision: str = "abc", unseen: Collection[str] = (), **revisions: Any
    ) -> bool:
        status = {"revisions": {"current": revision, "lastGood": revision, **revisions}}
        adoption = Adoption(self, {"Deployment": self})  # type: ignore[arg-type]
        return await adoption.find_unlabelled(
            record(status), known=frozenset({"digits"}), unseen=frozenset(unseen)
        )

    async def adopt(self, *orphans: Child) -> bool:
        adoption = Adoption(self, {"Deployment": self})  # type: ignore[arg-type]
        return await adoption.adopt(record({}), orphans)

    async def inherit(self, *restored: Child) -> bool:
        adoption = Adoption(self, {"Deployment": self})  # type: ignore[arg-type]
        return await adoption.inherit(record({}), restored)

    @property
    def written(self) -> dict[str, Any]:
        return {each["path"]: each["value"] for each in self.operations}


def record(status: dict[str, Any]) -> ModelRecord:
    return ModelRecord(ObjectKey("ns", "digits"), model(), "1", status)


async def test_a_deployment_without_its_label_gets_it_back() -> None:
    cluster = Cluster(ownerReferences=[OWNER])

    assert await cluster.restore()

    assert cluster.operations == [
        {"op": "add", "path": "/metadata/labels", "value": labels.child("digits")},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    ]
    assert cluster.found == [cluster.written_body]


async def test_other_labels_of_a_deployment_stay() -> None:
    cluster = Cluster(ownerReferences=[{"uid": "other"}, OWNER], labels={"team": "a"})

    assert await cluster.restore()

    assert cluster.written["/metadata/labels"] == {"team": "a", **labels.child("digits")}


@pytest.mark.parametrize(
    "revisions",
    [
        {"lastGood": "abc"},
        {"retiring": {"revision": "abc", "since": "2026-01-01T00:00:00Z"}},
        {"canary": {"revision": "abc", "step": 1, "since": "2026-01-01T00:00:00Z"}},
    ],
)
async def test_a_deployment_of_each_recorded_revision_is_looked_up(
    revisions: dict[str, Any],
) -> None:
    cluster = Cluster(ownerReferences=[OWNER])

    assert await cluster.restore("def", **revisions)
    assert cluster.asked == [NAME, "digits-def"]


async def test_a_known_deployment_is_not_looked_up_and_an_unknown_one_once() -> None:
    cluster = Cluster()

    assert not await cluster.restore("abc", unseen={NAME, "digits"})
    assert cluster.asked == [NAME]


async def test_a_model_without_revisions_has_no_deployment_to_look_up() -> None:
    cluster = Cluster()
    adoption = Adoption(cluster, {})  # type: ignore[arg-type]

    assert not await adoption.find_unlabelled(record({}), known=frozenset(), unseen=frozenset())
    assert cluster.asked == []


async def test_the_deployment_of_no_revision_is_looked_up() -> None:
    cluster = Cluster()
    adoption = Adoption(cluster, {})  # type: ignore[arg-type]
    status = {"revisions": {"current": "abc"}}

    await adoption.find_unlabelled(record(status), known=frozenset(), unseen=frozenset())

    assert cluster.asked == ["digits", NAME]


async def test_a_deployment_that_is_being_deleted_is_not_changed() -> None:
    cluster = Cluster(ownerReferences=[OWNER], deletionTimestamp="2026-01-01T00:00:00Z")

    assert not await cluster.restore()
    assert cluster.operations == ()


@pytest.mark.parametrize("known", ["digits", "digits-def"])
async def test_what_can_be_found_is_found_despite_what_cannot(known: str) -> None:
    cluster = Cluster(ownerReferences=[OWNER])

    assert await cluster.restore("abc", unseen={known})


REFUSALS = [
    errors.Forbidden("denied by a policy", code=403),
    errors.Invalid("bad", code=422),
    errors.NotFound("gone", code=404),
]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda each: type(each).__name__)
async def test_a_deployment_that_admission_protects_does_not_stop_the_reconcile(
    error: errors.ApiError,
) -> None:
    cluster = Cluster(ownerReferences=[OWNER])
    cluster.error = error

    assert not await cluster.restore()
    assert cluster.found == []


ORPHAN = Child(
    kind="Deployment",
    name=NAME,
    uid="c",
    resource_version="6",
    owner_uid="",
    applied_hash="h",
    deleting=False,
    common_fields="{}",
    observed=ChildObserved("c"),
)


async def test_a_label_that_admission_changes_does_not_count_as_restored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Cluster(ownerReferences=[OWNER])
    cluster.written_body["metadata"]["labels"][labels.MANAGED_BY] = "policy"

    assert not await cluster.restore()
    assert cluster.found == []
    assert f"label {labels.MANAGED_BY} from 'moorage' to 'policy'" in caplog.records[0].error  # type: ignore[attr-defined]


async def test_an_orphan_gets_its_owner_back() -> None:
    cluster = Cluster()

    assert await cluster.adopt(ORPHAN)

    assert cluster.operations == [
        {
            "op": "add",
            "path": "/metadata/ownerReferences",
            "value": [make_owner_reference(model())],
        },
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "6"},
    ]
    assert cluster.found == [cluster.written_body]
    assert not await cluster.adopt()


@pytest.mark.parametrize("error", REFUSALS, ids=lambda each: type(each).__name__)
async def test_an_orphan_that_admission_protects_stays(error: errors.ApiError) -> None:
    cluster = Cluster()
    cluster.error = error

    assert not await cluster.adopt(ORPHAN)
    assert cluster.found == []


RESTORED = [
    {
        "manager": "backup-tool",
        "operation": "Update",
        "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{names.APPLIED_HASH}": {}}}},
    }
]


async def test_a_restored_child_gets_its_owner_and_our_fields_back() -> None:
    cluster = Cluster(uid="c", managedFields=RESTORED)

    assert await cluster.inherit(ORPHAN)

    assert cluster.operations == [
        {
            "op": "add",
            "path": "/metadata/ownerReferences",
            "value": [make_owner_reference(model())],
        },
        {
            "op": "add",
            "path": "/metadata/managedFields",
            "value": [{**RESTORED[0], "manager": names.FIELD_MANAGER, "operation": "Apply"}],
        },
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
    ]
    assert cluster.found == [cluster.written_body]
    assert not await cluster.inherit()


async def test_a_restored_child_without_managers_gets_its_owner_back() -> None:
    cluster = Cluster(uid="c")

    assert await cluster.inherit(ORPHAN)
    assert list(cluster.written) == ["/metadata/ownerReferences", "/metadata/resourceVersion"]


@pytest.mark.parametrize(
    "metadata",
    [{"uid": "another"}, {"uid": "c", "ownerReferences": [OWNER]}],
    ids=["created again", "adopted"],
)
async def test_a_restored_child_that_has_changed_is_left_to_its_event(
    metadata: dict[str, Any],
) -> None:
    cluster = Cluster(managedFields=RESTORED, **metadata)

    assert not await cluster.inherit(ORPHAN)
    assert cluster.operations == ()


async def test_a_restored_child_that_is_gone_does_not_stop_the_others() -> None:
    cluster = Cluster(uid="c", managedFields=RESTORED)
    gone = replace(ORPHAN, name="digits-def")

    assert not await cluster.inherit(gone)
    assert await cluster.inherit(gone, ORPHAN)
    assert cluster.asked == ["digits-def", "digits-def", NAME]


@pytest.mark.parametrize(
    ("changes", "restored"),
    [
        ({"common_fields": "", "name": "digits"}, True),
        ({"common_fields": "", "name": "digits-0123456789"}, True),
        ({"common_fields": "", "name": "digits-debug"}, False),
        ({"common_fields": "", "name": "digits", "applied_hash": ""}, False),
        ({"common_fields": "{}", "name": "digits"}, False),
    ],
)
def test_a_restored_child_has_our_mark_and_our_name_and_no_field(
    changes: dict[str, str], restored: bool
) -> None:
    assert is_restored(replace(ORPHAN, **changes), record({})) is restored


@pytest.mark.parametrize(
    ("changes", "ours"),
    [
        ({"owner_uid": "uid-digits", "common_fields": ""}, True),
        ({"owner_uid": "", "common_fields": "{}"}, True),
        ({"owner_uid": "", "common_fields": ""}, False),
        ({"owner_uid": "other", "common_fields": "{}"}, False),
    ],
)
def test_a_child_is_ours_by_its_owner_or_as_an_orphan_that_we_applied(
    changes: dict[str, str], ours: bool
) -> None:
    assert is_ours(replace(ORPHAN, **changes), record({})) is ours


async def test_adoptions_and_refusals_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster()

    await cluster.adopt(ORPHAN)
    cluster.error = errors.Forbidden("denied by a policy", code=403)
    await cluster.adopt(ORPHAN)

    adopted, refused = (each.__dict__ for each in caplog.records)
    about = {"kind": "Deployment", "object": NAME}
    assert adopted.items() >= {"msg": "child adopted", **about}.items()
    refusal = {"msg": "child cannot be adopted", "error": "denied by a policy", **about}
    assert refused.items() >= refusal.items()


async def test_an_orphan_that_has_changed_is_retried() -> None:
    cluster = Cluster()
    cluster.error = errors.Conflict("changed", code=409)

    with pytest.raises(errors.Conflict):
        await cluster.adopt(ORPHAN)


async def test_a_deployment_that_only_its_pods_name_is_found() -> None:
    cluster = Cluster(ownerReferences=[OWNER])

    assert not await cluster.restore("def")
    assert await cluster.restore("def", unseen={NAME})


async def test_a_deployment_without_its_owner_gets_it_back() -> None:
    cluster = Cluster(managedFields=APPLIED)

    assert await cluster.restore()

    (owner,) = cluster.written["/metadata/ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == (
        "InferenceModel",
        "uid-digits",
        True,
    )
    assert cluster.written["/metadata/resourceVersion"] == "7"


@pytest.mark.parametrize(
    "metadata",
    [{}, {"ownerReferences": [{"uid": "other"}], "managedFields": APPLIED}],
    ids=["never applied by the operator", "of another owner"],
)
async def test_a_deployment_with_another_owner_is_not_changed(metadata: dict[str, Any]) -> None:
    cluster = Cluster(**metadata)

    assert not await cluster.restore()
    assert cluster.operations == ()
