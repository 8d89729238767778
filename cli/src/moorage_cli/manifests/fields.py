"""Reads fields of an object that has not been validated; pure.

    parsed document --> **fields** --> the checks

A field of the wrong type reads as absent. In a manifest, the schema's check reports it.
"""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["mapping", "mappings"]


def mapping(value: object) -> Mapping[str, Any]:
    """The object, or an empty one for a value of another type."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """The objects of a list; empty for a value of another type."""
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    return [item for item in listed if isinstance(item, Mapping)]
