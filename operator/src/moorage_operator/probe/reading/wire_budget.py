"""Counts the fields of an encoded protobuf message before it is parsed; pure.

An empty submessage takes two bytes on the wire and a hundred bytes of memory, so 4 MiB may expand
to 200 MiB. The fields, including those of submessages, are counted first, and a message with too
many is not parsed.

Source: Protocol Buffers, "Encoding"; groups are deprecated and rejected.
"""

from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor

__all__ = ["FIELD_LIMIT", "FREE_BYTES", "TooManyFields", "check"]

FIELD_LIMIT = 20_000
"""An index of 4,000 models has as many; 64 tensors of four dimensions have some 500."""

FREE_BYTES = 4 << 10
"""Messages up to this size are parsed without counting."""

DEPTH_LIMIT = 16

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5


class TooManyFields(Exception):
    """The message has too many fields, or is not a valid message."""


def check(data: bytes, message: Any) -> None:
    """Count the fields of an encoded message with this descriptor.

    Raises:
        TooManyFields: The number exceeds the limit, or the fields cannot be counted.
    """
    if len(data) <= FREE_BYTES:
        return
    try:
        _count(data, 0, len(data), _below(message), 0, 0)
    except IndexError as error:
        raise TooManyFields("a field is truncated") from error


def _count(data: bytes, at: int, end: int, below: Any, found: int, depth: int) -> int:
    """Return the number of fields, including those `found` before."""
    while at < end:
        found += 1
        if found > FIELD_LIMIT or depth > DEPTH_LIMIT:
            raise TooManyFields(f"more than {FIELD_LIMIT} fields or {DEPTH_LIMIT} levels")
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _LENGTH:
            size, at = _varint(data, at)
            if inner := below.get(key >> 3):
                stop = min(at + size, end)
                found = _count(data, at, stop, _below(inner), found, depth + 1)
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise TooManyFields(f"unsupported wire type {kind}")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise TooManyFields("a number has more than ten bytes")


_known: dict[str, dict[int, Descriptor]] = {}


def _below(message: Descriptor) -> dict[int, Descriptor]:
    """Return the types of a message's submessages by field number."""
    if message.full_name not in _known:
        _known[message.full_name] = {
            field.number: field.message_type
            for field in message.fields
            if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type
        }
    return _known[message.full_name]
