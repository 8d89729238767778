"""Decodes parts of a URL's path, which the listener passes as one character for each byte."""

from urllib.parse import unquote

__all__ = ["decoded"]


def decoded(text: str) -> str:
    """The text behind percent-encoding and UTF-8; invalid bytes become U+FFFD."""
    return unquote(text.encode("latin-1"))
