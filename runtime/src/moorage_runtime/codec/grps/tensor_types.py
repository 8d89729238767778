"""GRPS's tensor types: their names and fields, and the mapping of other datatypes to them. Pure.

Source: GRPS interface, "gtensors". It has no type for BOOL, unsigned types above 8 bits and BF16.
These use the next wider type, in both directions if that is lossless.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

# Datatype to the field of its elements.
FIELDS: Final[Mapping[Datatype, str]] = MappingProxyType(
    {
        Datatype.UINT8: "flat_uint8",
        Datatype.INT8: "flat_int8",
        Datatype.INT16: "flat_int16",
        Datatype.INT32: "flat_int32",
        Datatype.INT64: "flat_int64",
        Datatype.FP16: "flat_float16",
        Datatype.FP32: "flat_float32",
        Datatype.FP64: "flat_float64",
        Datatype.BYTES: "flat_string",
    }
)
# Names of the enum DataType by datatype; the numbers are the positions in FIELDS, from 1.
NAMES: Final[Mapping[Datatype, str]] = MappingProxyType(
    {datatype: f"DT_{field.removeprefix('flat_').upper()}" for datatype, field in FIELDS.items()}
)
NUMBERS: Final[Mapping[Datatype, int]] = MappingProxyType(
    {datatype: number for number, datatype in enumerate(FIELDS, 1)}
)
DATATYPE_OF: Final[Mapping[str | int, Datatype]] = MappingProxyType(
    {name: datatype for datatype, name in NAMES.items()}
    | {number: datatype for datatype, number in NUMBERS.items()}
)
_CARRIERS: Final[Mapping[Datatype, Datatype]] = MappingProxyType(
    {
        Datatype.BOOL: Datatype.UINT8,
        Datatype.UINT16: Datatype.INT32,
        Datatype.UINT32: Datatype.INT64,
        Datatype.UINT64: Datatype.INT64,
        Datatype.BF16: Datatype.FP32,
    }
)
_INT64_LARGEST: Final = 2**63 - 1


def carry(tensor: Tensor) -> Tensor:
    """The tensor in a type of GRPS, unchanged if it already has one.

    Raises:
        UnsupportedDatatype: An element of UINT64 exceeds INT64.
    """
    carrier = _CARRIERS.get(tensor.datatype)
    if carrier is None:
        return tensor
    array = tensor.array
    if tensor.datatype is Datatype.BF16:
        array = (array.astype("<u4") << 16).view("<f4")
    elif tensor.datatype is Datatype.UINT64 and (array > _INT64_LARGEST).any():
        raise UnsupportedDatatype(
            f"output '{tensor.name}' has UINT64 elements beyond INT64, which GRPS does not support"
        )
    return Tensor(tensor.name, carrier, array.astype(NUMPY_DTYPE[carrier]), tensor.parameters)


def restore(tensor: Tensor, wanted: Datatype) -> Tensor:
    """The tensor in the datatype of the model, if it was sent in the next wider type.

    BF16 is not restored, because that would round.

    Raises:
        InvalidRequest: An element is out of the datatype's range.
    """
    if tensor.datatype is not _CARRIERS.get(wanted) or wanted is Datatype.BF16:
        return tensor
    array = tensor.array
    if wanted is Datatype.BOOL:
        return Tensor(tensor.name, wanted, array != 0, tensor.parameters)
    largest = min(int(np.iinfo(NUMPY_DTYPE[wanted]).max), _INT64_LARGEST)
    outside = (array < 0) | (array > largest)
    if outside.any():
        raise InvalidRequest(
            f"input '{tensor.name}': {array[outside][0]} is out of the range of {wanted}"
        )
    return Tensor(tensor.name, wanted, array.astype(NUMPY_DTYPE[wanted]), tensor.parameters)


def texts(tensor: Tensor) -> list[str]:
    """The elements of a BYTES tensor, which are strings in GRPS.

    Raises:
        InvalidRequest: An element is not UTF-8.
    """
    try:
        return [element.decode() for element in tensor.array.ravel()]
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"output '{tensor.name}' contains bytes that are not UTF-8, which gtensors do not "
            "support"
        ) from error
