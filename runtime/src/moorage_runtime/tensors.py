"""The one in-memory form of a tensor, and the datatypes of the Open Inference Protocol.

Every codec decodes to :class:`Tensor` and encodes from it; every backend takes and returns it.
There is no second form. Pure: no I/O, no clock.

Memory: an array may share the buffer that a request arrived in and is then read-only.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

# Values of request, input and output parameters (OIP, "Inference Request").
Parameter = bool | int | float | str
Parameters = Mapping[str, Parameter]
NO_PARAMETERS: Final[Parameters] = MappingProxyType({})


class Datatype(enum.StrEnum):
    """Tensor datatypes, OIP section "Tensor Data Types"; BF16 is the Triton extension."""

    BOOL = "BOOL"
    UINT8 = "UINT8"
    UINT16 = "UINT16"
    UINT32 = "UINT32"
    UINT64 = "UINT64"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FP16 = "FP16"
    BF16 = "BF16"
    FP32 = "FP32"
    FP64 = "FP64"
    BYTES = "BYTES"

    # enum's own hash is a Python function, and every table here is looked up by datatype
    __hash__ = str.__hash__


NUMPY_DTYPE: Final[Mapping[Datatype, np.dtype[Any]]] = MappingProxyType(
    {
        Datatype.BOOL: np.dtype(np.bool_),
        Datatype.UINT8: np.dtype("<u1"),
        Datatype.UINT16: np.dtype("<u2"),
        Datatype.UINT32: np.dtype("<u4"),
        Datatype.UINT64: np.dtype("<u8"),
        Datatype.INT8: np.dtype("<i1"),
        Datatype.INT16: np.dtype("<i2"),
        Datatype.INT32: np.dtype("<i4"),
        Datatype.INT64: np.dtype("<i8"),
        Datatype.FP16: np.dtype("<f2"),
        # numpy has no bfloat16: the array holds the bit pattern (upper half of a float32)
        Datatype.BF16: np.dtype("<u2"),
        Datatype.FP32: np.dtype("<f4"),
        Datatype.FP64: np.dtype("<f8"),
        # elements are Python bytes objects
        Datatype.BYTES: np.dtype(np.object_),
    }
)


# Datatypes whose elements are numbers to numpy as well: not BF16, which it has as bit patterns.
NUMBERS: Final = frozenset(Datatype) - {Datatype.BF16, Datatype.BYTES}


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """A named tensor.

    Attributes:
        name: Name as in the model's metadata.
        datatype: OIP datatype.
        array: C-contiguous array of the dtype that NUMPY_DTYPE gives; its shape is the tensor's.
        parameters: Tensor-level parameters, unknown ones included.
    """

    name: str
    datatype: Datatype
    array: NDArray[Any]
    parameters: Parameters = NO_PARAMETERS

    @property
    def shape(self) -> tuple[int, ...]:
        """The real dimensions, never -1."""
        return self.array.shape


class TensorSpec(msgspec.Struct, frozen=True):
    """What a model declares of one input or output.

    Attributes:
        name: Tensor name.
        datatype: OIP datatype.
        shape: Dimensions with -1 for a variable one; ``()`` is a scalar.
        optional: An input may be left out; an output is given only when it is asked for.
        any_number: An input takes every datatype of NUMBERS; the model converts.
        any_shape: An input takes other shapes than its own as well; the model decides.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    optional: bool = False
    any_number: bool = False
    any_shape: bool = False
