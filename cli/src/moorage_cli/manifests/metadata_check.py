"""Checks of the metadata of a resource, which the schema of a CRD does not describe; pure.

    lint --> **metadata_check**: the metadata of a document --> problems

Source: Kubernetes, "Object Names and IDs", "Labels and Selectors" and "Annotations".
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from moorage_cli.manifests.object_names import (
    NAMESPACE_NAME,
    OBJECT_NAME,
    is_namespace_name,
    is_object_name,
)
from moorage_cli.manifests.structural import Problem

__all__ = ["metadata_problems"]

_FIELDS = (
    "name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers",
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation",
    "managedFields", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_WORDS = "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at each end"
_ANNOTATIONS_LIMIT_BYTES = 256 << 10


def metadata_problems(metadata: Any) -> Iterator[Problem]:
    """The problems of `metadata`; a value that is null counts as absent."""
    given = cast("Mapping[str, Any]", metadata) if isinstance(metadata, Mapping) else {}
    for field in given:
        if field not in _FIELDS:
            near = difflib.get_close_matches(field, _FIELDS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield Problem(f"metadata.{field}", f"unknown field{hint}")
    yield from _wrong_names(given)
    for field in ("labels", "annotations"):
        yield from _wrong_texts(given.get(field), field)


def _wrong_names(given: Mapping[str, Any]) -> Iterator[Problem]:
    name, namespace = given.get("name"), given.get("namespace")
    if name is None and not given.get("generateName"):
        yield Problem("metadata.name", "is required")
    if name is not None and not (isinstance(name, str) and is_object_name(name)):
        yield Problem("metadata.name", f"{name!r} is invalid: must be {OBJECT_NAME}")
    is_valid = isinstance(namespace, str) and (not namespace or is_namespace_name(namespace))
    if namespace is not None and not is_valid:
        problem = f"{namespace!r} is invalid: must be {NAMESPACE_NAME}"
        yield Problem("metadata.namespace", problem)


def _wrong_texts(given: Any, field: str) -> Iterator[Problem]:
    if given is None:
        return
    if not isinstance(given, Mapping):
        yield Problem(f"metadata.{field}", f"{given!r} is invalid: must be of type object")
        return
    size = 0
    for key, value in cast("Mapping[str, Any]", given).items():
        path = f"metadata.{field}[{key}]"
        if not _is_key(key, any_case=field == "annotations"):
            yield Problem(path, f"the key is invalid: must be {_WORDS}, after PREFIX/ if any")
        elif value is not None and not isinstance(value, str):
            yield Problem(path, f"{value!r} is invalid: must be a string: put it in quotes")
        elif field == "labels" and value and not _PART.fullmatch(value):
            yield Problem(path, f"{value!r} is invalid: must be {_WORDS}")
        size += len(key.encode()) + len(str(value or "").encode())
    if field == "annotations" and size > _ANNOTATIONS_LIMIT_BYTES:
        problem = f"have {size} bytes: must have at most {_ANNOTATIONS_LIMIT_BYTES}"
        yield Problem(f"metadata.{field}", problem)


def _is_key(key: str, *, any_case: bool) -> bool:
    prefix, slash, name = key.rpartition("/")
    is_prefix = is_object_name(prefix.lower() if any_case else prefix)
    return _PART.fullmatch(name) is not None and (is_prefix or not slash)
