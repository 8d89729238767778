"""Typed access to the fields of an untyped object; invalid values become problems.

`v1alpha1.parse` reads a resource through `Fields`. An invalid value yields a `Problem` and the
field's default, never an exception, so the status can report it. `unknown` reports fields that
this version of the operator does not know, such as those of a newer CRD, instead of ignoring them.

What is read is also recorded under its name in the API. `written` returns it without defaults, so
that a field that a newer CRD adds with a default changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast

__all__ = ["Fields", "Problem"]

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Problem:
    """An invalid field, with a message and the reason for the condition Accepted."""

    path: str
    message: str
    reason: str = "InvalidSpec"

    def __str__(self) -> str:
        """Return the path and the message."""
        return f"{self.path}: {self.message}"


class Fields:
    """One object of a resource; problems are appended to the given list."""

    def __init__(self, value: Any, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._read: set[str] = set()
        self._written: dict[str, Any] = {}  # values, Fields, and lists of Fields
        is_object = isinstance(value, Mapping)
        self._values = cast("Mapping[str, Any]", value) if is_object else {}
        if value is not None and not is_object:
            self.reject("", value, "an object")

    @property
    def is_given(self) -> bool:
        """Whether the object has any field."""
        return bool(self._values)

    def at(self, name: str) -> str:
        """Return the path of a field of this object."""
        return f"{self.path}.{name}" if name else self.path

    def reject(self, name: str, value: Any, expected: str, reason: str = "InvalidSpec") -> None:
        """Record an invalid value and what it must be."""
        sentence = f"{abridged(value)} is invalid: must be {expected}"
        self.report(name, sentence, reason)

    def reject_length(self, name: str, count: int, limit: int, items: str) -> None:
        """Record a list with too many items."""
        self.report(name, f"has {count} {items}: must have at most {limit}")

    def reject_duplicate(self, name: str, value: str) -> None:
        """Record a name that occurs twice in a list."""
        self.report(name, f"duplicate name {abridged(value)}: names must be unique")

    def require(self, name: str, expected: str) -> None:
        """Record a missing value and what it must be."""
        self.report(name, f"is required and must be {expected}")

    def report(self, name: str, sentence: str, reason: str = "InvalidSpec") -> None:
        """Record a problem with a field."""
        self.problems.append(Problem(self.at(name), sentence, reason))

    def has(self, name: str) -> bool:
        """Whether a field is given."""
        return self._values.get(name) is not None

    def peek(self, name: str) -> Any:
        """Return the value unchanged, None if it is absent, without recording that it was read."""
        return self._values.get(name)

    def raw(self, name: str, default: Any = None) -> Any:
        """Return the value unchanged, None if it is absent; `default` is that of the API."""
        value = self._values.get(name)
        self._record(name, value, default)
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return a string."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            self._record(name, value or None, default)
            return value or default
        self.reject(name, value, "a string")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean."""
        value = self.raw(name, default)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.reject(name, value, "true or false")
        return default

    def integer(self, name: str, default: int, lowest: int, highest: int) -> int:
        """Return a whole number between two inclusive bounds."""
        value = self.optional_integer(name, lowest, highest)
        self._record(name, value, default)
        return default if value is None else value

    def optional_integer(self, name: str, lowest: int, highest: int) -> int | None:
        """Return a whole number between two inclusive bounds; None if absent or invalid."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        self.reject(name, value, f"a whole number from {lowest} to {highest}")
        return None

    def choice(self, name: str, default: E) -> E:
        """Return a member of the default's enumeration."""
        value = self.raw(name, str(default))
        if value is None:
            return default
        members = {str(member): member for member in type(default)}
        if isinstance(value, str) and value in members:
            return members[value]
        self.reject(name, value, f"one of {', '.join(members)}")
        return default

    def child(self, name: str) -> "Fields":
        """Return an object, empty if it is absent; the same one if it is read again."""
        known = self._written.get(name)
        if isinstance(known, Fields):
            return known
        below = Fields(self.raw(name), self.at(name), self.problems)
        self._written[name] = below
        return below

    def items(self, name: str) -> list["Fields"]:
        """Return the objects of a list, none if it is absent."""
        found = [
            Fields(item, f"{self.at(name)}[{index}]", self.problems)
            for index, item in enumerate(self._list(name))
            if self._accepts(name, item, Mapping, "objects")
        ]
        if found:
            self._written[name] = found
        return found

    def mapping(self, name: str) -> Mapping[str, Any]:
        """Return an object that Kubernetes validates, empty if it is absent."""
        value = self.raw(name, {})
        if value is None or isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value or {})
        self.reject(name, value, "an object")
        return {}

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of strings, empty if it is absent."""
        return tuple(
            item for item in self._list(name) if self._accepts(name, item, str, "strings")
        )

    def mappings(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """Return a list of objects that Kubernetes validates, empty if it is absent."""
        return tuple(
            item for item in self._list(name) if self._accepts(name, item, Mapping, "objects")
        )

    def children(self, name: str, limit: int, items: str) -> list["Fields"]:
        """Return the objects of a list, each with its own path; none if there are too many.

        Args:
            name: The name of the list.
            limit: How many objects it may have.
            items: What the objects are, for the message.
        """
        found = self.items(name)
        if len(found) > limit:
            self.reject_length(name, len(found), limit, items)
            return []
        return found

    def unknown(self) -> None:
        """Record every field that was given and never read."""
        for name in sorted(set(self._values) - self._read):
            sentence = "this version of the operator does not know this field"
            self.report(name, f"{sentence}: remove it or upgrade the operator")

    def written(self) -> dict[str, Any]:
        """Return what was read, by its names in the API, without defaults and empty objects."""
        parts = {name: _resolved(part) for name, part in self._written.items()}
        return {name: part for name, part in parts.items() if part is not None}

    def _record(self, name: str, value: Any, default: Any) -> None:
        self._read.add(name)
        if value is None or value == default:
            self._written.pop(name, None)
        else:
            self._written[name] = value

    def _list(self, name: str) -> Sequence[Any]:
        value = self.raw(name, [])
        if value is None or (isinstance(value, Sequence) and not isinstance(value, str)):
            return cast("Sequence[Any]", value or ())
        self.reject(name, value, "a list")
        return ()

    def _accepts(self, name: str, item: Any, kind: type, expected: str) -> bool:
        if isinstance(item, kind):
            return True
        self.reject(name, item, f"a list of {expected}")
        return False


def _resolved(part: Any) -> Any:
    """Return a recorded value as JSON types; None for an object or list of objects without any."""
    if isinstance(part, Fields):
        return part.written() or None
    if isinstance(part, list) and any(
        isinstance(each, Fields) for each in cast("list[Any]", part)
    ):
        return [each.written() for each in cast("list[Fields]", part)]
    return part


def abridged(value: Any) -> str:
    """Return the repr of a value, shortened to 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
