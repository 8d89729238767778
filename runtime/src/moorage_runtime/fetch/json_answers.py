"""Reads what stores answer in JSON, which may be of any shape. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

from moorage_runtime.fetch.failures import Corrupt

__all__ = ["items", "mapping", "number", "parse_list", "parse_object", "text"]


def parse_object(body: bytes, what: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        Corrupt: The body is none.
    """
    found = parse_any(body, what)
    if not isinstance(found, dict):
        raise Corrupt(f"{what}: the server answers without a JSON object")
    return cast("Mapping[str, Any]", found)


def parse_list(body: bytes, what: str) -> list[Mapping[str, Any]]:
    """A JSON list of objects.

    Raises:
        Corrupt: The body is none.
    """
    found = parse_any(body, what)
    if not isinstance(found, list):
        raise Corrupt(f"{what}: the server answers without a JSON list")
    return [mapping(item) for item in cast("list[Any]", found)]


def parse_any(body: bytes, what: str) -> Any:
    """Any JSON value.

    Raises:
        Corrupt: The body is none.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{what}: the server does not answer in JSON") from error


def mapping(value: Any) -> Mapping[str, Any]:
    """The value where it is an object, else an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def items(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list, empty where there is none."""
    value = holder.get(name)
    return [mapping(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []


def text(holder: Mapping[str, Any], name: str) -> str:
    """A string, empty where there is none."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def number(holder: Mapping[str, Any], name: str) -> int | None:
    """A size, None where there is none; Google writes numbers as strings."""
    value = holder.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
