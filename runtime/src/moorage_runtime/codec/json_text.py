"""JSON bytes to Python values, by the rules that the HTTP protocols share.

A strict parser reads nearly every body. When it refuses one, the standard library decides: it
takes the tokens NaN, Infinity and -Infinity, a byte order mark and numbers beyond float64, and
its message says where the text is wrong. Long lists of numbers are read apart from the rest, by
``number_list``, and those of objects in pieces, by ``json_pieces``. Nesting is measured before
anything is parsed, so that neither parser can run out of stack.

Pure. What the values mean is for the protocol's own codec.
"""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from moorage_runtime import collector
from moorage_runtime.codec import json_lists, json_pieces
from moorage_runtime.codec.json_lists import LONG_BYTES, LongList
from moorage_runtime.codec.list_text import MalformedListError
from moorage_runtime.codec.string_list import StringList
from moorage_runtime.codec.string_mask import StringMask
from moorage_runtime.errors import InvalidRequest

Buffer = bytes | bytearray | memoryview

# More than any tensor needs; far from where a parser or Python's own stack gives up.
DEPTH_LIMIT: Final = 100
# A hundred bytes of memory each: of a body of nothing but brackets it would be gigabytes.
PARTS_LIMIT: Final = 4 * 1024 * 1024
# So many, and Python's garbage collector takes longer with them than their parser.
_MANY_PARTS: Final = 64 * 1024
# Some thousand strings, in a fraction of a millisecond.
_PIECE_BYTES: Final = 64 * 1024
# Long enough to recognize the value, short enough for a log line.
_SHOWN_CHARACTERS: Final = 60

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_DIGITS_COMPLAINT: Final = "the JSON holds an integer of more than 4300 digits"
_SURROGATE_COMPLAINT: Final = "the JSON holds an unpaired surrogate, which is no Unicode text"
# What each byte does to the depth.
_STEP: Final = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1
_SHOWN: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr)


