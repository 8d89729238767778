"""Sanitizes text from untrusted servers for a status, a table or a log line; pure.

Control characters may clear a terminal and bidirectional ones may reverse a line. Python's
`isprintable` recognizes all of them, including lone surrogates.
"""

__all__ = ["MESSAGE_LIMIT", "printable", "quoted", "word"]

MESSAGE_LIMIT = 300
"""The number of characters of a server's message that are quoted in the status."""

WORD_DIGITS = 20


def printable(text: str) -> str:
    """Escape all unprintable characters, as in Python source."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def quoted(text: str) -> str:
    """Shorten a server's message to one printable line."""
    head = text[: 8 * MESSAGE_LIMIT]
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    return line if len(line) <= MESSAGE_LIMIT else line[: MESSAGE_LIMIT - 1] + "…"


def word(value: object) -> str:
    """Return a JSON string or a short whole number as text, "" for anything else.

    Other values are not converted, because they may be large or deeply nested.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**WORD_DIGITS:
        return str(value)
    return ""
