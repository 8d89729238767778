"""Reads the records of earlier revisions when a plan needs them.

    plan: needs revision R --> History --> store --> plan again

ReplicaSets are the Deployment controller's record of pod templates. A ReplicaSet has the labels of
its template and the annotations of its Deployment from the time when it was the newest one. If it
was deleted, a ControllerRevision may have the same data, for a revision to roll back to. A
Deployment that was created a moment ago has no ReplicaSet yet, and is itself the record.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from moorage_operator.api import labels, names
from moorage_operator.kube import kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.resources.kept_revision import read_kept_revision
from moorage_operator.store.parse_objects import template_revision
from moorage_operator.values.observed import ObjectKey, RevisionRecord

__all__ = ["History"]


class History:
    """Reads the revisions of models.

    Args:
        client: The API.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def read(
        self, key: ObjectKey, revisions: Collection[str]
    ) -> dict[str, RevisionRecord | None]:
        """Read the record of each revision, None if it is lost.

        Raises:
            ApiError: They could not be read; retry.
        """
        return {revision: await self._read(key, revision) for revision in revisions}

    async def _read(self, key: ObjectKey, revision: str) -> RevisionRecord | None:
        selector = f"{labels.CHILDREN_SELECTOR},{labels.REVISION}={revision}"
        page = await self._client.page(kinds.REPLICA_SETS, key.namespace, selector=selector)
        # A manual edit of the Deployment creates a second, later ReplicaSet with the same label.
        found = sorted(page.items, key=lambda body: body["metadata"]["creationTimestamp"])
        if found:
            return _record(found[0])
        kept = await self._client.page(
            kinds.CONTROLLER_REVISIONS, key.namespace, selector=selector
        )
        for body in kept.items:
            return read_kept_revision(body)
        deployments = await self._client.page(
            kinds.DEPLOYMENTS, key.namespace, selector=labels.selector_text(key.name)
        )
        runs = (each for each in deployments.items if template_revision(each["spec"]) == revision)
        return next(map(_record, runs), None)


def _record(body: Mapping[str, Any]) -> RevisionRecord:
    annotations = body["metadata"].get("annotations") or {}
    return RevisionRecord(
        template=msgspec.json.encode(body["spec"]["template"]),
        spec=annotations.get(names.SPEC, "").encode(),
    )
