"""The models that passes are at, parsed; all others stand packed.

    store: packed resource --> **OpenModels** --> ModelRecord --> pass

To parse a resource takes as long as a whole pass that finds nothing to do. An event that brings
another status and the same spec, as our own writes do, leaves the parsed model the same object,
and so does what was rendered from it (`memo`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .api import v1alpha1
from .packing import ModelPacker, PackedModel
from .state import ObjectKey

__all__ = ["ModelRecord", "OpenModels"]

OPENED = 64
"""Models that stay unpacked: those that the workers are at, and are about to come back to."""


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
    """

    def __init__(self, packer: ModelPacker) -> None:
        self._packer = packer
        self._records: dict[ObjectKey, ModelRecord] = {}  # the latest last

    def open(self, key: ObjectKey, packed: PackedModel) -> ModelRecord:
        """The resource that is packed, parsed."""
        record = self._records.pop(key, None) or self._parsed(key, packed)
        self._records[key] = record
        while len(self._records) > OPENED:
            del self._records[next(iter(self._records))]
        return record

    def renew(self, key: ObjectKey, body: Mapping[str, Any]) -> bool:
        """There is a newer version of an open resource; whether no more than its status is new."""
        record = self._records.pop(key, None)
        if record is None or not v1alpha1.is_parsed_from(record.model, body):
            return False
        version, status = body["metadata"]["resourceVersion"], body.get("status") or {}
        self._records[key] = replace(record, resource_version=version, status=status)
        return True

    def close(self, key: ObjectKey) -> None:
        """The resource is gone."""
        self._records.pop(key, None)

    def _parsed(self, key: ObjectKey, packed: PackedModel) -> ModelRecord:
        body = self._packer.unpack(packed)
        return ModelRecord(key, v1alpha1.parse(body), packed.resource_version, body["status"])
