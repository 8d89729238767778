"""`spec.objectMetadata`: labels and annotations for the objects that the operator creates; pure.

Policies of a cluster often refuse objects without certain labels. `resources.owned` adds these to
every child. Pods get theirs from `spec.podTemplate.metadata`: a change there restarts them.

Source: Kubernetes documentation, "Labels and Selectors" and "Annotations", Syntax and
character set.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from .fields import Fields

__all__ = ["ObjectMetadata", "parse_object_metadata"]

LIMIT = 64
KEY = re.compile(
    r"(?:(?=.{1,253}/)[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
KEY_EXPECTED = (
    "a name of at most 63 letters, digits, '-', '_' and '.', optionally after a DNS name and a "
    "slash, such as team or example.com/team"
)
LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
LABEL_VALUE_EXPECTED = (
    "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
)

# The operator and Kubernetes itself write these keys, and all keys below those with a slash.
TAKEN_LABELS = ("moorage.dev/", "app.kubernetes.io/managed-by", "app.kubernetes.io/name")
TAKEN_ANNOTATIONS = (
    "moorage.dev/", "deployment.kubernetes.io/", "kubectl.kubernetes.io/",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ObjectMetadata:
    """Labels and annotations of every object of a model except its pods."""

    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])


def parse_object_metadata(fields: Fields) -> ObjectMetadata:
    """Read the section; record invalid values as problems."""
    metadata = ObjectMetadata(
        labels=_parse_map(fields, "labels", TAKEN_LABELS),
        annotations=_parse_map(fields, "annotations", TAKEN_ANNOTATIONS),
    )
    for key, value in metadata.labels.items():
        if not LABEL_VALUE.fullmatch(value):
            fields.reject(f"labels[{key}]", value, LABEL_VALUE_EXPECTED)
    fields.unknown()
    return metadata


def _parse_map(fields: Fields, name: str, taken: tuple[str, ...]) -> Mapping[str, str]:
    found = fields.mapping(name)
    if len(found) > LIMIT:
        fields.reject_length(name, len(found), LIMIT, name)
    for key, value in found.items():
        at = f"{name}[{key}]"
        if not KEY.fullmatch(key):
            fields.reject(name, key, KEY_EXPECTED)
        elif any(key == each or (each[-1] == "/" and key.startswith(each)) for each in taken):
            sentence = "the operator or Kubernetes itself sets this key; remove it"
            fields.report(at, sentence)
        if not isinstance(value, str):
            fields.reject(at, value, "a string")
    return {key: value for key, value in found.items() if isinstance(value, str)}
