"""Raw tensors of OIP's protobuf messages, in and out without copies of their bytes. Pure.

::

    ModelInferRequest  = *(any field) with raw_input_contents among them
    ModelInferResponse = *(fields below raw_output_contents) *raw_output_contents

A protobuf parser copies each bytes field twice: into the message, and out of it. So the raw
tensors of a large request are cut out of its bytes first, and the parser gets the rest; and those
of an answer are put behind what the serializer gives.

Source: Protocol Buffers encoding: a field is a varint of number and wire type, then its value.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from moorage_runtime._generated import oip_pb2 as pb

_LENGTH: Final = 2  # wire type of bytes, strings and messages
_RAW_INPUT: Final = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER
_RAW_OUTPUT: Final = pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER
# Below this, the parser's copies take less than looking for the tensors.
_CUT_FROM_BYTES: Final = 8 * 1024
_ONE_BYTE_TAGS: Final = 0x80
# A size has at most so many bytes of seven bits each.
_SIZE_BITS: Final = 35


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A message's bytes in two.

    Attributes:
        rest: The message without the fields that were cut out, its raw tensors.
        tensors: What those fields hold; they share the message's memory.
    """

    rest: bytes
    tensors: list[memoryview]


def cut(data: bytes | memoryview) -> Cut | None:
    """The raw tensors apart from the rest; None where that gains nothing or is not plain.

    What is not plain (a field of another wire type, a broken length) is for the parser to judge.
    """
    return None if len(data) < _CUT_FROM_BYTES else split(data, tag_of(_RAW_INPUT))


def split(data: bytes | memoryview, tag: int) -> Cut | None:
    """The contents of the fields with this tag apart from the rest; None where it is not plain."""
    view = memoryview(data)
    rest: list[memoryview] = []
    tensors: list[memoryview] = []
    at = 0
    while at < len(data):
        found = data[at]
        if found >= _ONE_BYTE_TAGS or found & 7 != _LENGTH:
            return None
        size, start = size_at(data, at + 1)
        stop = start + size
        if stop > len(data) or start == at + 1:
            return None
        if found == tag:
            tensors.append(view[start:stop])
        else:
            rest.append(view[at:stop])
        at = stop
    return Cut(b"".join(rest), tensors)


def append(message: bytes, tensors: Iterable[bytes | memoryview]) -> bytes:
    """A serialized ModelInferResponse with these raw tensors behind its other fields."""
    parts: list[bytes | memoryview] = [message]
    for tensor in tensors:
        parts += (_head(_RAW_OUTPUT, len(tensor)), tensor)
    return b"".join(parts)


def tag_of(field: int) -> int:
    """What a field of type bytes, string or message begins with, where its number is below 16."""
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


def size_at(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The varint there and where it ends, which is where it begins if it is none."""
    size = 0
    for index, shift in enumerate(range(0, _SIZE_BITS, 7)):
        if at + index >= len(data):
            break
        byte = data[at + index]
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            return size, at + index + 1
    return 0, at
