from typing import Any

import msgspec
import pytest

from moorage_operator.api import labels, names
from moorage_operator.kube.bodies import Page
from moorage_operator.kube.kinds import Kind
from moorage_operator.values.observed import ObjectKey, RevisionRecord
from moorage_operator.watch.revision_history import History

KEY = ObjectKey("ns", "iris")


def template(image: str, revision: str = "r1") -> dict[str, Any]:
    return {
        "metadata": {"labels": {labels.REVISION: revision}},
        "spec": {"containers": [{"name": "server", "image": image}]},
    }


def workload(image: str, revision: str = "r1", created: str = "2026-01-01T00:00:00Z") -> Any:
    """A Deployment or ReplicaSet; the stored spec is the name of the image."""
    return {
        "metadata": {"creationTimestamp": created, "annotations": {names.SPEC: image}},
        "spec": {"template": template(image, revision)},
    }


def kept(image: str) -> Any:
    return {"metadata": {}, "data": {"template": template(image), "spec": image}}


class Api:
    def __init__(self, **objects: list[Any]) -> None:
        self.objects = objects

    async def page(self, kind: Kind, namespace: str, *, selector: str) -> Page:
        is_by_model = kind.plural == "deployments"
        wanted = f"{labels.MODEL}=iris" if is_by_model else f"{labels.REVISION}=r1"
        assert namespace == "ns"
        assert wanted in selector.split(",")
        return Page(self.objects.get(kind.plural, []), "1", "")


@pytest.mark.parametrize(
    ("objects", "image"),
    [
        (
            {
                "replicasets": [
                    workload("edited", created="2026-01-02T00:00:00Z"),
                    workload("first"),
                ],
                "controllerrevisions": [kept("kept")],
            },
            "first",
        ),
        (
            {
                "controllerrevisions": [kept("kept")],
                "deployments": [workload("runs")],
            },
            "kept",
        ),
        ({"deployments": [workload("other", "r2"), workload("runs")]}, "runs"),
    ],
    ids=["first ReplicaSet", "ControllerRevision", "Deployment without ReplicaSet"],
)
async def test_a_record_is_read_from_the_first_object_that_has_it(
    objects: dict[str, list[Any]], image: str
) -> None:
    history = History(Api(**objects))  # type: ignore[arg-type]

    found = await history.read(KEY, ["r1"])

    assert found == {"r1": RevisionRecord(msgspec.json.encode(template(image)), image.encode())}


@pytest.mark.parametrize("deployment", [workload("other", "r2"), {"metadata": {}, "spec": {}}])
async def test_a_revision_that_no_object_has_is_lost(deployment: Any) -> None:
    history = History(Api(deployments=[deployment]))  # type: ignore[arg-type]

    assert await history.read(KEY, ["r1"]) == {"r1": None}


async def test_a_record_without_a_stored_spec_has_none() -> None:
    body = {"metadata": {"creationTimestamp": ""}, "spec": {"template": template("first")}}
    history = History(Api(replicasets=[body]))  # type: ignore[arg-type]

    (record,) = (await history.read(KEY, ["r1"])).values()

    assert record is not None
    assert record.spec == b""
