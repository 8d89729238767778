"""Removes list items that remain after an edit of their key.

    child that misses an item --> **Leftovers** --> managedFields --> the next apply removes them

An edit of an item's key, such as a Service's port or a container's name, removes our item and adds
one that belongs to the editor. Server-side apply restores ours and keeps the other, which the API
server often refuses ("Duplicate value"). So the leftover first becomes ours in
`metadata.managedFields`; the next apply then removes it. Other fields, such as the address of a
Service, are never changed.
"""

import logging
from collections.abc import Mapping
from typing import Any

from moorage_operator.api import names
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.managed_fields import find_leftovers, taken_over

__all__ = ["Leftovers"]

logger = logging.getLogger(__name__)


class Leftovers:
    """Takes over the leftovers of children.

    Args:
        client: The API.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def take(self, body: Mapping[str, Any]) -> bool:
        """Take over leftovers, which the next apply removes; whether there were any.

        Args:
            body: The planned object.

        Raises:
            ApiError: The object could not be read or changed; retry.
        """
        kind, name = kinds.CHILDREN[str(body["kind"])], str(body["metadata"]["name"])
        namespace = str(body["metadata"]["namespace"])
        try:
            live = await self._client.get(kind, namespace, name)
        except errors.NotFound:
            return False
        found = find_leftovers(body, live, names.FIELD_MANAGER)
        if not found:
            return False
        metadata = live["metadata"]
        owners = taken_over(metadata["managedFields"], found, names.FIELD_MANAGER)
        version = metadata["resourceVersion"]
        await self._client.patch(
            kind,
            namespace,
            name,
            [
                {"op": "replace", "path": "/metadata/managedFields", "value": owners},
                # Rejected with 409 if the object has changed since it was read.
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            ],
        )
        paths = ["".join(path) for path in found]
        logger.info(
            "replacing edited list items",
            extra={"kind": body["kind"], "object": name, "fields": paths[:10]},
        )
        return True
