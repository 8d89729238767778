"""Detects changes of a child by other field managers, from `metadata.managedFields`. Pure.

`metadata.managedFields` lists the fields that each manager owns. When another manager changes one
of our fields, or a field or list item is removed, it leaves our set. So a child is unchanged if
all fields of the desired object are still ours and its applied-hash annotation, which is ours too,
is that of the desired object. This needs no extra read, no knowledge of defaults and no
normalization of quantities, and it works after a restart.

Source: Kubernetes, Server-Side Apply, "Field management"; FieldsV1 in meta/v1/types.go: `f:<name>`
is a field, `k:<json keys>` an item of an associative list, `v:<json value>` an item of a set, `{}`
a field that is owned as a whole.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, cast

import msgspec

# Fields that identify the object are in no manager's set.
_IDENTITY = frozenset({"apiVersion", "kind"})
_METADATA_IDENTITY = frozenset({"name", "namespace", "uid"})


def fields_of(body: Mapping[str, Any], manager: str) -> bytes:
    """Return the FieldsV1 that a manager applied, as JSON; empty if it applied nothing."""
    applied = applied_fields(body, manager)
    return b"" if applied is None else msgspec.json.encode(applied)


def applied_fields(body: Mapping[str, Any], manager: str) -> Mapping[str, Any] | None:
    """Return the FieldsV1 that a manager applied; None if it applied nothing."""
    for entry in body["metadata"].get("managedFields") or []:
        is_ours = entry.get("manager") == manager and entry.get("operation") == "Apply"
        if is_ours and not entry.get("subresource"):
            return entry.get("fieldsV1") or {}
    return None


def lost(desired: Mapping[str, Any], fields: bytes) -> frozenset[str]:
    """Return the paths of the desired object that are not in the manager's FieldsV1."""
    owned: dict[str, Any] = msgspec.json.decode(fields) if fields else {}
    body = {key: value for key, value in desired.items() if key not in _IDENTITY}
    metadata = cast("Mapping[str, Any]", desired.get("metadata", {}))
    body["metadata"] = {k: v for k, v in metadata.items() if k not in _METADATA_IDENTITY}
    return frozenset(_lost_of_mapping(body, owned, ""))


def _lost(value: Any, owned: Mapping[str, Any], path: str) -> Iterator[str]:
    if not owned:
        return  # owned as a whole: a scalar, an atomic or an empty list or map
    if isinstance(value, Mapping):
        yield from _lost_of_mapping(cast("Mapping[str, Any]", value), owned, path)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _lost_of_item(item, owned, path)


def _lost_of_mapping(
    value: Mapping[str, Any], owned: Mapping[str, Any], path: str
) -> Iterator[str]:
    for name, child in value.items():
        if child is None:
            continue  # null requests nothing
        where = f"{path}.{name}"
        inner = owned.get(f"f:{name}")
        if inner is None:
            yield where
        else:
            yield from _lost(child, inner, where)


def _lost_of_item(item: Any, owned: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(item, Mapping):
        if not any(_names(key, "v:", item) for key in owned):
            yield f"{path}[{item!r}]"
        return
    fields = cast("Mapping[str, Any]", item)
    for key, inner in owned.items():
        keys = _decoded(key, "k:")
        # A missing key of the item has its default (the protocol of a port).
        if isinstance(keys, dict) and all(
            fields.get(k, v) == v for k, v in cast("dict[str, Any]", keys).items()
        ):
            yield from _lost(fields, inner, f"{path}[{key[2:]}]")
            return
    yield f"{path}[{msgspec.json.encode(fields)[:80].decode(errors='replace')}]"


def _names(key: str, prefix: str, item: Any) -> bool:
    return key.startswith(prefix) and _decoded(key, prefix) == item


@lru_cache(maxsize=1024)
def _decoded(key: str, prefix: str) -> Any:
    return msgspec.json.decode(key[len(prefix) :]) if key.startswith(prefix) else None
