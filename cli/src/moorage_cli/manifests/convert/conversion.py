"""The result of converting one resource, which every source format returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Conversion", "ConversionError"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """What replaces a resource, and sentences about what could not be carried over."""

    resources: tuple[Mapping[str, Any], ...]
    notes: tuple[str, ...] = ()


class ConversionError(ValueError):
    """A resource that cannot be converted without a decision; the message names the fields."""
