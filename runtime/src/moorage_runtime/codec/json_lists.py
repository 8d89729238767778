"""Long lists of numbers in a JSON text, found without reading them.

::

    {"inputs":[{"name":"x","data":[0.1,0.2, ...]}]}      text
    {"inputs":[{"name":"x","data":"@0"}]}  +  [...]      envelope and lists

A text with lists of numbers has long stretches without a quotation mark; between two strings, a
list that is a member's value begins with a colon. The list is cut out and a marker left in its
place, so that the envelope is short and any parser may read it. The text is valid JSON where
envelope and lists are. Pure.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from moorage_runtime.codec.number_list import NumberList

# Below this, Python objects cost less than looking for lists.
LONG_BYTES: Final = 16 * 1024
# Texts with more strings are no tensors of numbers with names.
_STRING_LIMIT: Final = 4096
_VALUE: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\[")


class Cut(msgspec.Struct, frozen=True):
    """A text with its long lists cut out.

    Attributes:
        spans: Where each list begins and ends in the text.
        marker: With the number of a list behind it, it stands as a string for that list.
        envelope: The text with the markers.
    """

    spans: tuple[tuple[int, int], ...]
    marker: str
    envelope: bytes


def cut(text: bytes | bytearray) -> Cut | None:
    """The text without its long lists; None where there are none, or none can be told safely."""
    spans = _spans(text)
    if not spans:
        return None
    kept: list[bytes | bytearray] = []
    start = 0
    for opened, closed in spans:
        kept.append(text[start:opened])
        start = closed
    kept.append(text[start:])
    rest = b"".join(kept)
    if b"\\" in rest:  # an escape could spell the marker
        return None
    marker = b"@"
    while marker in rest:
        marker += b"@"
    envelope = kept[0] + b"".join(
        b'"%b%d"%b' % (marker, number, after) for number, after in enumerate(kept[1:])
    )
    return Cut(tuple(spans), marker.decode(), bytes(envelope))


def fill(value: Any, lists: Mapping[str, NumberList], wanted: Collection[str]) -> Any:
    """The value of an envelope with the lists in place of their markers.

    Args:
        value: What the envelope spells.
        lists: By marker.
        wanted: Members whose list stays a NumberList; anywhere else it is an ordinary list.
    """
    if type(value) is str:
        return lists[value].tolist() if value in lists else value
    if type(value) is list:
        return [fill(item, lists, wanted) for item in value]
    if type(value) is dict:
        return {
            key: lists[item]
            if key in wanted and type(item) is str and item in lists
            else fill(item, lists, wanted)
            for key, item in value.items()
        }
    return value


def _spans(text: bytes | bytearray) -> list[tuple[int, int]]:
    """The lists in the long stretches outside of strings."""
    spans: list[tuple[int, int]] = []
    start = 0
    for _ in range(_STRING_LIMIT):
        quote = text.find(b'"', start)
        stop = len(text) if quote < 0 else quote
        if stop - start >= LONG_BYTES:
            span = _list_in(text, start, stop)
            if span is not None:
                spans.append(span)
        if quote < 0:
            break
        start = _string_end(text, quote + 1)
        if not start:
            break
    return spans


def _string_end(text: bytes | bytearray, start: int) -> int:
    """Behind the quotation mark that ends the string, 0 where none does."""
    while (end := text.find(b'"', start)) >= 0:
        first = end
        while text[first - 1] == ord("\\"):
            first -= 1
        if (end - first) % 2 == 0:
            return end + 1
        start = end + 1
    return 0


def _list_in(text: bytes | bytearray, start: int, stop: int) -> tuple[int, int] | None:
    """The list between two strings that is the value of a member; none of its parts is one."""
    opening = _VALUE.match(text, start, stop)
    if opening is None:
        return None
    opened = opening.end() - 1
    brace = text.find(b"}", opened, stop)
    closed = text.rfind(b"]", opened, stop if brace < 0 else brace)
    if closed < 0 or text.find(b"{", opened, closed) >= 0:
        return None
    return opened, closed + 1
