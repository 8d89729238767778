"""Finds list items that remain after an edit, and fields of other managers. Pure.

Source: Kubernetes, Server-Side Apply, "Field management" and "Merge strategy"; FieldsV1 in
meta/v1/types.go: `f:<name>` is a field, `k:<json keys>` an item of an associative list, `.` the
item itself. An apply removes an item that its manager owned and no longer names, unless another
manager owns it too.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

__all__ = ["Path", "find_leftovers", "foreign_fields", "inherited", "taken_over"]

Path = tuple[str, ...]
"""Keys of FieldsV1 from the object's root."""

Fields = Mapping[str, Any]


def find_leftovers(desired: Fields, live: Fields, manager: str) -> list[Path]:
    """Find items that remain in addition to, or instead of, those of the desired object.

    An item that the desired object does not name is a leftover when

    - the manager has applied it before, and another manager owns a part of it, or
    - the live list lacks an item of the desired object and this one is mostly the same: its key
      was edited.

    All other items that somebody added are kept.

    Args:
        desired: The object to apply.
        live: The object at the API server.
        manager: The field manager that applies it.
    """
    entries = _entries(live)
    ours = [_fields(each) for each in entries if _is_applied_by(each, manager)]
    others = [_fields(each) for each in entries if not _is_applied_by(each, manager)]
    parts = {key: value for key, value in desired.items() if key != "metadata"}
    return list(_of_mapping(parts, live, ours[0], others, ())) if ours else []


def taken_over(
    managed_fields: Sequence[Fields], paths: Sequence[Path], manager: str
) -> list[dict[str, Any]]:
    """Return managed fields with the manager as the only owner of these items."""
    entries = [dict(copy.deepcopy(each)) for each in managed_fields]
    for entry in entries:
        fields = entry.setdefault("fieldsV1", {})
        for path in paths:
            if _is_applied_by(entry, manager):
                _add(fields, path)
            else:
                _remove(fields, path)
    return [each for each in entries if each["fieldsV1"]]


def inherited(
    managed_fields: Sequence[Fields], annotation: str, manager: str
) -> list[dict[str, Any]]:
    """Return managed fields in which the manager has applied what another one wrote.

    The other one is the writer of the annotation, such as a tool that restored the object from a
    backup. The result is empty if nobody wrote it.
    """
    entries = [dict(each) for each in managed_fields]
    for entry in entries:
        written = _fields(entry).get("f:metadata", {}).get("f:annotations", {})
        if f"f:{annotation}" in written and not entry.get("subresource"):
            entry |= {"manager": manager, "operation": "Apply"}
            return entries
    return []


def foreign_fields(live: Fields, manager: str) -> list[tuple[str, str]]:
    """Return fields of the spec that other managers set, each with its manager.

    The metadata of a pod template is left out: annotations and labels prevent no pod from running.
    """
    entries = _entries(live)
    ours = next((_fields(each) for each in entries if _is_applied_by(each, manager)), {})
    found: dict[tuple[str, str], None] = {}
    for entry in entries:
        other = str(entry.get("manager", ""))
        if other != manager and not entry.get("subresource"):
            theirs = _fields(entry).get("f:spec") or {}
            paths = _foreign(theirs, ours.get("f:spec") or {}, "spec")
            found |= dict.fromkeys((path, other) for path in paths)
    return [each for each in found if not each[0].startswith("spec.template.metadata")]


def _foreign(theirs: Fields, ours: Fields, path: str) -> Iterator[str]:
    for key, below in theirs.items():
        if key == ".":
            continue
        place = _place(path, key)
        if key in ours:
            yield from _foreign(below or {}, ours[key] or {}, place)
        else:
            yield place


def _place(path: str, key: str) -> str:
    """Format a path for people: `spec.containers[runtime].env`."""
    kind, _, text = key.partition(":")
    if kind == "f":
        return f"{path}.{text}"
    value: object = msgspec.json.decode(text)
    if isinstance(value, dict):
        value = next(iter(cast("dict[str, Any]", value).values()), "")
    return f"{path}[{value}]"


