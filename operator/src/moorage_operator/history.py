"""What earlier revisions were made from, read when a plan asks for it.

    plan: "I need revision R" --> History --> store --> plan again

ReplicaSets are the Deployment controller's own record of pod templates. A ReplicaSet has its
template's labels and its Deployment's annotations, of the time when it was the newest one. Where
it is gone, a ControllerRevision may have the same: that of a revision to go back to.
"""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from . import labels, names
from .kube import kinds
from .kube.client import KubeClient
from .resources.kept_revision import read_kept_revision
from .state import ObjectKey, RevisionRecord

__all__ = ["History"]


class History:
    """Reads revisions of models.

    Args:
        client: The API.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def read(
        self, key: ObjectKey, revisions: Collection[str]
    ) -> dict[str, RevisionRecord | None]:
        """Each revision's record, None for one that nothing keeps.

        Raises:
            ApiError: They could not be read: try again.
        """
        return {revision: await self._read(key, revision) for revision in revisions}

    async def _read(self, key: ObjectKey, revision: str) -> RevisionRecord | None:
        selector = f"{labels.CHILDREN_SELECTOR},{labels.REVISION}={revision}"
        page = await self._client.page(kinds.REPLICA_SETS, key.namespace, selector=selector)
        # Somebody's edit of the Deployment makes a second one under the same label, later.
        found = sorted(page.items, key=lambda body: body["metadata"]["creationTimestamp"])
        if found:
            return _record(found[0])
        kept = await self._client.page(
            kinds.CONTROLLER_REVISIONS, key.namespace, selector=selector
        )
        return next(map(read_kept_revision, kept.items), None)


def _record(body: Mapping[str, Any]) -> RevisionRecord:
    annotations = body["metadata"].get("annotations") or {}
    return RevisionRecord(
        template=msgspec.json.encode(body["spec"]["template"]),
        spec=annotations.get(names.SPEC, "").encode(),
    )
