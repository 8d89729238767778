"""Writes the statuses of InferenceRuntimes.

decide.runtimes.fleet --> status --> **RuntimeStatusWriter** --> server-side apply
"""

from collections.abc import Callable
from typing import Any

from moorage_operator.api import names
from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient

__all__ = ["RuntimeStatusWriter"]


class RuntimeStatusWriter:
    """Writes statuses.

    Args:
        client: The API.
        wrote: Called with the kind of each write, "status".
    """

    def __init__(self, client: KubeClient, *, wrote: Callable[[str], None]) -> None:
        self._client = client
        self._wrote = wrote

    async def write(self, runtime: InferenceRuntime, status: dict[str, Any]) -> None:
        """Write a status; do nothing if the runtime no longer exists.

        Raises:
            ApiError: It could not be written; retry.
        """
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.RUNTIME_KIND,
            "metadata": {"name": runtime.name, "uid": runtime.uid},
            "status": status,
        }
        try:
            await self._client.apply(
                kinds.INFERENCE_RUNTIME_STATUS, body, field_manager=names.STATUS_FIELD_MANAGER
            )
        except (errors.NotFound, errors.Conflict):
            return  # it was deleted, or its name belongs to another one; its event will arrive
        self._wrote("status")
