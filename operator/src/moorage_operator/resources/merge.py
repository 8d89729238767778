"""Merges `spec.podTemplate` into the planned template like a strategic merge patch.

Objects are merged, null removes a field, and a list replaces a list, except for the keyed lists of
a pod. Nothing is validated here: the API server reports invalid fields.

Source: Kubernetes API concepts, "Strategic merge patch"; merge keys of core/v1 PodSpec.
"""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["HANDLERS", "merged", "overlaid"]

# Items with the same key merge. A second one in the overlay stays for the API server to refuse.
MERGED_ITEMS = {"containers": "name", "initContainers": "name"}
# Items with the same key are replaced as a whole: each has one of several exclusive sources.
REPLACED_ITEMS = {
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "ports": "containerPort",
    "readinessGates": "conditionType",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
# Probes and lifecycle hooks, which have exactly one of these handlers.
HANDLED = {"livenessProbe", "postStart", "preStop", "readinessProbe", "startupProbe"}
HANDLERS = frozenset({"exec", "grpc", "httpGet", "sleep", "tcpSocket"})


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new object: `base` merged with `overlay`; neither is changed."""
    return _laid(base, overlay, keeps_null=False)


def overlaid(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """Return one overlay for two: `base` with `overlay` over it; neither is changed.

    Unlike `merged`, it keeps null, which removes a field of what the result is merged into.
    """
    return _laid(base, overlay, keeps_null=True)


def _laid(
    base: Mapping[str, Any], overlay: Mapping[str, Any], *, keeps_null: bool
) -> dict[str, Any]:
    result = dict(base)
    for key, value in overlay.items():
        below = result.get(key)
        if isinstance(value, Mapping):
            part = cast("Mapping[str, Any]", below) if isinstance(below, Mapping) else {}
            upper = cast("Mapping[str, Any]", value)
            part = _without_handlers(key, part, upper)
            result[key] = _laid(part, upper, keeps_null=keeps_null)
        elif isinstance(value, list) and isinstance(below, list):
            items = cast("list[Any]", value)
            result[key] = _laid_list(key, below, items, keeps_null=keeps_null)
        elif value is not None or keeps_null:
            result[key] = value
        else:
            result.pop(key, None)
    return result


def _without_handlers(
    key: str, part: Mapping[str, Any], overlay: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Remove the handler of a planned probe or hook if the overlay has one: each has only one."""
    if key not in HANDLED or HANDLERS.isdisjoint(overlay):
        return part
    return {name: value for name, value in part.items() if name not in HANDLERS}


def _laid_list(key: str, base: list[Any], overlay: list[Any], *, keeps_null: bool) -> list[Any]:
    merge_key = MERGED_ITEMS.get(key) or REPLACED_ITEMS.get(key)
    if merge_key is None:
        return overlay
    result = list(base)
    taken = set[int]()
    for item in overlay:
        place = _place(result, merge_key, item)
        if place is None or place in taken:
            place = len(result)
            result.append(item)
        elif key in MERGED_ITEMS:
            result[place] = _laid(result[place], item, keeps_null=keeps_null)
        else:
            result[place] = item
        if key in MERGED_ITEMS:
            taken.add(place)
    return result


def _place(items: list[Any], merge_key: str, item: Any) -> int | None:
    """Return the index of the item with the same key; None if there is none or it has no key."""
    wanted = _key_of(item, merge_key)
    if wanted is None:
        return None
    return next((at for at, each in enumerate(items) if _key_of(each, merge_key) == wanted), None)


def _key_of(item: Any, merge_key: str) -> Any:
    return cast("Mapping[str, Any]", item).get(merge_key) if isinstance(item, Mapping) else None
