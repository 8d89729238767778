"""Long lists of numbers or strings in a JSON text, found without reading them.

::

    {"inputs":[{"name":"x","data":[0.1,0.2, ...]}]}      text
    {"inputs":[{"name":"x","data":"@0"}]}  +  [...]      envelope and lists

A text with lists of numbers has long stretches without a quotation mark; between two strings, a
list that is a member's value begins with a colon. A list in which strings stand is looked through
by ``string_list``. The lists are cut out and a marker left in the place of each, so that the
envelope is short and any parser may read it. The text is valid JSON where envelope and lists
are. Pure.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from moorage_runtime.codec import number_list, string_list
from moorage_runtime.codec.number_list import NumberList
from moorage_runtime.codec.string_list import StringList

LongList = NumberList | StringList

# Below this, Python objects cost less than looking for lists.
LONG_BYTES: Final = 16 * 1024
# Texts with more strings are no tensors of numbers with names.
_STRING_LIMIT: Final = 4096
_VALUE: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*\[")


class Span(msgspec.Struct, frozen=True):
    """Where a list stands in the text.

    Attributes:
        start: Its first bracket.
        stop: Behind its last one.
        strings: What is known of a list in which strings stand, None of one of numbers.
    """

    start: int
    stop: int
    strings: string_list.Found | None = None

    def decode(self, text: bytes | bytearray) -> LongList | None:
        """The list, None where another parser has to read it.

        Raises:
            MalformedListError: It is no valid JSON.
        """
        if self.strings is None:
            return number_list.decode(text, self.start, self.stop)
        return string_list.decode(text, self.strings)


class Cut(msgspec.Struct, frozen=True):
    """A text with its long lists cut out.

    Attributes:
        spans: The lists, in the order of the text.
        marker: With the number of a list behind it, it stands as a string for that list.
        envelope: The text with the markers.
    """

    spans: tuple[Span, ...]
    marker: str
    envelope: bytes


def cut(text: bytes | bytearray) -> Cut | None:
    """The text without its long lists; None where there are none, or none can be told safely."""
    spans = _spans(text)
    if not spans:
        return None
    kept: list[bytes | bytearray] = []
    start = 0
    for span in spans:
        kept.append(text[start : span.start])
        start = span.stop
    kept.append(text[start:])
    rest = b"".join(kept)
    if b"\\u0040" in rest:  # the marker's character, which no other escape spells
        return None
    marker = b"@"
    while marker in rest:
        marker += b"@"
    envelope = kept[0] + b"".join(
        b'"%b%d"%b' % (marker, number, after) for number, after in enumerate(kept[1:])
    )
    return Cut(tuple(spans), marker.decode(), bytes(envelope))


def fill(value: Any, lists: Mapping[str, LongList], wanted: Collection[str]) -> Any:
    """The value of an envelope with the lists in place of their markers.

    Args:
        value: What the envelope spells.
        lists: By marker.
        wanted: Members whose list stays a LongList; anywhere else it is an ordinary list.
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


def _spans(text: bytes | bytearray) -> list[Span]:
    """The long lists that are values of members."""
    spans: list[Span] = []
    start = 0
    for _ in range(_STRING_LIMIT):
        quote = text.find(b'"', start)
        stop = len(text) if quote < 0 else quote
        if stop - start >= LONG_BYTES:
            span = _numbers_in(text, start, stop)
            if span is not None:
                spans.append(span)
        if quote < 0:
            break
        opened = _opening_of_strings(text, start, stop)
        if opened is None:
            start = _string_end(text, quote + 1)
        else:
            strings = string_list.find(text, opened)
            if strings is None:
                break  # to look further could take this long again and again
            start = strings.stop
            if start - opened >= LONG_BYTES:
                spans.append(Span(opened, start, strings))
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


def _numbers_in(text: bytes | bytearray, start: int, stop: int) -> Span | None:
    """The list between two strings that is the value of a member; none of its parts is one."""
    opening = _VALUE.match(text, start, stop)
    if opening is None:
        return None
    opened = opening.end() - 1
    brace = text.find(b"}", opened, stop)
    closed = text.rfind(b"]", opened, stop if brace < 0 else brace)
    if closed < 0 or text.find(b"{", opened, closed) >= 0:
        return None
    return Span(opened, closed + 1)


def _opening_of_strings(text: bytes | bytearray, start: int, quote: int) -> int | None:
    """The bracket of the list that begins behind a string and holds this quotation mark."""
    opening = _VALUE.match(text, start, quote)
    if opening is None:
        return None
    opened = opening.end() - 1
    has_end = text.find(b"]", opened, quote) >= 0 or text.find(b"{", opened, quote) >= 0
    return None if has_end else opened
