"""Makes untrusted text safe for a terminal; pure.

A status contains log lines and text of model servers. Control characters can control a terminal,
and bidirectional overrides change the visible order of text, so both are replaced.
"""

import unicodedata
from typing import Any, cast

__all__ = ["clean", "clean_document", "clean_lines"]

# Cc: controls such as escape. Cf: formats such as bidirectional overrides and zero-width joiners.
# Cs: lone surrogates, which cannot be encoded. Zl, Zp: separators that break a line of a table.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def clean(value: object) -> str:
    """One line: whitespace becomes a space, an unsafe character a replacement character."""
    text = " ".join(str(value).split())
    return "".join(_REPLACEMENT if _is_unsafe(char) else char for char in text)


def clean_lines(value: object) -> list[str]:
    """Several clean lines, without blank lines at the end."""
    return [clean(line) for line in str(value).rstrip().splitlines()]


def clean_document(value: Any) -> Any:
    """The same JSON value; its strings keep newlines and tabs, but no other unsafe character."""
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
