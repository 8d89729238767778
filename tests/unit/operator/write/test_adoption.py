"""Deployments that lost their label or owner, found by the names in the status."""

from collections.abc import Collection, Sequence
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.kube import errors
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey
from moorage_operator.write.adoption import Adoption
from support.operator_values import model

NAME = "digits-abc"
OWNER = {"uid": "uid-digits", "controller": True}
APPLIED = [{"manager": names.FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {}}}]


class Cluster:
    """One Deployment, with a record of changes."""

    def __init__(self, **metadata: Any) -> None:
        self.metadata = {"name": NAME, "resourceVersion": "7", **metadata}
        self.operations: Sequence[Any] = ()
        self.found: list[Any] = []

    async def get(self, _: Any, namespace: str, name: str, *, metadata_only: bool) -> Any:
        assert (namespace, metadata_only) == ("ns", True)
        if name != NAME:
            raise errors.NotFound("no", code=404)
        return {"metadata": self.metadata}

    async def patch(self, _: Any, __: str, name: str, operations: Sequence[Any]) -> Any:
        assert name == NAME
        self.operations = operations
        return {"metadata": self.metadata}

    def put(self, body: Any, *, listed_at: str = "") -> None:  # noqa: ARG002 -- a Sink's
        self.found.append(body)

    async def restore(self, revision: str = "abc", unseen: Collection[str] = ()) -> bool:
        status = {"revisions": {"current": revision, "lastGood": revision}}
        record = ModelRecord(ObjectKey("ns", "digits"), model(), "1", status)
        adoption = Adoption(self, {"Deployment": self})  # type: ignore[arg-type]
        return await adoption.find_unlabelled(
            record, known=frozenset({"digits"}), unseen=frozenset(unseen)
        )

    @property
    def written(self) -> dict[str, Any]:
        return {each["path"]: each["value"] for each in self.operations}


async def test_a_deployment_without_its_label_gets_it_back() -> None:
    cluster = Cluster(ownerReferences=[OWNER])

    assert await cluster.restore()

    assert cluster.written["/metadata/labels"]["moorage.dev/model"] == "digits"
    assert "/metadata/ownerReferences" not in cluster.written
    assert cluster.found


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
