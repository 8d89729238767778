"""Field ownership: the part of server-side apply that the operator relies on.

A set of fields has paths of FieldsV1 elements: ("f:spec", "f:replicas"). An item of a keyed list
is itself a member of the set, as the path that ends with its key and ".".

Source: Kubernetes, Server-Side Apply, "Merge strategy", "Field management" and "Conflicts".
"""

import copy
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

Path = tuple[str, ...]
Fields = frozenset[Path]

KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "imagePullSecrets": ("name",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
"""The keys of associative lists by field name; `ports` has others in a Service."""

ATOMIC = {"selector", "nodeSelector", "podSelector", "data"}
"""Maps that are owned as a whole."""

IDENTITY = {"name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"}


def keys_of(name: str, items: list[Any]) -> tuple[str, ...]:
    """Return the key fields of a list, none if it is atomic."""
    if name == "ports":
        in_pod = any(isinstance(each, dict) and "containerPort" in each for each in items)
        return ("containerPort" if in_pod else "port", "protocol")
    return KEYS.get(name, ())


def key_of(item: dict[str, Any], keys: tuple[str, ...]) -> str:
    """Return the path element of an item of an associative list."""
    found = {key: item.get(key, "TCP" if key == "protocol" else None) for key in keys}
    return "k:" + json.dumps(found, separators=(",", ":"))


def fields_of(body: dict[str, Any]) -> dict[Path, Any]:
    """Return all fields that a body sets, with their values."""
    found: dict[Path, Any] = {}
    for name, value in body.items():
        if name == "metadata":
            given = {k: v for k, v in value.items() if k not in IDENTITY and k != "managedFields"}
            found.update(_leaves(given, ("f:metadata",)))
        elif name not in {"apiVersion", "kind", "status"}:
            found.update(_leaves_of(name, value, ()))
    return found


def _leaves(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, Any]]:
    for name, each in value.items():
        yield from _leaves_of(name, each, path)


def _leaves_of(name: str, value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    here = (*path, f"f:{name}")
    if isinstance(value, dict) and value and name not in ATOMIC:
        yield from _leaves(value, here)
    elif isinstance(value, list) and (keys := keys_of(name, value)):
        for item in value:
            below = (*here, key_of(item, keys))
            yield (*below, "."), None
            yield from _leaves(item, below)
    elif value is not None:
        yield here, value


@lru_cache(maxsize=4096)
def fields_v1(fields: Fields) -> dict[str, Any]:
    """Return the set as FieldsV1, which must not be changed."""
    root: dict[str, Any] = {}
    for path in sorted(fields):
        node = root
        for element in path:
            node = node.setdefault(element, {})
    return root


def paths_of(shown: dict[str, Any]) -> Fields:
    """Parse FieldsV1 into a set of paths."""
    return frozenset(_paths(shown, ()))


def _paths(node: dict[str, Any], path: Path) -> Iterator[Path]:
    if not node and path:
        yield path
    for element, below in node.items():
        yield from _paths(below, (*path, element))


def merged(live: Any, applied: Any, name: str = "") -> Any:
    """Merge an applied object into the live one."""
    if isinstance(applied, dict) and isinstance(live, dict) and name not in ATOMIC:
        return {
            **live,
            **{key: merged(live.get(key), value, key) for key, value in applied.items()},
        }
    if isinstance(applied, list) and isinstance(live, list) and (keys := keys_of(name, applied)):
        known = {key_of(each, keys): each for each in live}
        items = [merged(known.pop(key_of(each, keys), None), each) for each in applied]
        return [*items, *known.values()]
    return copy.deepcopy(applied)


def remove(body: dict[str, Any], path: Path) -> None:
    """Remove a field or an item of a list, if it exists."""
    node: Any = body
    owner: Any = None
    name = ""
    steps = path[:-1] if path[-1] == "." else path
    for index, element in enumerate(steps):
        is_last = index == len(steps) - 1
        if element.startswith("f:"):
            owner, name = node, element[2:]
            if not isinstance(node, dict) or name not in node:
                return
            if is_last:
                del node[name]
                return
            node = node[name]
        else:
            wanted = json.loads(element[2:])
            found = [each for each in node if key_of(each, tuple(wanted)) == element]
            if not found:
                return
            if is_last:
                owner[name] = [each for each in node if each is not found[0]]
                if not owner[name]:
                    del owner[name]
                return
            node = found[0]


def prune_empty(body: dict[str, Any], path: Path) -> None:
    """Take maps and lists away that a removal has left empty; an item of a list stays."""
    nodes: list[Any] = [body]
    for element in path[:-1]:
        node = nodes[-1]
        if element.startswith("f:"):
            below = node.get(element[2:]) if isinstance(node, dict) else None
        else:
            wanted = tuple(json.loads(element[2:]))
            below = next((each for each in node if key_of(each, wanted) == element), None)
        if below is None:
            return
        nodes.append(below)
    for element, holder, node in reversed(list(zip(path, nodes, nodes[1:], strict=False))):
        if not element.startswith("f:") or node not in ({}, []):
            return
        del holder[element[2:]]
