"""Typed tensor contents of OIP's protobuf messages: repeated fields to arrays and back. Pure.

Source: OIP, gRPC, "Tensor Data": each datatype has one field of InferTensorContents; FP16 has
none and must be raw, and so must BF16. Small integers travel in 32-bit fields; a value outside
the datatype's range is refused, never cut off.
"""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime import string_arrays
from moorage_runtime._generated.oip_pb2 import InferTensorContents
from moorage_runtime.codec.narrow_integers import NARROW, narrow
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor

_FIELD: Final[Mapping[Datatype, str]] = MappingProxyType(
    {
        Datatype.BOOL: "bool_contents",
        Datatype.UINT8: "uint_contents",
        Datatype.UINT16: "uint_contents",
        Datatype.UINT32: "uint_contents",
        Datatype.UINT64: "uint64_contents",
        Datatype.INT8: "int_contents",
        Datatype.INT16: "int_contents",
        Datatype.INT32: "int_contents",
        Datatype.INT64: "int64_contents",
        Datatype.FP32: "fp32_contents",
        Datatype.FP64: "fp64_contents",
        Datatype.BYTES: "bytes_contents",
    }
)


def has_field(datatype: Datatype) -> bool:
    """Whether tensors of this datatype can be typed; all others must be raw."""
    return datatype in _FIELD


def has_values(contents: InferTensorContents) -> bool:
    """Whether any field holds a value; an empty message is as good as none."""
    return bool(contents.ListFields())


def decode(
    contents: Sequence[InferTensorContents], datatype: Datatype, shape: tuple[int, ...], path: str
) -> NDArray[Any]:
    """The array that the contents hold; it owns its memory.

    Args:
        contents: The message, in one piece unless its values are strings; without any value where
            the shape has no element.
        datatype: Type of the elements.
        shape: Real dimensions.
        path: Where the input stands in the request, for messages.

    Raises:
        InvalidRequest: Values in another field than the datatype's, more or fewer values than
            the shape has elements, or a value outside the datatype's range.
    """
    field = _FIELD.get(datatype)
    for piece in contents:
        _check_fields(piece, field, datatype, path)
    values: list[Any] = [] if field is None else [getattr(piece, field) for piece in contents]
    found, count = sum(map(len, values)), math.prod(shape)
    if found != count:
        raise InvalidRequest(
            f"{path}.contents: {found} values in {field or 'no field'}, but shape "
            f"{list(shape)} has {count}"
        )
    return _convert(values, datatype, f"{path}.contents.{field}").reshape(shape)


def _check_fields(
    contents: InferTensorContents, field: str | None, datatype: Datatype, path: str
) -> None:
    for descriptor, _ in contents.ListFields():
        if field is None:
            raise InvalidRequest(
                f"{path}.contents.{descriptor.name}: {datatype} has no typed form; send it in "
                "raw_input_contents"
            )
        if descriptor.name != field:
            raise InvalidRequest(
                f"{path}.contents.{descriptor.name}: has values, but {datatype} goes into {field}"
            )


def encode(tensor: Tensor, contents: InferTensorContents) -> None:
    """Put the tensor's elements into their field of an empty message.

    The datatype must have a field, see :func:`has_field`.
    """
    field = getattr(contents, _FIELD[tensor.datatype])
    for piece in string_arrays.pieces(tensor.array):
        field.extend(piece)


def _convert(pieces: list[Any], datatype: Datatype, path: str) -> NDArray[Any]:
    if datatype is Datatype.BYTES:
        step = string_arrays.PIECE_ELEMENTS
        # a slice of the field makes Python's objects for its own elements alone
        slices = (
            values[at : at + step] for values in pieces for at in range(0, len(values), step)
        )
        return string_arrays.collect(slices, sum(map(len, pieces)))
    values = pieces[0] if pieces else ()
    if datatype in NARROW:
        return narrow(values, datatype, path)
    return np.array(values, NUMPY_DTYPE[datatype])
