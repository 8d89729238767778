"""Counts the fields of an encoded protobuf message before it is parsed; pure.

An empty submessage takes two bytes on the wire and a hundred bytes of memory, so 4 MiB may expand
to 200 MiB. The fields, including those of submessages, are counted first, and a message with too
many is not parsed. No message of the protocols contains itself, so the depth is bounded.

Source: Protocol Buffers, "Encoding"; groups are deprecated and rejected.
"""

from typing import Any

from google.protobuf.descriptor import Descriptor

__all__ = ["FIELD_LIMIT", "FREE_BYTES", "TooManyFields", "check"]

FIELD_LIMIT = 20_000
"""An index of 4,000 models has as many; 512 tensors of four dimensions have some 4,000."""

FREE_BYTES = 4 << 10
"""Messages up to this size are parsed without counting."""

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
        _count(data, 0, len(data), _below(message), 0)
    except IndexError as error:
        raise TooManyFields("a field is truncated") from error


def _count(data: bytes, at: int, end: int, below: Any, found: int) -> int:
    """Return the number of fields, including those `found` before."""
    while at < end:
        found += 1
        if found > FIELD_LIMIT:
            raise TooManyFields(f"more than {FIELD_LIMIT} fields")
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _LENGTH:
            size, at = _varint(data, at)
            if inner := below.get(key >> 3):
                stop = min(at + size, end)
                found = _count(data, at, stop, _below(inner), found)
            at += size
        elif kind == _VARINT:
            _, at = _varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            at += 4 if kind == _FIXED32 else 8
        else:
            raise TooManyFields(f"unsupported wire type {kind}")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise TooManyFields("a number has more than ten bytes")


_known: dict[str, dict[int, Descriptor]] = {}


def _below(message: Descriptor) -> dict[int, Descriptor]:
    """Return the types of a message's submessages by field number."""
    if message.full_name not in _known:
        _known[message.full_name] = {
            field.number: field.message_type for field in message.fields if field.message_type
        }
    return _known[message.full_name]
