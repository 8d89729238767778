"""The elements of tensors on their way to and from a server: nested, flat and raw; pure.

Used by the drivers' `*_tensors` modules. A server's answer is not trusted: whatever is no list of
scalars is `Unreadable`, never an exception of another kind.
"""

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

from moorage_operator.api.smoke_tests import RANK_LIMIT, Scalar

__all__ = ["Unreadable", "flat", "nested", "packed", "unpacked"]

# Source: Open Inference Protocol V2, "Tensor Data Types"; struct's characters, little-endian.
FORMATS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q",
    "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
LENGTH = struct.Struct("<I")
BF16_DROPPED_BITS = 16


class Unreadable(Exception):
    """An answer holds no outputs; the message says why."""


def nested(data: Sequence[Scalar], shape: Sequence[int]) -> Any:
    """Flat row-major elements as nested lists; the one element itself for the shape []."""
    if not shape:
        return data[0]
    size = math.prod(shape[1:])
    return [nested(data[at * size : (at + 1) * size], shape[1:]) for at in range(shape[0])]


def flat(value: Any) -> tuple[Scalar, ...]:
    """The elements of nested lists, row-major; a scalar is a list of one.

    Raises:
        Unreadable: Something in it is no number, boolean or string, or it is nested too deep.
    """
    items: list[Any] = cast("list[Any]", value) if isinstance(value, list) else [value]
    for _ in range(RANK_LIMIT):
        if not any(isinstance(item, list) for item in items):
            break
        items = list(chain.from_iterable(i if isinstance(i, list) else [i] for i in items))
    for item in items:
        if not isinstance(item, bool | int | float | str):
            raise Unreadable(f"{_kind(item)} where a number, a boolean or a string was expected")
    return tuple(items)


def packed(datatype: str, data: Sequence[Scalar]) -> bytes:
    """Raw contents: little-endian elements, BYTES with their lengths before them.

    `api.smoke_tests` has held every element against the datatype.
    """
    if datatype == "BYTES":
        texts = [str(item).encode() for item in data]
        return b"".join(LENGTH.pack(len(text)) + text for text in texts)
    if datatype == "BF16":
        # The upper half of an FP32; what is below is cut off.
        words = (struct.pack("<f", item)[2:] for item in data)
        return b"".join(words)
    return struct.pack(f"<{len(data)}{FORMATS[datatype]}", *data)


def unpacked(datatype: str, raw: bytes) -> tuple[Scalar, ...]:
    """The elements of raw contents.

    Raises:
        Unreadable: The bytes do not hold whole elements, or nobody knows the datatype.
    """
    if datatype == "BYTES":
        return _texts(raw)
    if datatype == "BF16":
        raw = b"".join(b"\0\0" + raw[at : at + 2] for at in range(0, len(raw), 2))
        datatype = "FP32"
    if datatype not in FORMATS:
        raise Unreadable(f"datatype {datatype!r} is none of the protocol's")
    size = struct.calcsize(f"<{FORMATS[datatype]}")
    if len(raw) % size:
        raise Unreadable(f"{len(raw)} bytes are no whole elements of {datatype}")
    return struct.unpack(f"<{len(raw) // size}{FORMATS[datatype]}", raw)


def text(raw: bytes) -> str:
    """An element of BYTES; what is not UTF-8 stands there escaped."""
    return raw.decode(errors="backslashreplace")


def _texts(raw: bytes) -> tuple[str, ...]:
    found: list[str] = []
    at = 0
    while at < len(raw):
        start = at + LENGTH.size
        if start > len(raw):
            raise Unreadable("a length of BYTES is cut off")
        at = start + LENGTH.unpack_from(raw, at)[0]
        if at > len(raw):
            raise Unreadable("an element of BYTES is cut off")
        found.append(text(raw[start:at]))
    return tuple(found)


def _kind(item: Any) -> str:
    if item is None:
        return "null"
    return {dict: "an object", list: "a list"}.get(type(item), type(item).__name__)
