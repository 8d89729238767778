"""The models that passes are at, parsed; all others stand packed.

    store: packed resource --> **OpenModels** --> ModelRecord --> pass

To parse a resource takes as long as a whole pass that finds nothing to do. An event that brings
another status and the same spec, as our own writes do, leaves the parsed model the same object,
and so does what was rendered from it (`memo`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .api import v1alpha1
from .packing import ModelPacker, PackedModel
from .state import ObjectKey

__all__ = ["ModelRecord", "OpenModels"]

OPEN = 64
"""Models that stay parsed: those that the workers are at, and are about to come back to."""

OPEN_UNREADY = 1024
"""The same of models that are not Ready: a crowd on its way up has several passes each, and what
is parsed and rendered of a model takes 20 KiB."""

MANY = 4 * OPEN_UNREADY
"""Among so many models a crowd may be larger than what stays parsed, and each would be let go
before its next pass; while the memory in between would never be whole again."""


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """An InferenceModel as the API server has it."""

    key: ObjectKey
    model: v1alpha1.InferenceModel
    resource_version: str
    status: Mapping[str, Any]


class OpenModels:
    """The latest models that were looked at.

    Args:
        packer: That of the store.
        count: How many models there are.
    """

    def __init__(self, packer: ModelPacker, *, count: Callable[[], int]) -> None:
        self._packer = packer
        self._count = count
        # Each by key, the latest last.
        self._ready: dict[ObjectKey, ModelRecord] = {}
        self._unready: dict[ObjectKey, ModelRecord] = {}

    def open(self, key: ObjectKey, packed: PackedModel) -> ModelRecord:
        """The resource that is packed, parsed."""
        record = self.close(key) or self._parsed(key, packed)
        self._keep(record, is_ready=packed.ready == "True")
        return record

    def renew(self, key: ObjectKey, packed: PackedModel, body: Mapping[str, Any]) -> bool:
        """There is a newer version of an open resource; whether no more than its status is new."""
        record = self.close(key)
        if record is None or not v1alpha1.is_parsed_from(record.model, body):
            return False
        version, status = packed.resource_version, body.get("status") or {}
        renewed = replace(record, resource_version=version, status=status)
        self._keep(renewed, is_ready=packed.ready == "True")
        return True

    def close(self, key: ObjectKey) -> ModelRecord | None:
        """Let a resource go; what was open of it."""
        return self._ready.pop(key, None) or self._unready.pop(key, None)

    def _keep(self, record: ModelRecord, *, is_ready: bool) -> None:
        records = self._ready if is_ready else self._unready
        most = OPEN if is_ready or self._count() > MANY else OPEN_UNREADY
        records[record.key] = record
        while len(records) > most:
            del records[next(iter(records))]

    def _parsed(self, key: ObjectKey, packed: PackedModel) -> ModelRecord:
        body = self._packer.unpack(packed)
        return ModelRecord(key, v1alpha1.parse(body), packed.resource_version, body["status"])
