"""Long lists of strings, cut out of a request's bytes and parsed some thousand at a time. Pure.

::

    ModelInferRequest = *(any field) with inputs among them, and their contents among theirs
    contents          = *bytes_contents

A parser reads millions of strings within one call, in which no other thread runs: nobody is told
for half a second that the server is well. So they are cut out, the parser gets the rest, and then
piece after piece of them.

Where a piece may end is not found by looking at each string, which takes Python longer than all
else. It ends before what looks like the heads of some strings, and that is right exactly when the
parser takes the piece: what ends within a string is no message.

Source: Protocol Buffers encoding: a repeated field may be cut between any two of its elements.
"""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from google.protobuf.message import DecodeError

from moorage_runtime._generated import oip_pb2 as pb
from moorage_runtime.codec import oip_proto_raw

# It takes a memoryview too, which its stub does not know.
_MESSAGE: Final[type[Any]] = pb.InferTensorContents
_INPUTS: Final = pb.ModelInferRequest.INPUTS_FIELD_NUMBER
_CONTENTS: Final = pb.ModelInferRequest.InferInputTensor.CONTENTS_FIELD_NUMBER
_STRING: Final = oip_proto_raw.tag_of(pb.InferTensorContents.BYTES_CONTENTS_FIELD_NUMBER)
# What is shorter is parsed in some milliseconds at most.
_LONG_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = 64 * 1024
# What looks like the head of a string is followed by so many more.
_FOLLOWING: Final = 8
# Places that are looked at, and ends that are tried, before a piece is made so much longer: what a
# hostile request costs is bounded.
_PLACES: Final = 1024
_TRIES: Final = 8
_LONGER: Final = 8


class Cut(msgspec.Struct, frozen=True, gc=False):
    """A request's bytes without its long lists of strings.

    Attributes:
        rest: The message, in which those inputs have no contents.
        contents: By the input's index the contents, which share the request's memory.
    """

    rest: bytes
    contents: Mapping[int, memoryview]


def cut(data: bytes | memoryview) -> Cut | None:
    """The long lists of strings apart from the rest; None where there is none, or not plainly."""
    if len(data) < _LONG_BYTES:
        return None
    request = oip_proto_raw.split(data, oip_proto_raw.tag_of(_INPUTS))
    if request is None:
        return None
    apart = {
        index: tensor
        for index, item in enumerate(request.tensors)
        if len(item) >= _LONG_BYTES and (tensor := _split(item)) is not None
    }
    if not apart:
        return None
    inputs = [apart[n].rest if n in apart else item for n, item in enumerate(request.tensors)]
    blocks = [oip_proto_raw.block(_INPUTS, bytes(item)) for item in inputs]
    contents = {index: tensor.tensors[0] for index, tensor in apart.items()}
    return Cut(b"".join((request.rest, *blocks)), contents)


def _split(tensor: memoryview) -> oip_proto_raw.Cut | None:
    """An input and its contents, where these are strings."""
    found = oip_proto_raw.split(tensor, oip_proto_raw.tag_of(_CONTENTS))
    if found is None or len(found.tensors) != 1:
        return None
    (contents,) = found.tensors
    return found if len(contents) and contents[0] == _STRING else None


def parse(contents: memoryview) -> Iterator[pb.InferTensorContents]:
    """The contents in pieces, of which each has at least one field.

    Raises:
        DecodeError: The bytes are no InferTensorContents.
    """
    at = 0
    while at < len(contents):
        piece, at = _next(contents, at)
        yield piece


def _next(contents: memoryview, at: int) -> tuple[pb.InferTensorContents, int]:
    """The piece that begins there, and where the next one does."""
    size = _PIECE_BYTES
    while at + size < len(contents):
        for stop in itertools.islice(_heads(contents, at + size), _TRIES):
            try:
                return _MESSAGE.FromString(contents[at:stop]), stop
            except DecodeError:
                continue
        size *= _LONGER
    return _MESSAGE.FromString(contents[at:]), len(contents)


def _heads(contents: memoryview, since: int) -> Iterator[int]:
    """Where a string may begin."""
    window = bytes(contents[since : since + _PIECE_BYTES])
    found = -1
    for _ in range(_PLACES):
        found = window.find(_STRING, found + 1)
        if found < 0:
            return
        if _looks_like_strings(contents, since + found):
            yield since + found


def _looks_like_strings(contents: memoryview, at: int) -> bool:
    for _ in range(_FOLLOWING):
        if at >= len(contents):
            break
        if contents[at] != _STRING:
            return False
        size, start = oip_proto_raw.size_at(contents, at + 1)
        if start == at + 1:
            return False
        at = start + size
    return at <= len(contents)
