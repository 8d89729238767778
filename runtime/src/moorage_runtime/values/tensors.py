"""The only in-memory form of a tensor, and the datatypes of the Open Inference Protocol.

Every codec decodes to :class:`Tensor` and encodes from it; every backend takes and returns it.
Pure: no I/O, no clock.

Memory: an array may share the buffer of the received request, and is then read-only.
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
# The integers that a message to a model's own process can contain.
INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**64 - 1


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

    # enum's own hash is a Python function, and every table is indexed by datatype
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


# Datatypes whose elements are numbers in numpy: not BF16, which is stored as bit patterns.
NUMBERS: Final = frozenset(Datatype) - {Datatype.BF16, Datatype.BYTES}


class Tensor(msgspec.Struct, frozen=True, gc=False):
    """A named tensor.

    Attributes:
        name: Name as in the model's metadata.
        datatype: OIP datatype.
        array: C-contiguous array of the dtype in NUMPY_DTYPE, with the tensor's shape.
        parameters: Tensor-level parameters, including unknown ones.
    """

    name: str
    datatype: Datatype
    array: NDArray[Any]
    parameters: Parameters = NO_PARAMETERS

    @property
    def shape(self) -> tuple[int, ...]:
        """The actual dimensions, never -1."""
        return self.array.shape


class TensorSpec(msgspec.Struct, frozen=True):
    """The declaration of one input or output.

    Attributes:
        name: Tensor name.
        datatype: OIP datatype.
        shape: Dimensions; -1 is a variable one; ``()`` is a scalar.
        optional: An input may be omitted; an output is returned only on request.
        any_number: An input accepts every datatype of NUMBERS; the model converts it.
        any_shape: An input also accepts other shapes; the model checks them.
    """

    name: str
    datatype: Datatype
    shape: tuple[int, ...]
    optional: bool = False
    any_number: bool = False
    any_shape: bool = False
