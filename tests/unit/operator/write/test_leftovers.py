"""List items with an edited key: the operator takes them over, and its next apply removes them."""

import copy
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from moorage_operator.api import names
from moorage_operator.kube import errors, kinds
from moorage_operator.write.leftovers import Leftovers

BODY = {
    "kind": "Service",
    "metadata": {"name": "iris", "namespace": "ns"},
    "spec": {"ports": [{"name": "http", "port": 8000, "protocol": "TCP"}]},
}
APPLY = {"manager": names.FIELD_MANAGER, "operation": "Apply", "apiVersion": "v1"}
OURS = {**APPLY, "fieldsV1": {"f:spec": {"f:type": {}}}}


def edited(*ports: int) -> dict[str, Any]:
    """The object after an edit of its port, and the entry of its editor."""
    items = {f'k:{{"port":{port},"protocol":"TCP"}}': {".": {}} for port in ports}
    theirs = {"manager": "kubectl-edit", "operation": "Update", "apiVersion": "v1"}
    return {
        "metadata": {
            **BODY["metadata"],
            "resourceVersion": "7",
            "managedFields": [OURS, {**theirs, "fieldsV1": {"f:spec": {"f:ports": items}}}],
        },
        "spec": {"ports": [{"name": "http", "port": port, "protocol": "TCP"} for port in ports]},
    }


class Cluster:
    """One Service, with a record of changes."""

    def __init__(self, live: dict[str, Any] | None) -> None:
        self.live = live
        self.operations: Sequence[Any] = ()

    async def get(self, kind: Any, namespace: str, name: str) -> dict[str, Any]:
        assert (kind, namespace, name) == (kinds.SERVICES, "ns", "iris")
        if self.live is None:
            raise errors.NotFound("gone", code=404)
        return copy.deepcopy(self.live)

    async def patch(
        self, kind: Any, namespace: str, name: str, operations: Sequence[Any]
    ) -> dict[str, Any]:
        assert (kind, namespace, name) == (kinds.SERVICES, "ns", "iris")
        self.operations = operations
        return {}

    async def take(self) -> bool:
        return await Leftovers(self).take(BODY)  # type: ignore[arg-type]


async def test_an_item_of_an_editor_becomes_the_operators() -> None:
    cluster = Cluster(edited(7777))

    assert await cluster.take()

    owners, version = cluster.operations
    assert version == {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"}
    assert (owners["op"], owners["path"]) == ("replace", "/metadata/managedFields")
    [entry] = [each for each in owners["value"] if each["manager"] == names.FIELD_MANAGER]
    assert 'k:{"port":7777,"protocol":"TCP"}' in entry["fieldsV1"]["f:spec"]["f:ports"]


@pytest.mark.parametrize("live", [None, edited(8000)], ids=["gone", "unchanged"])
async def test_without_an_edited_key_nothing_is_written(live: dict[str, Any] | None) -> None:
    cluster = Cluster(live)

    assert not await cluster.take()
    assert cluster.operations == ()


async def test_the_first_ten_items_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    await Cluster(edited(*range(1, 12))).take()

    [line] = (each.__dict__ for each in caplog.records)
    about = {"msg": "replacing edited list items", "kind": "Service", "object": "iris"}
    assert line.items() >= about.items()
    assert len(line["fields"]) == 10
    assert line["fields"][0] == 'f:specf:portsk:{"port":1,"protocol":"TCP"}'
