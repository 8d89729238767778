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
_RAW_INPUT: Final = pb.ModelInferRequest.RAW_INPUT_CONTENTS_FIELD_NUMBER << 3 | _LENGTH
_RAW_OUTPUT: Final = pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER
# Below this, the parser's copies take less than looking for the tensors.
_CUT_FROM_BYTES: Final = 8 * 1024
_ONE_BYTE_TAGS: Final = 0x80
# A size has at most so many bytes of seven bits each.
_SIZE_BITS: Final = 35


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A request's bytes in two.

    Attributes:
        rest: The message without its raw tensors.
        tensors: The raw tensors; they share the request's memory.
    """

    rest: bytes
    tensors: list[memoryview]


def cut(data: bytes | memoryview) -> Cut | None:
    """The raw tensors apart from the rest; None where that gains nothing or is not plain.

    What is not plain (a field of another wire type, a broken length) is for the parser to judge.
    """
    if len(data) < _CUT_FROM_BYTES:
        return None
    view = memoryview(data)
    rest: list[memoryview] = []
    tensors: list[memoryview] = []
    at = 0
    while at < len(data):
        tag = data[at]
        if tag >= _ONE_BYTE_TAGS or tag & 7 != _LENGTH:
            return None
        size, start = _size(data, at + 1)
        stop = start + size
        if stop > len(data) or start == at + 1:
            return None
        if tag == _RAW_INPUT:
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


def block(field: int, content: bytes) -> bytes:
    """A field of type bytes, string or message."""
    return _head(field, len(content)) + content


def _head(field: int, size: int) -> bytes:
    head = bytearray((field << 3 | _LENGTH,))
    while size > 0x7F:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    return bytes(head)


def _size(data: bytes | memoryview, at: int) -> tuple[int, int]:
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
