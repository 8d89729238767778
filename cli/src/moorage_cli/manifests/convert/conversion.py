"""The result of converting one resource, which every source format returns."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Conversion", "ConversionError", "Fate", "Note"]


class Fate(StrEnum):
    """What became of a field that is not simply carried over."""

    CHANGED = "changed"
    UNNEEDED = "not needed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the report.

    Args:
        path: The field in the given manifest; empty for a sentence about the whole document.
        value: Its value; None if it is not worth repeating.
        fate: What became of it.
        sentence: Why, and what to do instead.
    """

    path: str
    value: Any
    fate: Fate
    sentence: str

    def __str__(self) -> str:
        """One line: field, value, fate and reason."""
        if not self.path:
            return self.sentence
        value = "" if self.value is None else f" {json.dumps(self.value, ensure_ascii=False)}:"
        return f"{self.path}:{value} {self.fate}: {self.sentence}"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What replaces a resource, and notes about what is not carried over unchanged."""

    resources: tuple[Mapping[str, Any], ...]
    notes: tuple[Note, ...] = ()


class ConversionError(ValueError):
    """A resource that cannot be converted without a decision; the message names the fields."""
