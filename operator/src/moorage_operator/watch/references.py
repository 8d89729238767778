"""Checks whether the ConfigMaps, claims and Secrets that a model refers to exist.

They are not watched, because that would need the right to list all Secrets of the cluster.
Instead, the operator looks up the metadata of each by name while a pod of the model waits to
start: at once, then less and less often. Results go into the store; a change triggers a reconcile.
Secrets are looked up only if the operator may read them, because RBAC cannot limit that to
metadata.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.values.observed import ObjectKey, Reference, ReferenceKind, ReferenceState

logger = logging.getLogger(__name__)

FIRST_SECONDS = 1.0
LAST_SECONDS = 15.0
"""The longest pause while a reference is missing; a status may lag behind its creation so long."""

LAST_EXISTING_SECONDS = 300.0
"""The longest pause while none is missing: thousands of pods may be waiting for a node."""

_KINDS = {
    ReferenceKind.CONFIG_MAP: kinds.CONFIG_MAPS,
    ReferenceKind.SECRET: kinds.SECRETS,
    ReferenceKind.PERSISTENT_VOLUME_CLAIM: kinds.PERSISTENT_VOLUME_CLAIMS,
}

States = Mapping[Reference, ReferenceState]


class Lookups:
    """Looks up references while they are wanted.

    Args:
        client: The API.
        deliver: Receives the states of all references of a model.
        secret_hints: Whether to look up Secrets; otherwise their state is `FORBIDDEN`.
    """

    def __init__(
        self,
        client: KubeClient,
        deliver: Callable[[ObjectKey, States], None],
        *,
        secret_hints: bool = False,
    ) -> None:
        self._client = client
        self._deliver = deliver
        self._secret_hints = secret_hints
        self._wanted: dict[ObjectKey, frozenset[Reference]] = {}
        self._tasks: dict[ObjectKey, asyncio.Task[None]] = {}

    def want(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        """Look up these references for a model from now on; an empty set stops it.

        What was found is then forgotten, because it would be outdated at the next lookup.
        """
        if self._wanted.get(key, frozenset()) == references:
            return
        self.forget(key)
        if references:
            self._wanted[key] = references
            self._tasks[key] = asyncio.get_running_loop().create_task(self._look(key, references))
        else:
            self._deliver(key, {})

    def forget(self, key: ObjectKey) -> None:
        """Stop the lookups for a model."""
        self._wanted.pop(key, None)
        if task := self._tasks.pop(key, None):
            task.cancel()

    async def close(self) -> None:
        """Stop all lookups."""
        tasks = list(self._tasks.values())
        for key in list(self._tasks):
            self.forget(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        delay = FIRST_SECONDS
        while True:
            states = {each: await self._state(key.namespace, each) for each in sorted(references)}
            self._deliver(key, states)
            if not any(self._may_look_up(each) for each in references):
                return
            await asyncio.sleep(delay)
            delay = min(2 * delay, longest_pause(states))

    async def _state(self, namespace: str, reference: Reference) -> ReferenceState:
        if not self._may_look_up(reference):
            return ReferenceState.FORBIDDEN
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

    def _may_look_up(self, reference: Reference) -> bool:
        return self._secret_hints or reference.kind is not ReferenceKind.SECRET


def longest_pause(states: States) -> float:
    """Return the longest pause between two lookups in seconds. Pure."""
    awaited = {ReferenceState.MISSING, ReferenceState.UNKNOWN}
    return LAST_EXISTING_SECONDS if awaited.isdisjoint(states.values()) else LAST_SECONDS
