"""Writes status subresources: the status of a model and the readiness gates of its pods.

    plan.status, plan.gates --> **StatusWriter** --> server-side apply --> store

A status is written if it differs from that at the API server. The result goes into the store, so
that the next reconcile never sees an older one.

Another program may write its own status after each of ours, such as a second installation of the
operator. The status of one generation is therefore restored only so often (`contests`).

An admission webhook that hangs delays a write by up to 30 s, and its namespace may have hundreds
of models. So the number of concurrent writes in a namespace is limited (`turns`).
"""

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from moorage_operator.api import names
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.store.existence import Existence, ModelGone
from moorage_operator.store.store import Store
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.plan import PodGate

from .contests import Contests, Place
from .turns import Turns

__all__ = ["StatusWriter"]

logger = logging.getLogger(__name__)

UNDECLARED = "field not declared in schema"

OUTDATED = (
    "the installed CRD is older than this operator and lacks fields of the status, which are left "
    "out: apply the CRD of this version and restart the operator"
)


class StatusWriter:
    """Writes statuses and gates.

    Args:
        client: The API.
        store: Takes the statuses.
        existence: Records that a written model exists.
        selector: Label selector of the models of this installation; "" for all.
        turns: Limits the concurrent writes of a namespace.
        wrote: Called with the kind of each write, "status" for a model's.
        clock: Monotonic seconds.
    """

    def __init__(  # noqa: PLR0913 -- collaborators and two injected functions
        self,
        client: KubeClient,
        store: Store,
        existence: Existence,
        *,
        selector: str,
        turns: Turns,
        wrote: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._contests = Contests(clock)
        self._store = store
        self._existence = existence
        self._selector = selector
        self._turns = turns
        self._wrote = wrote
        # Digests of the last written statuses as stored, and as sent if fields were removed.
        self._kept: dict[str, bytes] = {}
        self._pruned: dict[str, bytes] = {}
        self._is_outdated = False

    async def write(self, record: ModelRecord, status: dict[str, Any]) -> bool:
        """Write a status if it has changed; whether it was written.

        Raises:
            ModelGone: The model no longer exists.
            Contested: Another program has replaced the status too often; retry later.
            ApiError: It could not be written; retry. After a Conflict, the store has the current
                version of the model.
        """
        if status == record.status or self._was_pruned(record, status):
            return False
        uid, generation = record.model.uid, str(record.model.generation)
        place = Place(uid, f"the status of {names.KIND}", record.key.name)
        kept = self._kept.get(uid)
        is_restored = kept is not None and kept != _digest(record.status)
        if is_restored:
            self._contests.check(place, generation)
        metadata = {
            "name": record.key.name,
            "namespace": record.key.namespace,
            "uid": record.model.uid,
        }
        if record.resource_version:
            # The status describes this version. It must not be written to another object of this
            # name (the API server does not check the uid here), to a version with later edits, or
            # over the status of another leader.
            metadata["resourceVersion"] = record.resource_version
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": metadata,
            "status": status,
        }
        try:
            async with self._turns.turn(record.key.namespace, names.KIND, is_new=False):
                with self._store.expecting_status(record.key, status):
                    written = await self._send(record, body)
        except (errors.NotFound, errors.Conflict):
            await self._read_again(record)
            raise
        if is_restored:
            self._contests.wrote(place, generation)
        stored = written.get("status") or {}
        self._kept[uid] = _digest(stored)
        if stored == status:
            self._pruned.pop(uid, None)
        else:
            self._pruned[uid] = _digest(status)
        self._existence.saw(uid)
        self._wrote("status")
        self._store.put_written(record, written)
        return True

    async def _send(self, record: ModelRecord, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a status; fields that the installed CRD lacks are left out."""
        kind = kinds.INFERENCE_MODEL_STATUS
        try:
            return await self._client.apply(kind, body, field_manager=names.STATUS_FIELD_MANAGER)
        except errors.ApiError as error:
            if UNDECLARED not in error.message:
                raise
            if not self._is_outdated:
                logger.warning(OUTDATED, extra={"error": error.message})
            self._is_outdated = True
        # Apply rejects the whole object for one field that the schema lacks, a patch drops it.
        operations = [{"op": "add", "path": "/status", "value": body["status"]}]
        if version := body["metadata"].get("resourceVersion"):
            path = "/metadata/resourceVersion"
            operations.append({"op": "replace", "path": path, "value": version})
        return await self._client.patch(kind, record.key.namespace, record.key.name, operations)

    async def _read_again(self, record: ModelRecord) -> None:
        """Read the current version of the model into the store.

        Raises:
            ModelGone: The model no longer exists, its name belongs to another object, another
                installation serves it now, or the store dropped it meanwhile.
        """
        key, uid = record.key, record.model.uid
        page = await self._client.page(
            kinds.INFERENCE_MODELS, key.namespace, name=key.name, selector=self._selector
        )
        live = next(iter(page.items), None)
        if live is None:
            raise ModelGone(page.resource_version)
        if live["metadata"]["uid"] != uid or not self._store.has(key, uid):
            raise ModelGone
        self._store.put_model(live)

    async def write_gates(self, record: ModelRecord, gates: tuple[PodGate, ...]) -> None:
        """Open and close the readiness gates of pods; a failure does not stop the others.

        Raises:
            ApiError: A gate could not be written; retry.
        """
        failures: list[errors.ApiError] = []
        for gate in gates:
            condition = {
                "type": names.READINESS_GATE,
                "status": "True" if gate.is_open else "False",
                "reason": gate.reason,
                "lastTransitionTime": gate.since,
            }
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                # The gate must not be set on another pod of this name.
                "metadata": {
                    "name": gate.pod,
                    "namespace": record.key.namespace,
                    "uid": gate.uid,
                },
                "status": {"conditions": [condition]},
            }
            # A pod that was deleted needs no gate; its watch event will arrive.
            with errors.collected(failures), suppress(errors.NotFound, errors.Conflict):
                async with self._turns.turn(record.key.namespace, "Pod", is_new=False):
                    await self._client.apply(
                        kinds.POD_STATUS, body, field_manager=names.STATUS_FIELD_MANAGER
                    )
                self._wrote("Pod")
        if failures:
            raise failures[0]

    def forget(self, uid: str) -> None:
        """Forget a deleted model."""
        self._pruned.pop(uid, None)
        self._kept.pop(uid, None)

    def _was_pruned(self, record: ModelRecord, status: Mapping[str, Any]) -> bool:
        """Whether the stored status results from this one without its unknown fields.

        The API server removes fields that the CRD does not know. Without this check such a status
        would be written again and again.
        """
        uid = record.model.uid
        if uid not in self._pruned:
            return False
        known = (self._pruned[uid], self._kept[uid])
        return known == (_digest(status), _digest(record.status))


def _digest(status: Mapping[str, Any]) -> bytes:
    encoded = msgspec.json.encode(status, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()
