"""From the text of a setting to its value. Pure; each raises ValueError for a text that is none.

settings.SETTINGS -> read(text) -> value, or ValueError -> SettingError
"""

import pathlib
from collections.abc import Callable
from typing import Final

PROTOCOLS: Final = ("oip", "tensorflow-serving", "grps")


def optional(text: str) -> str | None:
    """None for the empty text."""
    return text or None


def path(text: str) -> pathlib.Path | None:
    """A path, None for the empty text."""
    return pathlib.Path(text) if text else None


def port(text: str) -> int:
    """A port; 0 stands for any free one."""
    number = int(text)
    if not 0 <= number <= 65535:
        raise ValueError
    return number


def count(text: str) -> int:
    """A whole number from 0."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def positive(text: str) -> int:
    """A whole number from 1."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def workers(text: str) -> int:
    """A whole number from 1; 0 for the word auto."""
    return 0 if text == "auto" else positive(text)


def seconds(text: str) -> float:
    """A finite time that is not negative."""
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
    """Reads one of these words and no other."""

    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return read


def word(text: str) -> str:
    """Letters, digits, "-" and "_" of ASCII."""
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
    """Some of PROTOCOLS, in the order of that."""
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if not words or any(word not in PROTOCOLS for word in words):
        raise ValueError
    return tuple(word for word in PROTOCOLS if word in words)
