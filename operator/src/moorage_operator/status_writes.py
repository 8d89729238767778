"""Writes to status subresources: a model's own status, and the readiness gates of its pods.

    plan.status, plan.gates --> **StatusWriter** --> server-side apply --> store

A status is written where it differs from what the API server has. What the write returns goes into
the store, so that the next pass never looks at something older.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from . import names
from .existence import Existence, ModelGone
from .kube import errors, kinds
from .kube.client import KubeClient
from .opened import ModelRecord
from .planned import PodGate
from .store import Store

__all__ = ["StatusWriter"]


@dataclass(frozen=True, slots=True)
class _Pruned:
    """A status that the API server did not keep whole: digests of what was sent and kept."""

    sent: bytes
    kept: bytes


class StatusWriter:
    """Writes statuses and gates.

    Args:
        client: The API.
        store: Takes the statuses.
        existence: Is told of the models that a write has found.
        wrote: Called with the kind of each write, "status" for a model's.
    """

    def __init__(
        self,
        client: KubeClient,
        store: Store,
        existence: Existence,
        *,
        wrote: Callable[[str], None],
    ) -> None:
        self._client = client
        self._store = store
        self._existence = existence
        self._wrote = wrote
        self._pruned: dict[str, _Pruned] = {}

    async def write(self, record: ModelRecord, status: dict[str, Any]) -> bool:
        """Whether the status had to be written.

        Raises:
            ModelGone: The model is gone.
            ApiError: It could not be written: try again.
        """
        if status == record.status or self._was_pruned(record, status):
            return False
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "metadata": {
                "name": record.key.name,
                "namespace": record.key.namespace,
                # Another object of this name must not get this one's status.
                "uid": record.model.uid,
            },
            "status": status,
        }
        try:
            with self._store.expecting_status(record.key, status):
                written = await self._client.apply(
                    kinds.INFERENCE_MODEL_STATUS, body, field_manager=names.STATUS_FIELD_MANAGER
                )
        except (errors.NotFound, errors.Conflict) as error:
            raise ModelGone from error
        except errors.ApiError as error:
            _explain(error)
            raise
        uid = record.model.uid
        kept = written.get("status") or {}
        if kept == status:
            self._pruned.pop(uid, None)
        else:
            self._pruned[uid] = _Pruned(_digest(status), _digest(kept))
        self._existence.saw(uid)
        self._wrote("status")
        self._store.put_written(record, written)
        return True

    async def write_gates(self, record: ModelRecord, gates: tuple[PodGate, ...]) -> None:
        """Open and shut the readiness gates of pods.

        Raises:
            ApiError: A gate could not be written: try again.
        """
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
                # Another pod of this name must not get this one's gate.
                "metadata": {
                    "name": gate.pod,
                    "namespace": record.key.namespace,
                    "uid": gate.uid,
                },
                "status": {"conditions": [condition]},
            }
            try:
                await self._client.apply(
                    kinds.POD_STATUS, body, field_manager=names.STATUS_FIELD_MANAGER
                )
            except (errors.NotFound, errors.Conflict):
                continue  # the pod is gone; its DELETED event is under way
            self._wrote("Pod")

    def forget(self, uid: str) -> None:
        """The model with this uid is gone."""
        self._pruned.pop(uid, None)

    def _was_pruned(self, record: ModelRecord, status: Mapping[str, Any]) -> bool:
        """Whether what the API server has is what it made of this very status.

        It prunes what the CRD does not know; without remembering both sides such a status would be
        written for ever.
        """
        known = self._pruned.get(record.model.uid)
        return known is not None and (known.sent, known.kept) == (
            _digest(status),
            _digest(record.status),
        )


def _digest(status: Mapping[str, Any]) -> bytes:
    encoded = msgspec.json.encode(status, order="deterministic")
    return hashlib.blake2b(encoded, digest_size=16).digest()


def _explain(error: errors.ApiError) -> None:
    # Apply, unlike other writes, refuses a whole object for one field that the schema lacks.
    if "field not declared in schema" in error.message:
        error.message = (
            "the installed CRD is older than this operator and has no room for its status: apply "
            f"the CRD of this version ({error.message})"
        )
