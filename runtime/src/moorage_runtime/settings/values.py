"""Parsers of settings: from text to a value. Pure; each raises ValueError for invalid text.

settings.SETTINGS -> read(text) -> value, or ValueError -> SettingError
"""

import pathlib
from collections.abc import Callable
from typing import Final

PROTOCOLS: Final = ("oip", "tensorflow-serving", "grps")


def optional(text: str) -> str | None:
    """The text, or None if it is empty; text that is not UTF-8 is invalid."""
    text.encode()  # UnicodeEncodeError is a ValueError
    return text or None


def text(text: str) -> str:
    """The text, which may be empty; text that is not UTF-8 is invalid."""
    return optional(text) or ""


def names(text: str) -> tuple[str, ...]:
    """The names of a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def path(text: str) -> pathlib.Path | None:
    """A path, or None for the empty text."""
    return pathlib.Path(text) if text else None


def port(text: str) -> int:
    """A port; 0 is any free one."""
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError
    return number


def count(text: str) -> int:
    """A whole number, at least 0."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def positive(text: str) -> int:
    """A whole number, at least 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def workers(text: str) -> int:
    """A whole number, at least 1; 0 for the word auto."""
    return 0 if text == "auto" else positive(text)


def seconds(text: str) -> float:
    """A finite time, at least 0."""
    number = float(text)
    if not 0 <= number < float("inf"):
        raise ValueError
    return number


def switch(text: str) -> bool:
    """True or false, in any case."""
    if text.lower() not in ("true", "false"):
        raise ValueError
    return text.lower() == "true"


def one_of(*words: str) -> Callable[[str], str]:
    """A parser that accepts only these words."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


def word(text: str) -> str:
    """ASCII letters, digits, "-" and "_"."""
    if not text or not text.replace("-", "").replace("_", "").isalnum() or not text.isascii():
        raise ValueError
    return text


def media_type(text: str) -> str:
    """A type and a subtype."""
    kind, slash, rest = text.partition("/")
    if not (kind and slash and rest) or not text.isascii() or not text.isprintable():
        raise ValueError
    return text


def protocols(text: str) -> tuple[str, ...]:
    """Some of PROTOCOLS, in that order."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words or any(word not in PROTOCOLS for word in words):
        raise ValueError
    return tuple(word for word in PROTOCOLS if word in words)
