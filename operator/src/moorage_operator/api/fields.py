"""Typed reading of an untyped mapping, with a problem for everything that is not as expected.

`v1alpha1.parse` reads a resource through `Fields`. A wrong value becomes a `Problem` and the
field's default, never an exception: whatever the API server stored, the status can say what is
wrong with it. `unknown` finds fields that this operator was not taught, such as those of a newer
CRD, so that none is ever ignored silently.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast

__all__ = ["Fields", "Problem"]

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field, and the reason that this gives the condition Accepted."""

    path: str
    message: str
    reason: str = "InvalidSpec"

    def __str__(self) -> str:
        """The path and the sentence."""
        return f"{self.path}: {self.message}"


class Fields:
    """One object of a resource, read field by field; problems go to the list it was given."""

    def __init__(self, value: Any, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._read: set[str] = set()
        if value is not None and not isinstance(value, Mapping):
            self.reject("", value, "an object")
            value = None
        self._values: Mapping[str, Any] = cast("Mapping[str, Any]", value or {})

    @property
    def is_given(self) -> bool:
        """Whether the object has any field."""
        return bool(self._values)

    def at(self, name: str) -> str:
        """The path of a field of this object."""
        return f"{self.path}.{name}" if name else self.path

    def reject(self, name: str, value: Any, expected: str, reason: str = "InvalidSpec") -> None:
        """Record that a field's value is not what was expected."""
        sentence = f"expected {expected}, got {abridged(value)}"
        self.problems.append(Problem(self.at(name), sentence, reason))

    def raw(self, name: str) -> Any:
        """The value as it stands, None where it is absent."""
        self._read.add(name)
        return self._values.get(name)

    def text(self, name: str) -> str:
        """A string, empty where it is absent."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value or ""
        self.reject(name, value, "a string")
        return ""

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.reject(name, value, "true or false")
        return default

    def integer(self, name: str, default: int, lowest: int, highest: int) -> int:
        """A whole number between two bounds, both allowed."""
        value = self.raw(name)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= highest:
            return value
        self.reject(name, value, f"a whole number from {lowest} to {highest}")
        return default

    def choice(self, name: str, default: E) -> E:
        """A member of the default's enumeration."""
        value = self.raw(name)
        if value is None:
            return default
        members = {str(member): member for member in type(default)}
        if isinstance(value, str) and value in members:
            return members[value]
        self.reject(name, value, f"one of {', '.join(members)}")
        return default

    def child(self, name: str) -> "Fields":
        """An object, empty where it is absent."""
        return Fields(self.raw(name), self.at(name), self.problems)

    def mapping(self, name: str) -> Mapping[str, Any]:
        """An object that Kubernetes itself judges, empty where it is absent."""
        value = self.raw(name)
        if value is None or isinstance(value, Mapping):
            return cast("Mapping[str, Any]", value or {})
        self.reject(name, value, "an object")
        return {}

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of strings, empty where it is absent."""
        return tuple(
            item for item in self._list(name) if self._accepts(name, item, str, "strings")
        )

    def mappings(self, name: str) -> tuple[Mapping[str, Any], ...]:
        """A list of objects that Kubernetes itself judges, empty where it is absent."""
        return tuple(
            item for item in self._list(name) if self._accepts(name, item, Mapping, "objects")
        )

    def unknown(self) -> None:
        """Record every field that was given and never read: this operator does not know it."""
        for name in sorted(set(self._values) - self._read):
            sentence = "this version of the operator does not know this field"
            self.problems.append(Problem(self.at(name), sentence))

    def _list(self, name: str) -> Sequence[Any]:
        value = self.raw(name)
        if value is None or (isinstance(value, Sequence) and not isinstance(value, str)):
            return cast("Sequence[Any]", value or ())
        self.reject(name, value, "a list")
        return ()

    def _accepts(self, name: str, item: Any, kind: type, expected: str) -> bool:
        if isinstance(item, kind):
            return True
        self.reject(name, item, f"a list of {expected}")
        return False


def abridged(value: Any) -> str:
    """The value as Python writes it, at most 80 characters, for a message."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
