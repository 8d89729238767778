"""Cuts long lists of numbers out of a JSON text, so that the rest of the text is short.

::

    {"inputs":[{"name":"x","data":[0.1,0.2, ...]}]}      text
    {"inputs":[{"name":"x","data":"<DEL>0"}]}  +  [...]  envelope and lists

A list of numbers is a long part of the text without a quotation mark. Each one is replaced by a
string with the control character DEL and the number of the list. A text that contains this
character elsewhere is not cut. The text is valid JSON if the envelope and the lists are.

The search visits a limited number of quotation marks, and no two steps visit the same bytes, so
its cost is linear in the size of the text. Pure.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from moorage_runtime.codec.json.number_list import NumberList

# Below this size, Python objects are cheaper than searching for lists.
LONG_BYTES: Final = 16 * 1024
# A text with more quotation marks does not consist of a few named tensors of numbers.
_QUOTES_LIMIT: Final = 8192
# More backslashes before a quotation mark are implausible in a tensor's name.
_BACKSLASHES_LIMIT: Final = 64
_VALUE: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\[")
# Valid in a JSON string, unlike other control characters, and not used in text.
_MARK: Final = b"\x7f"
_ESCAPED_MARK: Final = b"\\u007"


class Span(msgspec.Struct, frozen=True):
    """The position of a list in the text.

    Attributes:
        start: Index of its first bracket.
        stop: Index after its last bracket.
    """

    start: int
    stop: int


class Cut(msgspec.Struct, frozen=True):
    """A text without its long lists.

    Attributes:
        spans: The lists, in the order of the text.
        envelope: The text with a placeholder for each list.
    """

    spans: tuple[Span, ...]
    envelope: bytes


def placeholder(number: int) -> str:
    """The string that replaces the list with this number."""
    return f"{_MARK.decode()}{number}"


def cut(text: bytes | bytearray) -> Cut | None:
    """The text without its long lists; None if it has none, or already contains placeholders."""
    spans = _spans(text)
    if not spans:
        return None
    kept: list[bytes | bytearray] = []
    start = 0
    for span in spans:
        kept.append(text[start : span.start])
        start = span.stop
    kept.append(text[start:])
    if any(_MARK in part or _ESCAPED_MARK in part for part in kept):
        return None
    envelope = kept[0] + b"".join(
        b'"%b%d"%b' % (_MARK, number, after) for number, after in enumerate(kept[1:])
    )
    return Cut(tuple(spans), bytes(envelope))


def fill(
    value: Any, lists: Mapping[str, NumberList], wanted: Collection[str], *, nested: bool
) -> Any:
    """The value of an envelope, with its placeholders replaced by the lists.

    Args:
        value: The parsed envelope.
        lists: The lists by placeholder.
        wanted: Members whose list remains a NumberList; other lists become Python lists.
        nested: Whether this applies to members at any depth, or to the outermost object alone.
    """
    if type(value) is str:
        return lists[value].tolist() if value in lists else value
    inner = wanted if nested else ()
    if type(value) is list:
        return [fill(item, lists, inner, nested=nested) for item in value]
    if type(value) is dict:
        return {
            key: lists[item]
            if key in wanted and type(item) is str and item in lists
            else fill(item, lists, inner, nested=nested)
            for key, item in value.items()
        }
    return value


def _spans(text: bytes | bytearray) -> list[Span]:
    """The long lists that are values of members."""
    spans: list[Span] = []
    start = 0
    is_inside = False  # in a string
    for _ in range(_QUOTES_LIMIT):
        quote = text.find(b'"', start)
        stop = len(text) if quote < 0 else quote
        if not is_inside and stop - start >= LONG_BYTES:
            span = _numbers_in(text, start, stop)
            if span is not None:
                spans.append(span)
        if quote < 0:
            break
        if is_inside:
            backslashes = _backslashes_before(text, quote, start)
            if backslashes > _BACKSLASHES_LIMIT:
                break
            is_inside = backslashes % 2 == 1
        else:
            is_inside = True
        start = quote + 1
    return spans


def _backslashes_before(text: bytes | bytearray, quote: int, start: int) -> int:
    """The number of backslashes before a quotation mark, counted up to the limit."""
    first = max(start, quote - _BACKSLASHES_LIMIT - 1)
    part = text[first:quote]
    return len(part) - len(part.rstrip(b"\\"))


def _numbers_in(text: bytes | bytearray, start: int, stop: int) -> Span | None:
    """The list between two strings, if it is the value of a member; objects end it."""
    opening = _VALUE.match(text, start)
    if opening is None:
        return None
    opened = opening.end() - 1
    brace = text.find(b"}", opened, stop)
    closed = text.rfind(b"]", opened, stop if brace < 0 else brace)
    return None if closed < 0 else Span(opened, closed + 1)
