"""Whether the ConfigMaps, claims and Secrets that a model names exist.

They are not watched: that would need the right to list every Secret of the cluster. Instead each
is looked up by name, metadata alone, while a pod of the model waits to start: at once, then with
back-off. Results go into the store; a change starts a pass of the model.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from .kube import errors, kinds
from .kube.client import KubeClient
from .state import (
    ObjectKey,
    Reference,
    ReferenceKind,
    ReferenceState,
)

logger = logging.getLogger(__name__)

FIRST_SECONDS = 1.0
LAST_SECONDS = 5.0

_KINDS = {
    ReferenceKind.CONFIG_MAP: kinds.CONFIG_MAPS,
    ReferenceKind.SECRET: kinds.SECRETS,
    ReferenceKind.PERSISTENT_VOLUME_CLAIM: kinds.PERSISTENT_VOLUME_CLAIMS,
}

States = Mapping[Reference, ReferenceState]


class Lookups:
    """Looks references up while that is wanted.

    Args:
        client: The API.
        deliver: Takes the states of all of a model's references.
    """

    def __init__(self, client: KubeClient, deliver: Callable[[ObjectKey, States], None]) -> None:
        self._client = client
        self._deliver = deliver
        self._wanted: dict[ObjectKey, frozenset[Reference]] = {}
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}

    def want(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        """From now on look these up for the model; an empty set ends it."""
        if self._wanted.get(key, frozenset()) == references:
            return
        self.forget(key)
        if references:
            self._wanted[key] = references
            self._tasks[key] = asyncio.get_running_loop().create_task(self._look(key, references))

    def forget(self, key: ObjectKey) -> None:
        """Look nothing up for the model."""
        self._wanted.pop(key, None)
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def close(self) -> None:
        """End all lookups."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        delay = FIRST_SECONDS
        while True:
            states = {each: await self._state(key.namespace, each) for each in sorted(references)}
            self._deliver(key, states)
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_SECONDS)

    async def _state(self, namespace: str, reference: Reference) -> ReferenceState:
        kind = _KINDS[reference.kind]
        try:
            await self._client.get(kind, namespace, reference.name, metadata_only=True)
        except errors.NotFound:
            return ReferenceState.MISSING
        except errors.Forbidden:
            return ReferenceState.FORBIDDEN
        except errors.ApiError as error:
            logger.debug("lookup failed", extra={"error": error.message})
            return ReferenceState.UNKNOWN
        return ReferenceState.EXISTS
