"""Compares a JSON answer with the expectations of a smoke test; pure.

    smoke_runner (asks) --> JsonAnswer --> **unmet** --> SmokeOutcome

The answer comes from an untrusted server, so only short, printable parts of it are quoted.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from moorage_operator.api import patterns
from moorage_operator.api.json_paths import written_path
from moorage_operator.api.json_tests import Expectation
from moorage_operator.api.smoke_tests import DEFAULT_TOLERANCE

from .words import printable

__all__ = ["JsonAnswer", "unmet"]

SHOWN_CHARACTERS = 80
NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class JsonAnswer:
    """The answer to a request: its JSON, None if nothing is expected of it, and its size."""

    document: Any
    size_bytes: int


class _Missing(Exception):
    """A path selects nothing; the message says what is there instead."""


def unmet(expectations: Sequence[Expectation], document: Any) -> str:
    """Describe the expectations that a document does not meet, "" if it meets all.

    Text, booleans and whole numbers must be equal. Other numbers match if
    |found - expected| <= 0.00001 + 0.00001 * |expected|: 0.3 matches 0.30000001 and not 0.301.
    """
    found = [_difference(each, document) for each in expectations]
    return "; ".join(sentence for sentence in found if sentence)


def _difference(expectation: Expectation, document: Any) -> str:
    steps = expectation.steps
    try:
        value = _select(document, steps)
    except _Missing as missing:
        if expectation.exists is False:
            return ""
        return f"{_where(steps)}: expected {_wanted(expectation)}, but {missing}"
    if expectation.exists is not None:
        is_met = expectation.exists
    elif expectation.pattern:
        is_met = isinstance(value, str) and _matches(expectation.pattern, value)
    else:
        is_met = _is_equal(expectation.value, value)
    if is_met:
        return ""
    too_long = isinstance(value, str) and len(value) > patterns.TEXT_LIMIT_CHARACTERS
    more = f", which is longer than {patterns.TEXT_LIMIT_CHARACTERS} characters"
    found = f"{_shown(value)}{more if too_long and expectation.pattern else ''}"
    return f"{_where(steps)}: expected {_wanted(expectation)}, got {found}"


def _select(document: Any, steps: Sequence[str | int]) -> Any:
    """Return the value at a path.

    Raises:
        _Missing: There is none.
    """
    value = document
    for depth, step in enumerate(steps):
        here = _where(steps[:depth])
        if isinstance(step, int):
            if not isinstance(value, list):
                raise _Missing(f"{here} is {_kind(value)}, not a list")
            items = cast("list[Any]", value)
            if step >= len(items):
                raise _Missing(f"{here} has {len(items)} elements")
            value = items[step]
        else:
            if not isinstance(value, Mapping):
                raise _Missing(f"{here} is {_kind(value)}, not an object")
            members = cast("Mapping[str, Any]", value)
            if step not in members:
                names = ", ".join(list(members)[:NAMES_SHOWN]) or "no members"
                raise _Missing(f"{here} has {_short(printable(names))}")
            value = members[step]
    return value


def _where(steps: Sequence[str | int]) -> str:
    return written_path(steps) if steps else "the answer"


def _wanted(expectation: Expectation) -> str:
    if expectation.exists is not None:
        return "any value" if expectation.exists else "no value"
    if expectation.pattern:
        return f"text that matches {_short(expectation.pattern)}"
    return _shown(expectation.value)


def _matches(pattern: str, text: str) -> bool:
    return len(text) <= patterns.TEXT_LIMIT_CHARACTERS and patterns.is_found(pattern, text)


def _is_equal(wanted: Any, found: Any) -> bool:
    """Whether two JSON scalars are equal; true and 1 are not."""
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    if not isinstance(wanted, int | float) or not isinstance(found, int | float):
        return wanted == found
    if isinstance(wanted, int) and isinstance(found, int):
        return wanted == found
    try:
        difference = abs(float(found) - float(wanted))
    except OverflowError:  # a whole number that no float can represent
        return False
    allowed = DEFAULT_TOLERANCE * (1 + abs(wanted))
    return math.isfinite(difference) and difference <= allowed


def _shown(value: Any) -> str:
    """Write a scalar as JSON, shortened; only the kind of a list or an object."""
    if isinstance(value, Mapping | list):
        return _kind(value)
    if isinstance(value, int) and abs(value) >= 10**20:
        return "a number of more than 20 digits"
    head = value[:SHOWN_CHARACTERS] if isinstance(value, str) else value
    return _short(printable(json.dumps(head, ensure_ascii=False)))


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 3]}..."


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    kinds = {dict: "an object", list: "a list", str: "a string"}
    return kinds.get(cast("type[Any]", type(value)), "a number")
