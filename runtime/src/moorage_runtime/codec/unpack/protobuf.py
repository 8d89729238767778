"""Counts the fields of a protobuf message before a parser creates objects for them. Pure.

A parser and its caller use hundreds of bytes, and microseconds, for each submessage, which has two
bytes on the wire. The scan creates no objects, visits each field once and stops at a limit.

Source: Protocol Buffers encoding. Groups, which no protocol here uses, are refused, because the
scan would have to know their content.
"""

import functools
from typing import Any, Final

import msgspec
import numpy as np
from google.protobuf.descriptor import FieldDescriptor

from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest, PayloadTooLarge

_LENGTH: Final = 2  # wire type of strings, bytes, messages and packed fields
_INTEGERS: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_BOOL,
        FieldDescriptor.CPPTYPE_ENUM,
    }
)
_VARINT_BYTES: Final = 10
# Varints below this value have a single byte.
_ONE_BYTE: Final = 0x80
# A field has at least two bytes, so a shorter message cannot have many.
_QUICK_BYTES: Final = 4 * 1024
_QUICK_FIELDS: Final = 2048

Data = bytes | memoryview


class Fields(msgspec.Struct, frozen=True):
    """The properties of a message type that the scan needs.

    Attributes:
        messages: Fields that contain messages, by number.
        packed: Numbers of repeated fields that contain varints.
    """

    messages: dict[int, "Fields"]
    packed: frozenset[int]


class _Malformed(Exception):
    """The bytes are not a protobuf message."""


def check(data: Data, message: type[Any]) -> None:
    """Refuse a message with more fields than a request of its type can need.

    Args:
        data: The serialized message.
        message: Its generated class.

    Raises:
        PayloadTooLarge: It has too many fields or submessages.
        InvalidRequest: The bytes are not a protobuf message, or contain a group.
    """
    if len(data) <= _QUICK_BYTES:
        return
    name = message.DESCRIPTOR.full_name
    try:
        found = _scan(data, _fields_of(message), limits.VALUES)
    except (_Malformed, IndexError) as error:
        raise InvalidRequest(f"the {len(data)} received bytes are not a valid {name}") from error
    for count, limit, what in (
        (found.submessages, limits.TENSORS, "submessages"),
        (found.fields, limits.VALUES, "fields"),
        (found.packed, limits.PACKED, "packed integers"),
    ):
        if count > limit:
            raise PayloadTooLarge(
                f"the {name} has too many {what}: must have {limit} or fewer; send large "
                "tensors as raw bytes"
            )


def is_quick(data: Data, message: type[Any]) -> bool:
    """Whether parsing the message and reading its fields takes at most about a millisecond."""
    if len(data) <= _QUICK_BYTES:
        return True
    try:
        found = _scan(data, _fields_of(message), _QUICK_FIELDS)
    except (_Malformed, IndexError):
        return True  # refused by the first check
    return found.fields <= _QUICK_FIELDS


def check_small(data: Data, message: type[Any]) -> None:
    """Refuse a large message of a type that contains only a few names.

    Raises:
        PayloadTooLarge: It is too large.
    """
    if len(data) > limits.SMALL_MESSAGE_BYTES:
        raise PayloadTooLarge(
            f"the {message.DESCRIPTOR.full_name} has {len(data)} bytes: must have "
            f"{limits.SMALL_MESSAGE_BYTES} or fewer"
        )


class _Count(msgspec.Struct):
    fields: int = 0
    submessages: int = 0
    packed: int = 0

    def is_over(self, most_fields: int) -> bool:
        return self.fields > most_fields or self.submessages > limits.TENSORS


def _scan(data: Data, root: Fields, most_fields: int) -> _Count:
    """Count until the end, or until a limit is exceeded; IndexError if the data ends early.

    A function call for each tag and size would take twice as long as checking their first byte.
    """
    found = _Count()
    outer: list[tuple[int, Fields]] = [(-1, root)]
    at, stop, fields = 0, len(data), root
    while True:
        while at == stop:
            stop, fields = outer.pop()
        if stop < 0 or found.is_over(most_fields):
            return found
        found.fields += 1
        tag, at = data[at], at + 1
        if tag >= _ONE_BYTE:
            tag, at = _varint(data, at - 1, stop)
        if tag & 7 != _LENGTH:
            at = _skip(data, at, stop, tag & 7)
            continue
        size, at = data[at], at + 1
        if size >= _ONE_BYTE:
            size, at = _varint(data, at - 1, stop)
        end = at + size
        if end > stop:
            raise _Malformed
        inner = fields.messages.get(tag >> 3)
        if inner is not None:
            found.submessages += 1
            outer.append((stop, fields))
            stop, fields = end, inner
            continue
        if tag >> 3 in fields.packed:
            last_bytes = np.frombuffer(data, np.uint8, size, at) < _ONE_BYTE
            found.packed += int(np.count_nonzero(last_bytes))
        at = end


def _skip(data: Data, at: int, stop: int, kind: int) -> int:
    """The end of a field's value that has no length prefix."""
    match kind:
        case 0:
            _, at = _varint(data, at, stop)
        case 1:
            at += 8
        case 5:
            at += 4
        case _:
            raise _Malformed
    if at > stop:
        raise _Malformed
    return at


def _varint(data: Data, at: int, stop: int) -> tuple[int, int]:
    """The number at a position, and its end."""
    number = shift = 0
    for place in range(at, min(stop, at + _VARINT_BYTES)):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < _ONE_BYTE:
            return number, place + 1
        shift += 7
    raise _Malformed


@functools.cache
def _fields_of(message: type[Any]) -> Fields:
    return _describe(message.DESCRIPTOR)


def _describe(descriptor: Any) -> Fields:
    """Describe a message type; the types of the protocols are not recursive."""
    return Fields(
        {
            field.number: _describe(field.message_type)
            for field in descriptor.fields
            if field.message_type is not None
        },
        frozenset(field.number for field in descriptor.fields if field.cpp_type in _INTEGERS),
    )
