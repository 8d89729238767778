"""Typed tensor contents of OIP's protobuf messages: repeated fields to arrays and back. Pure.

Source: OIP, gRPC, "Tensor Data": each datatype has one field of InferTensorContents. FP16 has none
and must be raw, and so must BF16. Small integers use 32-bit fields; a value outside the datatype's
range is refused, never truncated.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.codec._generated.oip_pb2 import InferTensorContents
from moorage_runtime.codec.arrays.json_data import PIECE_ELEMENTS
from moorage_runtime.codec.arrays.narrow_integers import NARROW, narrow
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

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
    """Whether any field has a value; an empty message counts as absent."""
    return bool(contents.ListFields())


def decode(
    contents: InferTensorContents, datatype: Datatype, shape: tuple[int, ...], path: str
) -> NDArray[Any]:
    """The array for the contents; it owns its memory.

    Args:
        contents: The message; without values if the shape has no elements.
        datatype: Datatype of the elements.
        shape: Actual dimensions.
        path: Path of the input in the request, for messages.

    Raises:
        InvalidRequest: Values are in the wrong field, their number does not match the shape, or
            one is outside the datatype's range.
    """
    field = _FIELD.get(datatype)
    _check_fields(contents, field, datatype, path)
    values: Any = () if field is None else getattr(contents, field)
    found, count = len(values), math.prod(shape)
    if found != count:
        raise InvalidRequest(
            f"{path}.contents has {found} values in {field or 'no field'}: shape {list(shape)} "
            f"requires {count}"
        )
    return _convert(values, datatype, f"{path}.contents.{field}").reshape(shape)


def _check_fields(
    contents: InferTensorContents, field: str | None, datatype: Datatype, path: str
) -> None:
    for descriptor, _ in contents.ListFields():
        if field is None:
            raise InvalidRequest(
                f"{path}.contents.{descriptor.name}: {datatype} has no typed form: send it in "
                "raw_input_contents"
            )
        if descriptor.name != field:
            raise InvalidRequest(
                f"{path}.contents.{descriptor.name} has values: {datatype} requires {field}"
            )


def encode(tensor: Tensor, contents: InferTensorContents) -> None:
    """Store the tensor's elements in their field of an empty message.

    The datatype must have a field, see :func:`has_field`.
    """
    field = getattr(contents, _FIELD[tensor.datatype])
    flat = tensor.array.ravel()
    for start in range(0, flat.size, PIECE_ELEMENTS):
        field.extend(flat[start : start + PIECE_ELEMENTS].tolist())


def _convert(values: Any, datatype: Datatype, path: str) -> NDArray[Any]:
    if datatype is Datatype.BYTES:
        return np.fromiter(values, np.object_, len(values))
    if datatype in NARROW:
        return narrow(values, datatype, path)
    return np.array(values, NUMPY_DTYPE[datatype])
