"""Raw tensors of OIP's protobuf messages, without copying their bytes. Pure.

::

    ModelInferRequest  = *(any field) with raw_input_contents among them
    ModelInferResponse = *(fields below raw_output_contents) *raw_output_contents

A protobuf parser copies each bytes field twice: into the message, and out of it. So the raw
tensors of a large request are cut out first, and the parser gets the rest. The raw tensors of a
response are appended to the serialized message.

Source: Protocol Buffers encoding: a field is a varint of number and wire type, then its value.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from moorage_runtime.codec._generated import oip_pb2 as pb
from moorage_runtime.codec.unpack import limits

_LENGTH: Final = 2  # wire type of bytes, strings and messages
_RAW_INPUT: Final = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER
_RAW_OUTPUT: Final = pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER
# Below this size, the parser's copies are cheaper than the search for tensors.
_CUT_FROM_BYTES: Final = 8 * 1024
# A request with more fields is not large because of its raw tensors.
_PARTS_LIMIT: Final = 2 * limits.TENSORS
# The bits of a tag of one byte that are not its field number.
_KIND_BITS: Final = 0x87
# The size of a field has at most this many bytes, with seven bits each.
_SIZE_BYTES: Final = 5


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A message in two parts.

    Attributes:
        rest: The message without its raw tensors.
        tensors: The raw tensors; they share the message's memory.
    """

    rest: bytes
    tensors: list[memoryview]


def cut(data: bytes | memoryview) -> Cut | None:
    """Separate the raw tensors from the rest; None if that gains nothing or the message is
    unusual.

    The parser handles unusual messages (a field with another wire type, an invalid length).
    """
    return None if len(data) < _CUT_FROM_BYTES else split(data, tag_of(_RAW_INPUT))


def split(data: bytes | memoryview, tag: int) -> Cut | None:
    """Separate the contents of the fields with this tag from the rest; None for an unusual
    message.
    """
    view = memoryview(data)
    rest: list[memoryview] = []
    tensors: list[memoryview] = []
    at = 0
    while at < len(data):
        found = data[at]
        sized = _size_at(data, at + 1) if found & _KIND_BITS == _LENGTH else None
        if sized is None:
            return None
        size, start = sized
        stop = start + size
        if stop > len(data):
            return None
        if found == tag:
            tensors.append(view[start:stop])
        else:
            rest.append(view[at:stop])
        at = stop
        if len(rest) + len(tensors) > _PARTS_LIMIT:
            return None
    return Cut(b"".join(rest), tensors)


def append(message: bytes, tensors: Iterable[bytes | memoryview]) -> bytes:
    """A serialized ModelInferResponse with these raw tensors appended."""
    parts: list[bytes | memoryview] = [message]
    for tensor in tensors:
        parts += (_head(_RAW_OUTPUT, len(tensor)), tensor)
    return b"".join(parts)


def tag_of(field: int) -> int:
    """The first byte of a field of type bytes, string or message with a number below 16."""
    return field << 3 | _LENGTH


def block(field: int, content: bytes) -> bytes:
    """A field of type bytes, string or message."""
    return _head(field, len(content)) + content


def _head(field: int, size: int) -> bytes:
    head = bytearray((tag_of(field),))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def _size_at(data: bytes | memoryview, at: int) -> tuple[int, int] | None:
    """The varint at a position, and its end; None if it is invalid."""
    size = 0
    for index, byte in enumerate(data[at : at + _SIZE_BYTES]):
        size |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return size, at + index + 1
    return None
