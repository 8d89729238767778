"""JSON values that share their strings with all other objects."""

from sys import intern
from typing import Any, cast

__all__ = ["interned"]


def interned(value: Any) -> Any:
    """Return the same JSON value with interned strings.

    With 10,000 models of two pods each, the operator takes 320 MiB with this and the interned
    `Child.common_fields`, and 425 MiB without them.
    """
    if isinstance(value, str):
        return intern(value)
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {intern(name): interned(member) for name, member in members.items()}
    if isinstance(value, list):
        return [interned(item) for item in cast("list[Any]", value)]
    return value
