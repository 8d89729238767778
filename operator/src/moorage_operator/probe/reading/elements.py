"""Converts the elements of tensors between nested, flat and raw form; pure.

Used by the drivers' `*_tensors` modules. Servers are not trusted: an invalid answer always raises
`Unreadable`.
"""

import math
import struct
from collections.abc import Sequence
from typing import Any, cast

from moorage_operator.api.smoke_tests import RANK_LIMIT, Scalar

__all__ = ["Unreadable", "flat", "limited", "nested", "packed", "unpacked"]

# Source: Open Inference Protocol V2, "Tensor Data Types"; struct's characters, little-endian.
FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
SIZES = {"BF16": 2, **{name: struct.calcsize(f"<{code}") for name, code in FORMATS.items()}}
LENGTH = struct.Struct("<I")
SCALARS = {bool, int, float, str}

ELEMENT_LIMIT = 1 << 19
"""The largest number of elements of a tensor in an answer; a smoke test compares at most 16,384.
It bounds the memory for an answer."""

TEXT_LIMIT = 1 << 16
"""The same limit for BYTES, whose elements are decoded one by one."""


class Unreadable(Exception):
    """An answer has no valid outputs; the message says why."""


def nested(data: Sequence[Scalar], shape: Sequence[int]) -> Any:
    """Convert flat row-major elements to nested lists; a scalar for the shape []."""
    if not shape:
        return data[0]
    size = math.prod(shape[1:])
    return [nested(data[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0])]


def flat(value: Any) -> tuple[Scalar, ...]:
    """Flatten nested lists to row-major elements; a scalar becomes a list of one.

    Raises:
        Unreadable: An element is not a number, boolean or string, or the nesting is too deep.
    """
    found: list[Scalar] = []
    _flatten(cast("list[Any]", value) if isinstance(value, list) else [value], 1, found)
    return tuple(found)


def _flatten(items: list[Any], depth: int, found: list[Scalar]) -> None:
    """Append the scalars of nested lists; each list is visited once."""
    if set(map(type, items)) <= SCALARS:
        found += items
        return
    for item in items:
        if isinstance(item, list) and depth < RANK_LIMIT:
            _flatten(cast("list[Any]", item), depth + 1, found)
        elif type(item) in SCALARS:
            found.append(cast("Scalar", item))
        else:
            raise Unreadable(f"expected a number, a boolean or a string, got {_kind(item)}")


def packed(datatype: str, data: Sequence[Scalar]) -> bytes:
    """Encode elements as raw contents: little-endian, BYTES with length prefixes.

    `api.smoke_tests` has checked every element against the datatype.
    """
    if datatype == "BYTES":
        texts = [str(item).encode() for item in data]
        return b"".join(LENGTH.pack(len(text)) + text for text in texts)
    if datatype == "BF16":
        # The upper half of an FP32; the lower half is truncated.
        words = (struct.pack("<f", item)[2:] for item in data)
        return b"".join(words)
    return struct.pack(f"<{len(data)}{FORMATS[datatype]}", *data)


def unpacked(datatype: str, raw: bytes) -> tuple[Scalar, ...]:
    """Decode the elements of raw contents.

    Raises:
        Unreadable: The last element is incomplete, or the datatype is unknown.
    """
    if datatype == "BYTES":
        return _texts(raw)
    if datatype not in SIZES:
        raise Unreadable(f"unknown datatype {datatype!r}")
    count, rest = divmod(len(raw), SIZES[datatype])
    if rest:
        raise Unreadable(f"{len(raw)} bytes are not a multiple of the size of {datatype}")
    limited(count)
    if datatype == "BF16":
        words = bytearray(2 * len(raw))
        words[2::4], words[3::4] = raw[::2], raw[1::2]
        return struct.unpack(f"<{count}f", words)
    return struct.unpack(f"<{count}{FORMATS[datatype]}", raw)


def limited(count: int) -> None:
    """Reject a tensor with too many elements before they are decoded.

    Raises:
        Unreadable: The number of elements exceeds the limit.
    """
    if count > ELEMENT_LIMIT:
        raise Unreadable(f"a tensor has {count} elements, expected at most {ELEMENT_LIMIT}")


def text(raw: bytes) -> str:
    """Decode an element of BYTES; bytes that are not UTF-8 are escaped."""
    return raw.decode(errors="backslashreplace")


def _texts(raw: bytes) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    while at < len(raw):
        start = at + LENGTH.size
        if start > len(raw):
            raise Unreadable("a BYTES length is truncated")
        at = start + LENGTH.unpack_from(raw, at)[0]
        if len(found) == TEXT_LIMIT:
            raise Unreadable(f"a tensor of BYTES has more than {TEXT_LIMIT} elements")
        if at > len(raw):
            raise Unreadable("a BYTES element is truncated")
        found.append(text(raw[start:at]))
    return tuple(found)


def _kind(item: object) -> str:
    """Name the kind of a value of JSON that is not a scalar."""
    if item is None:
        return "null"
    return "a list" if isinstance(item, list) else "an object"
