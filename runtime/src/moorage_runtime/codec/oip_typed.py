"""The usual form of an OIP request, read by a parser that knows the members and their types.

    JSON -> parse -> Wire -> inputs_of, outputs_of -> oip_request

It does in one pass in C what ``oip_request`` does member by member in Python. It either finds
everything right or says nothing: None means that the careful way has to look, which then names
what is wrong, or accepts what is unusual (tokens for what is not finite, numbers beyond float64).
Pure.

Source: OIP "Inference Request"; binary tensor data extension, "Binary Tensor Request".
"""

from typing import Annotated, Any, Final

import msgspec
from numpy.typing import NDArray

from moorage_runtime.codec import json_text, oip_binary, oip_json, oip_shape
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import RequestedOutput
from moorage_runtime.tensors import NO_PARAMETERS, Datatype, Tensor

_WireParameters = dict[str, str | int | float | bool] | None
_Dimension = Annotated[int, msgspec.Meta(ge=0)]
_NOTHING: Final = memoryview(b"")


class WireInput(msgspec.Struct, gc=False):
    """One input as it stands in the JSON."""

    name: str
    datatype: Datatype
    shape: tuple[_Dimension, ...]
    data: Any = msgspec.UNSET
    parameters: _WireParameters = None


class WireOutput(msgspec.Struct, gc=False):
    """One requested output as it stands in the JSON."""

    name: str
    parameters: _WireParameters = None


class Wire(msgspec.Struct, gc=False):
    """The JSON of a request: required members are there, and all have the right types."""

    inputs: list[WireInput]
    outputs: list[WireOutput] | None = None
    id: str | None = None
    parameters: _WireParameters = None


_decode: Final = msgspec.json.Decoder(Wire).decode


def parse(text: bytes | bytearray) -> Wire | None:
    """The request that the text spells, None when it needs the careful way."""
    if json_text.may_be_deep(text):
        return None
    try:
        return _decode(text)
    except ValueError:  # msgspec's own errors too
        return None


def inputs_of(wire: Wire, rest: memoryview | None) -> tuple[Tensor, ...] | None:
    """The input tensors, None when one of them needs the careful way.

    Args:
        wire: The JSON.
        rest: The binary data behind the JSON, shared by the tensors; None when the request said
            that there is none.
    """
    tensors: list[Tensor] = []
    left = _NOTHING if rest is None else rest
    for item in wire.inputs:
        parameters = item.parameters
        if parameters and "binary_data_size" in parameters:
            size = parameters.pop("binary_data_size")
            if rest is None or type(size) is not int or not 0 <= size <= len(left):
                return None
            found = _from_bytes(item, left[:size])
            left = left[size:]
        else:
            found = _from_json(item)
        if found is None:
            return None
        tensors.append(Tensor(item.name, item.datatype, found, parameters or NO_PARAMETERS))
    return None if left else tuple(tensors)


def outputs_of(wire: Wire) -> tuple[RequestedOutput, ...]:
    """The requested outputs."""
    if not wire.outputs:
        return ()
    return tuple(
        [RequestedOutput(item.name, item.parameters or NO_PARAMETERS) for item in wire.outputs]
    )


def _from_bytes(item: WireInput, part: memoryview) -> NDArray[Any] | None:
    if item.data is not msgspec.UNSET:
        return None
    try:
        shape = oip_shape.check(item.shape, "")
        return oip_binary.decode_array(part, item.datatype, shape, "")
    except InvalidRequest:
        return None


def _from_json(item: WireInput) -> NDArray[Any] | None:
    shape = item.shape
    # with a dimension of 0 the others may be of any size
    if 0 in shape or len(shape) > oip_shape.RANK_LIMIT:
        return None
    return oip_json.convert(item.data, item.datatype, shape)
