"""Parses untrusted JSON responses of stores. Pure."""

import json
from collections.abc import Mapping
from typing import Any, cast

from moorage_runtime.fetch.decide.amounts import parse_size
from moorage_runtime.fetch.decide.failures import Corrupt

__all__ = ["items", "mapping", "number", "parse_list", "parse_object", "text"]


def parse_object(body: bytes, what: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        Corrupt: The body is not a JSON object.
    """
    found = parse_any(body, what)
    if not isinstance(found, dict):
        raise Corrupt(f"{what}: the response is not a JSON object")
    return cast("Mapping[str, Any]", found)


def parse_list(body: bytes, what: str) -> list[Mapping[str, Any]]:
    """A JSON list of objects.

    Raises:
        Corrupt: The body is not a JSON list.
    """
    found = parse_any(body, what)
    if not isinstance(found, list):
        raise Corrupt(f"{what}: the response is not a JSON list")
    return [mapping(item) for item in cast("list[Any]", found)]


def parse_any(body: bytes, what: str) -> Any:
    """Any JSON value.

    Raises:
        Corrupt: The body is not JSON.
    """
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{what}: the response is not JSON") from error


def mapping(value: Any) -> Mapping[str, Any]:
    """The value if it is an object, otherwise an empty one."""
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def items(holder: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list; empty for any other value."""
    value = holder.get(name)
    return [mapping(item) for item in cast("list[Any]", value)] if isinstance(value, list) else []


def text(holder: Mapping[str, Any], name: str) -> str:
    """A string; empty for any other value."""
    value = holder.get(name)
    return value if isinstance(value, str) else ""


def number(holder: Mapping[str, Any], name: str) -> int | None:
    """A number of bytes or seconds, or None; Google encodes numbers as strings."""
    return parse_size(str(holder.get(name)))
