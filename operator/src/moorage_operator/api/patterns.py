"""Regular expressions of specs, which come from users and are matched with untrusted text; pure.

RE2 takes time in proportion to the text, whatever the pattern: it has no backreferences and no
lookaround, and needs no backtracking. The API server's validation rules have the same syntax.

Source: RE2, "Syntax" (https://github.com/google/re2/wiki/Syntax).
"""

from importlib import import_module
from typing import Any

__all__ = ["PATTERN_LIMIT_CHARACTERS", "TEXT_LIMIT_CHARACTERS", "is_found", "problem_of"]

PATTERN_LIMIT_CHARACTERS = 256
TEXT_LIMIT_CHARACTERS = 8 << 10
"""The longest text that is searched; with the worst pattern this takes a quarter of a second."""

MEMORY_LIMIT_BYTES = 128 << 10
"""The memory of one compiled pattern; RE2 rejects patterns that need more."""


def problem_of(pattern: str) -> str:
    """Return what is wrong with a pattern, "" if it is valid."""
    try:
        _compiled(pattern)
    except _re2().error as error:
        sentence: bytes = error.args[0]
        return sentence.decode(errors="replace")
    return ""


def is_found(pattern: str, text: str) -> bool:
    """Whether a valid pattern matches anywhere in a text within the limit."""
    return _compiled(pattern).search(text) is not None


def _compiled(pattern: str) -> Any:
    """Compile a pattern; the library caches the last 128."""
    library = _re2()
    options = library.Options()
    options.max_mem = MEMORY_LIMIT_BYTES
    options.log_errors = False
    options.never_capture = True
    return library.compile(pattern, options)


def _re2() -> Any:
    """Import the library with the first pattern, because few installations use one."""
    return import_module("re2")