def _entries(live: Fields) -> list[Fields]:
    return list(live["metadata"].get("managedFields") or [])


def _fields(entry: Fields) -> Fields:
    return entry.get("fieldsV1") or {}


def _is_applied_by(entry: Fields, manager: str) -> bool:
    applied = entry.get("manager") == manager and entry.get("operation") == "Apply"
    return applied and not entry.get("subresource")


def _of_mapping(
    desired: Fields, live: Fields, ours: Fields, others: Sequence[Fields], path: Path
) -> Iterator[Path]:
    for name, value in desired.items():
        key, found = f"f:{name}", live.get(name)
        owned = (ours.get(key) or {}, _below(others, key), (*path, key))
        if isinstance(value, Mapping) and isinstance(found, Mapping):
            yield from _of_mapping(cast("Fields", value), cast("Fields", found), *owned)
        elif isinstance(value, list) and isinstance(found, list):
            yield from _of_list(cast("list[Any]", value), cast("list[Any]", found), *owned)


def _of_list(
    desired: Sequence[Any], live: Sequence[Any], ours: Fields, others: Sequence[Fields], path: Path
) -> Iterator[Path]:
    texts = dict.fromkeys(key for each in (ours, *others) for key in each if key.startswith("k:"))
    keys: dict[str, Fields] = {text: msgspec.json.decode(text[2:]) for text in texts}
    missing = [
        item
        for item in desired
        if not any(_has(item, key) and _item(live, key) for key in keys.values())
    ]
    for text, key in keys.items():
        found = _item(live, key)
        if found is None:
            continue
        theirs = _below(others, text)
        planned = _item(desired, key)
        if planned is not None:
            yield from _of_mapping(planned, found, ours.get(text) or {}, theirs, (*path, text))
        elif theirs and (text in ours or any(_resembles(each, found) for each in missing)):
            yield (*path, text)


def _below(fields: Sequence[Fields], key: str) -> list[Fields]:
    return [each[key] or {} for each in fields if key in each]


def _item(items: Sequence[Any], key: Fields) -> Fields | None:
    return next((each for each in items if _has(each, key)), None)


def _has(item: Any, key: Fields) -> bool:
    """Whether an item has a key; a missing part has its default (the protocol of a port)."""
    if not isinstance(item, Mapping):
        return False
    fields = cast("Fields", item)
    return all(fields.get(name, value) == value for name, value in key.items())


def _resembles(desired: Any, live: Fields) -> bool:
    """Whether a live item has more than half of a desired item's fields."""
    fields = cast("Fields", desired) if isinstance(desired, Mapping) else {}
    same = sum(_is_within(value, live.get(name)) for name, value in fields.items())
    return same * 2 > len(fields)


def _is_within(desired: Any, live: Any) -> bool:
    """Whether a live value matches a desired one, apart from defaults."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        found = cast("Fields", live)
        return all(
            _is_within(value, found.get(name)) for name, value in cast("Fields", desired).items()
        )
    if isinstance(desired, list) and isinstance(live, list):
        pairs = zip(cast("list[Any]", desired), cast("list[Any]", live), strict=False)
        same_length = len(cast("list[Any]", desired)) == len(cast("list[Any]", live))
        return same_length and all(_is_within(*pair) for pair in pairs)
    return bool(desired == live)


def _add(fields: dict[str, Any], path: Path) -> None:
    for key in path:
        fields = fields.setdefault(key, {})
    fields["."] = {}


def _remove(fields: dict[str, Any], path: Path) -> None:
    """Remove an item and empty parents: an empty set would mean ownership of the whole."""
    key, *rest = path
    below = fields.get(key)
    if below is None:
        return
    if rest:
        _remove(below, tuple(rest))
    if not rest or not below:
        del fields[key]
