"""Parses JSON bytes by the rules that the HTTP protocols share.

A strict parser reads nearly every body. If it refuses one, the standard library decides: it
accepts the tokens NaN, Infinity and -Infinity, a byte order mark and numbers beyond float64, and
its message gives the position of the error. ``number_list`` reads long lists of numbers, such as
images. Depth and number of values are checked before parsing, so that a parser cannot exhaust the
stack or the memory, and other threads wait at most about 100 ms for one parser call.

Pure. The protocol's own codec interprets the values.
"""

import json
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from moorage_runtime.codec.json import lists as json_lists
from moorage_runtime.codec.json import number_list
from moorage_runtime.codec.json.list_text import MalformedListError
from moorage_runtime.codec.json.lists import LONG_BYTES
from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.codec.json.string_mask import StringMask
from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge

Buffer = bytes | bytearray | memoryview

_PIECE_BYTES: Final = 64 * 1024
# Long enough to recognize the value, short enough for a log line.
_SHOWN_CHARACTERS: Final = 60

# A byte order mark is allowed.
_ENCODING: Final = "utf-8-sig"
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
# The value of a member: an integer of 64 bits or more, and no more digits than float64 can have.
_LONG_INTEGER: Final = rb"\s*:\s*(-?\d{19,308})\s*[,}]"
_DIGITS_COMPLAINT: Final = "the JSON contains an integer with more than 4300 digits"
_SURROGATE_COMPLAINT: Final = "the JSON contains an unpaired surrogate, which is not valid Unicode"
# How each byte changes the depth.
_STEP: Final = np.zeros(256, np.int8)
_STEP[[ord("["), ord("{")]] = 1
_STEP[[ord("]"), ord("}")]] = -1
# Blanks for everything but line ends.
_BLANKS: Final = bytes(byte if byte == ord("\n") else ord(" ") for byte in range(256))
_SHOWN: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=repr)


def check_size(size_bytes: int, limit_bytes: int) -> None:
    """Refuse a JSON text that exceeds the server's limit.

    Raises:
        PayloadTooLarge: It exceeds the limit.
    """
    if size_bytes > limit_bytes:
        raise PayloadTooLarge(
            f"the JSON has {size_bytes} bytes: must have {limit_bytes} or fewer "
            "(--max-json-bytes). Send large tensors as binary data, with the binary tensor "
            "extension of the Open Inference Protocol"
        )


