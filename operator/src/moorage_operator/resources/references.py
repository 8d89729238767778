"""Finds the ConfigMaps, claims and Secrets that a pod template requires.

The operator checks whether they exist, so that it reports a missing one within seconds; the
kubelet itself reports a failed mount only in events.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from moorage_operator.values.observed import Reference, ReferenceKind

__all__ = ["references"]

CONFIG_MAP = ReferenceKind.CONFIG_MAP
SECRET = ReferenceKind.SECRET
CLAIM = ReferenceKind.PERSISTENT_VOLUME_CLAIM


def references(template: Mapping[str, Any]) -> frozenset[Reference]:
    """Return the objects that the template refers to and that are not optional."""
    pod = _mapping(template.get("spec"))
    found = [ref for volume in _items(pod, "volumes") for ref in _of_volume(volume)]
    for kind in ("initContainers", "containers"):
        for container in _items(pod, kind):
            found += _of_env(container)
    return frozenset(ref for ref in found if ref.name)


def _of_volume(volume: Mapping[str, Any]) -> Iterator[Reference]:
    sources = [volume, *_items(_mapping(volume.get("projected")), "sources")]
    for source in sources:
        yield from _required(CONFIG_MAP, source.get("configMap"), "name")
        yield from _required(SECRET, source.get("secret"), "secretName")
        yield from _required(SECRET, source.get("secret"), "name")
    yield from _required(CLAIM, volume.get("persistentVolumeClaim"), "claimName")


def _of_env(container: Mapping[str, Any]) -> Iterator[Reference]:
    for item in _items(container, "env"):
        source = _mapping(item.get("valueFrom"))
        yield from _required(CONFIG_MAP, source.get("configMapKeyRef"), "name")
        yield from _required(SECRET, source.get("secretKeyRef"), "name")
    for item in _items(container, "envFrom"):
        yield from _required(CONFIG_MAP, item.get("configMapRef"), "name")
        yield from _required(SECRET, item.get("secretRef"), "name")


def _required(kind: ReferenceKind, source: Any, field: str) -> Iterator[Reference]:
    values = _mapping(source)
    name = values.get(field)
    if isinstance(name, str) and values.get("optional") is not True:
        yield Reference(kind, name)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise {}: the template may be malformed."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _items(holder: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    value = holder.get(field)
    if not isinstance(value, list):
        return []
    return [_mapping(item) for item in cast("list[Any]", value)]
