"""Text from outside, made safe for a terminal; pure.

A status carries words of model servers and log lines. A terminal obeys control characters, and
bidirectional overrides show text in another order than it has, so neither is printed.
"""

import unicodedata
from typing import Any, cast

__all__ = ["clean", "clean_document", "clean_lines"]

# Cc: controls such as escape. Cf: formats such as bidirectional overrides and zero-width joints.
# Cs: lone surrogates, which no encoding can print. Zl, Zp: separators that break a table's line.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(value: object) -> str:
    """One line: white space becomes a space, what a terminal obeys a replacement character."""
    text = " ".join(str(value).split())
    return "".join(_REPLACEMENT if _is_unsafe(char) else char for char in text)


def clean_lines(value: object) -> list[str]:
    """Several lines, each clean; blank ones at the end are left out."""
    return [clean(line) for line in str(value).rstrip().splitlines()]


def clean_document(value: Any) -> Any:
    """The same JSON value, whose texts keep their newlines and tabs and no other control."""
    if isinstance(value, str):
        return "".join(
            _REPLACEMENT if char not in "\n\t" and _is_unsafe(char) else char for char in value
        )
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {clean_document(key): clean_document(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [clean_document(item) for item in cast("list[Any]", value)]
    return value


def _is_unsafe(char: str) -> bool:
    return unicodedata.category(char) in _UNSAFE