def parse(body: Buffer, long_lists: Collection[str] = (), *, nested: bool = True) -> Any:
    """Parse the JSON value of a body; the last of repeated members counts.

    Args:
        body: UTF-8.
        long_lists: Names of members. If the value of one is a long list of numbers, it is a
            :class:`NumberList`; other lists are Python lists.
        nested: Whether these are members at any depth, or of the outermost object alone.

    Raises:
        InvalidRequest: The text is empty, not JSON or not UTF-8, contains an unpaired surrogate,
            has more text after the value, is nested deeper than 100 levels, or has too many
            arrays, objects or values outside of long lists.
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    if not text:
        raise InvalidRequest("the request body is empty: must be a JSON object")
    if len(text) >= LONG_BYTES:
        parts = json_lists.cut(text)
        if parts is not None:
            lists = _decode_lists(text, parts)
            if lists is not None:
                envelope = _parse_envelope(text, parts)
                return json_lists.fill(envelope, lists, long_lists, nested=nested)
    return _parse_whole(text)


def _parse_whole(text: bytes | bytearray) -> Any:
    _check_structure(text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_leniently(text)


def _check_structure(text: bytes | bytearray) -> None:
    """Refuse text that would exhaust the stack or the memory, or take a parser long."""
    has_many = len(text) > limits.VALUES and text.count(b",") >= limits.VALUES
    if not has_many and not may_be_deep(text):
        return
    found = _measure(text)
    if found.depth > limits.JSON_DEPTH:
        raise InvalidRequest(f"the JSON is nested deeper than {limits.JSON_DEPTH} levels")
    if found.opened > limits.JSON_PARTS:
        raise InvalidRequest(
            f"the JSON contains {found.opened} arrays and objects outside of long lists of "
            f"numbers: must contain {limits.JSON_PARTS} or fewer"
        )
    if found.commas >= limits.VALUES:
        raise InvalidRequest(
            f"the JSON contains more than {found.commas} values outside of long lists of numbers: "
            f"must contain {limits.VALUES} or fewer. Send large tensors as binary data"
        )


def parse_object(body: Buffer, long_lists: Collection[str] = ()) -> dict[str, Any]:
    """Parse the JSON object of a body; arguments as for :func:`parse`.

    Raises:
        InvalidRequest: As :func:`parse`, or the value is not an object.
    """
    value = parse(body, long_lists)
    if type(value) is not dict:
        raise InvalidRequest(f"the request body is {show(value)}: must be a JSON object")
    return value


def may_be_deep(text: bytes | bytearray) -> bool:
    """Whether there are enough brackets to nest deeper than 100 levels, inside strings or not."""
    return text.count(b"[") + text.count(b"{") > limits.JSON_DEPTH


def depth(text: bytes | bytearray) -> int:
    """The nesting depth of brackets outside of strings: 2 for ``[[1], "["]``.

    For malformed text, it is correct up to the position at which a parser stops.
    """
    return _measure(text).depth


class _Structure(msgspec.Struct, frozen=True):
    """Counts of a text outside of strings.

    Attributes:
        depth: Nesting depth of brackets.
        opened: Number of opening brackets.
        commas: Number of commas.
    """

    depth: int
    opened: int
    commas: int


def _measure(text: bytes | bytearray) -> _Structure:
    mask, view = StringMask(), memoryview(text)
    level = deepest = opened = commas = 0
    for start in range(0, len(text), _PIECE_BYTES):
        masked = mask.of(bytes(view[start : start + _PIECE_BYTES]))
        steps = _STEP[np.frombuffer(masked, np.uint8)]
        levels = level + np.cumsum(steps)
        deepest = max(deepest, int(levels.max()))
        level = int(levels[-1])
        opened += int(np.count_nonzero(steps > 0))
        commas += masked.count(b",")
    return _Structure(deepest, opened, commas)


def written_integer(text: Buffer, key: str, value: float) -> int | None:
    """The integer that a parser rounded to this value of a member; None if it was not one.

    Args:
        text: JSON text that was parsed.
        key: Name of the member; one that is written with needless escapes is not found.
        value: The value.
    """
    name = re.escape(json.dumps(key, ensure_ascii=False).encode())
    found = re.finditer(name + _LONG_INTEGER, text)
    return next((number for each in found if float(number := int(each[1])) == value), None)


def show(value: Any) -> str:
    """The value as shortened JSON text, for an error message."""
    if isinstance(value, str):
        value = value[:_SHOWN_CHARACTERS]
    elif isinstance(value, list | NumberList):
        return "an array"
    elif isinstance(value, dict):
        return "an object"
    text = _SHOWN.encode(value).encode(errors="replace").decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _decode_lists(text: bytes | bytearray, parts: json_lists.Cut) -> dict[str, NumberList] | None:
    """The lists by their placeholders, or None if one needs the regular parsers."""
    lists: dict[str, NumberList] = {}
    for number, span in enumerate(parts.spans):
        try:
            found = number_list.decode(text, span.start, span.stop)
        except MalformedListError as error:
            _parse_whole(_blanked(text, parts.spans))  # an error elsewhere is reported first
            position = len(text[: error.position].decode(_ENCODING, "replace"))
            whole = text.decode(_ENCODING, "replace")
            shown = json.JSONDecodeError(error.complaint, whole, position)
            raise InvalidRequest(f"the body is not valid JSON: {shown}") from error
        if found is None:
            return None
        lists[json_lists.placeholder(number)] = found
    return lists


def _parse_envelope(text: bytes | bytearray, parts: json_lists.Cut) -> Any:
    try:
        return _parse_whole(parts.envelope)
    except InvalidRequest:
        _parse_whole(_blanked(text, parts.spans))  # to report the position in the body
        raise


def _blanked(text: bytes | bytearray, spans: Sequence[json_lists.Span]) -> bytearray:
    """The text with blanks and a 0 in place of each list, so that positions do not change."""
    blanked = bytearray(text)
    for span in spans:
        blanked[span.start : span.stop] = text[span.start : span.stop].translate(_BLANKS)
        blanked[span.start] = ord("0")
    return blanked


def _decode_text(text: bytes | bytearray) -> str:
    try:
        return text.decode(_ENCODING)
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
    except ValueError as error:  # an integer with thousands of digits
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
