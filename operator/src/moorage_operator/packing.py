"""How the operator keeps what nothing happens to: as bytes. Pure.

    value --> pack --> bytes at rest --> unpack --> the same value, for a pass

A model and its pods are looked at when something happens to them. As objects they take 16 KiB of
memory, packed less than one: the values of a kind are alike, so each is compressed against the
first that was packed. To unpack one takes some 20 us.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from .conditions import ConditionType, find_condition
from .watched import Child, ChildObserved, DeploymentObserved, RouteObserved

T = TypeVar("T")

# Level 1 finds what a value has in common with the first; the others take twice as long for
# another tenth. No header and no checksum: the bytes never leave the process.
_LEVEL = 1
_RAW = -zlib.MAX_WBITS


UNPACKED = 256
"""Pods or children that stay unpacked for a while; a pass looks at each several times."""


class Packer(Generic[T]):
    """Packs values of one type.

    Bytes of different packers are not to be mixed. Equal values give equal bytes, but for
    mappings that have their keys in another order.

    Args:
        kind: The type; what msgspec encodes, dataclasses and JSON among it.
        kept: So many values that were unpacked last are given out again; only for types that
            nobody can change.
    """

    def __init__(self, kind: Any, *, kept: int = 0) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._first = b""
        self._unpack = lru_cache(maxsize=kept)(self._unpacked) if kept else self._unpacked

    def pack(self, value: T) -> bytes:
        """The value at rest."""
        plain = self._encoder.encode(value)
        self._first = self._first or plain
        deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, zdict=self._first)
        return deflate.compress(plain) + deflate.flush()

    def unpack(self, packed: bytes) -> T:
        """The value again."""
        return self._unpack(packed)

    def holds(self, packed: bytes, value: T) -> bool:
        """Whether this is the value at rest; a fifth of what packing it again would cost."""
        return self._inflated(packed) == self._encoder.encode(value)

    def _unpacked(self, packed: bytes) -> T:
        return cast("T", self._decoder.decode(self._inflated(packed)))

    def _inflated(self, packed: bytes) -> bytes:
        return zlib.decompressobj(_RAW, zdict=self._first).decompress(packed)


@dataclass(frozen=True, slots=True)
class PackedModel:
    """A model at rest: what is asked of all models, and the rest as bytes.

    `ready` is the status of its Ready condition, "" before there is one.
    """

    uid: str
    resource_version: str
    ready: str
    packed: bytes


class ModelPacker:
    """Packs models."""

    def __init__(self) -> None:
        self._packer: Packer[Mapping[str, Any]] = Packer(dict[str, Any])

    def pack(self, body: Mapping[str, Any]) -> PackedModel:
        """A resource as the API server gives it, less its managed fields."""
        metadata = {
            key: value for key, value in body["metadata"].items() if key != "managedFields"
        }
        status = body.get("status") or {}
        kept = {"metadata": metadata, "spec": body.get("spec"), "status": status}
        return PackedModel(
            metadata["uid"],
            metadata["resourceVersion"],
            str(find_condition(status, ConditionType.READY).get("status", "")),
            self._packer.pack(kept),
        )

    def unpack(self, model: PackedModel) -> Mapping[str, Any]:
        """The resource again, less its managed fields."""
        return self._packer.unpack(model.packed)


@dataclass(frozen=True, slots=True)
class PackedChild:
    """A child at rest; its fields are the same in most children of its kind, and kept once."""

    uid: str
    common_fields: bytes
    packed: bytes


class ChildPacker:
    """Packs children, those of a kind against each other."""

    def __init__(self) -> None:
        self._packers: dict[str, Packer[tuple[Any, ...]]] = {}
        self._unpack = lru_cache(maxsize=UNPACKED)(self._unpacked)

    def pack(self, child: Child) -> PackedChild:
        """The child at rest."""
        said = tuple(getattr(child, name) for name in _PACKED_FIELDS)
        return PackedChild(
            child.uid, child.common_fields, self._packer(child.kind).pack((*said, child.observed))
        )

    def unpack(self, kind: str, child: PackedChild) -> Child:
        """The child again."""
        return self._unpack(kind, child)

    def _unpacked(self, kind: str, child: PackedChild) -> Child:
        *said, observed = self._packer(kind).unpack(child.packed)
        told = dict(zip(_PACKED_FIELDS, said, strict=True))
        return Child(**told, common_fields=child.common_fields, observed=observed)

    def _packer(self, kind: str) -> Packer[tuple[Any, ...]]:
        if kind not in self._packers:
            observed = _OBSERVED.get(kind, ChildObserved)
            self._packers[kind] = Packer(tuple[str, str, str, str, str, str, bool, observed])
        return self._packers[kind]


# What is observed of a kind, where that is more than of any child.
_OBSERVED = {"Deployment": DeploymentObserved, "HTTPRoute": RouteObserved}

_PACKED_FIELDS = (
    "kind", "name", "uid", "resource_version", "owner_uid", "applied_hash", "deleting"
)  # fmt: skip