def parse(body: Buffer, long_lists: Collection[str] = ()) -> Any:
    """The one JSON value that the body holds; of a repeated member the last counts.

    Args:
        body: UTF-8.
        long_lists: Names of members. A long list of numbers or strings that is the value of one
            is a :class:`NumberList` or a :class:`StringList`; a short one is a list of Python's,
            as everywhere else.

    Raises:
        InvalidRequest: Empty, not JSON, not UTF-8, an unpaired surrogate, further text after the
            value, nested deeper than 100 levels, or more than four million arrays and objects
            beside those in long lists.
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    if not text:
        raise InvalidRequest("the request body is empty; expected a JSON object")
    if len(text) >= LONG_BYTES:
        parts = json_lists.cut(text)
        if parts is not None:
            lists = _decode_lists(text, parts)
            if lists is not None:
                envelope = _parse_envelope(text, parts)
                _check_text(lists.values())
                return json_lists.fill(envelope, lists, long_lists)
    return _parse_whole(text)


def _parse_whole(text: bytes | bytearray) -> Any:
    nesting = _check_structure(text)
    if nesting is None or nesting.opened < _MANY_PARTS:
        return _parse_at_once(text)
    with collector.paused():
        value = json_pieces.parse(text, nesting.cuts, _parse_at_once)
        return _parse_at_once(text) if value is None else value


def _parse_at_once(text: bytes | bytearray) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_leniently(text)


def _check_structure(text: bytes | bytearray) -> "_Nesting | None":
    """Refuse what would exhaust the stack or the memory; None where there is little of either."""
    if not may_be_deep(text):
        return None
    nesting = _measure(text)
    if nesting.depth > DEPTH_LIMIT:
        raise InvalidRequest(f"the JSON is nested deeper than {DEPTH_LIMIT} levels")
    if nesting.opened > PARTS_LIMIT:
        raise InvalidRequest(
            f"the JSON holds {nesting.opened} arrays and objects; expected at most {PARTS_LIMIT}"
        )
    return nesting


def parse_object(body: Buffer, long_lists: Collection[str] = ()) -> dict[str, Any]:
    """The JSON object that the body holds; arguments as of :func:`parse`.

    Raises:
        InvalidRequest: As :func:`parse`, or the value is no object.
    """
    value = parse(body, long_lists)
    if type(value) is not dict:
        raise InvalidRequest(f"the request body is {show(value)}; expected a JSON object")
    return value


def check_objects(text: bytes | bytearray, limit: int) -> None:
    """Refuse more objects than a request of the protocol can need, before they are made.

    Raises:
        InvalidRequest: There are more.
    """
    if _has_at_most(limit, text):
        return  # some may stand in strings, but that need not be known
    mask, view = StringMask(), memoryview(text)
    starts = range(0, len(text), _PIECE_BYTES)
    found = sum(mask.of(bytes(view[at : at + _PIECE_BYTES])).count(b"{") for at in starts)
    if found > limit:
        raise InvalidRequest(f"the JSON holds {found} objects; expected at most {limit}")


def _has_at_most(limit: int, text: bytes | bytearray) -> bool:
    """Whether so few braces open: searched for, as bytes.count takes a nanosecond a byte."""
    at = -1
    for _ in range(limit + 1):
        at = text.find(b"{", at + 1)
        if at < 0:
            return True
    return False


def may_be_deep(text: bytes | bytearray) -> bool:
    """Whether there are brackets enough to nest deeper than 100 levels, in strings or not."""
    return text.count(b"[") + text.count(b"{") > DEPTH_LIMIT


def depth(text: bytes | bytearray) -> int:
    """How deep the brackets outside of strings are nested: ``[[1], "["]`` gives 2.

    Of malformed text it is right up to the place where a parser stops.
    """
    return _measure(text).depth


class _Nesting(msgspec.Struct, frozen=True):
    """The brackets of a text outside of strings.

    Attributes:
        depth: How deep they are nested.
        opened: How many of them open.
        cuts: Where the text may be cut, see ``json_pieces``.
    """

    depth: int
    opened: int
    cuts: Sequence[int]


def _measure(text: bytes | bytearray) -> _Nesting:
    mask, cuts = StringMask(), json_pieces.Cuts()
    view = memoryview(text)
    level = deepest = opened = 0
    for start in range(0, len(text), _PIECE_BYTES):
        codes = np.frombuffer(mask.of(bytes(view[start : start + _PIECE_BYTES])), np.uint8)
        steps = _STEP[codes]
        levels = level + np.cumsum(steps, dtype=np.int64)
        deepest = max(deepest, int(levels.max()))
        level = int(levels[-1])
        opened += int(np.count_nonzero(steps > 0))
        cuts.look(start, codes, levels)
    return _Nesting(deepest, opened, cuts.found())


def show(value: Any) -> str:
    """The value as JSON text, shortened, for an error message."""
    if isinstance(value, str):
        value = value[: _SHOWN_CHARACTERS * 2]
    elif isinstance(value, list | LongList):
        return "an array"
    elif isinstance(value, dict):
        return "an object"
    text = _SHOWN.encode(value).encode("utf-8", "replace").decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _decode_lists(text: bytes | bytearray, parts: json_lists.Cut) -> dict[str, LongList] | None:
    """The lists by their markers, None where one needs the ordinary parsers."""
    lists: dict[str, LongList] = {}
    for number, span in enumerate(parts.spans):
        try:
            found = span.decode(text)
        except MalformedListError as error:
            _check_before(text, parts.spans[:number], span.start)
            before = text[: error.position].decode("utf-8-sig", "replace")
            raise _not_json(text, error.complaint, len(before)) from error
        if found is None:
            return None
        lists[f"{parts.marker}{number}"] = found
    return lists


def _check_before(text: bytes | bytearray, spans: Sequence[json_lists.Span], stop: int) -> None:
    """Raise the error that a parser meets in front of this place, if there is one."""
    _check_structure(text)
    _decode_text(text)
    padded = _without(text[:stop], spans).decode("utf-8-sig")
    try:
        json.loads(padded)
    except json.JSONDecodeError as error:
        if error.pos < len(padded):
            raise _not_json(text, error.msg, error.pos) from error
    except ValueError as error:
        raise InvalidRequest(_DIGITS_COMPLAINT) from error


def _check_text(lists: Iterable[LongList]) -> None:
    if any(isinstance(found, StringList) and not found.is_text for found in lists):
        raise InvalidRequest(_SURROGATE_COMPLAINT)


def _parse_envelope(text: bytes | bytearray, parts: json_lists.Cut) -> Any:
    try:
        return _parse_whole(parts.envelope)
    except InvalidRequest:
        _check_structure(text)
        _decode_text(text)
        try:
            json.loads(_without(text, parts.spans).decode("utf-8-sig"))
        except json.JSONDecodeError as error:
            raise _not_json(text, error.msg, error.pos) from error
        except ValueError:  # an integer of thousands of digits
            pass
        raise


def _without(text: bytes | bytearray, spans: Sequence[json_lists.Span]) -> bytearray:
    """The text with blanks for each list: every other character stays at its place."""
    padded = bytearray()
    start = 0
    for span in spans:
        width = len(text[span.start : span.stop].decode())
        padded += text[start : span.start] + b'""'.ljust(width)
        start = span.stop
    return padded + text[start:]


def _not_json(text: bytes | bytearray, complaint: str, position: int) -> InvalidRequest:
    """The error of the standard library, for a position in characters."""
    error = json.JSONDecodeError(complaint, text.decode("utf-8-sig", "replace"), position)
    return InvalidRequest(f"the body is not valid JSON: {error}")


def _decode_text(text: bytes | bytearray) -> str:
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"the JSON is not UTF-8: byte 0x{text[error.start]:02x} at position {error.start}"
        ) from error


def _parse_leniently(text: bytes | bytearray) -> Any:
    decoded = _decode_text(text)
    try:
        value = json.loads(decoded)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from error
    except ValueError as error:  # an integer of thousands of digits
        raise InvalidRequest(_DIGITS_COMPLAINT) from error
    if _SURROGATE_ESCAPE.search(decoded) and _has_lone_surrogate(value):
        raise InvalidRequest(_SURROGATE_COMPLAINT)
    return value


def _has_lone_surrogate(value: Any) -> bool:
    if type(value) is str:
        return any("\ud800" <= character <= "\udfff" for character in value)
    if type(value) is list:
        return any(map(_has_lone_surrogate, value))
    if type(value) is dict:
        return any(_has_lone_surrogate(k) or _has_lone_surrogate(v) for k, v in value.items())
    return False
