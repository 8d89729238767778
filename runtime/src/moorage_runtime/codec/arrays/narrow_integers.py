"""Integers of 8 and 16 bits in wider protobuf fields. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype

# Datatypes without a protobuf type of their own width.
NARROW: Final = frozenset({Datatype.UINT8, Datatype.UINT16, Datatype.INT8, Datatype.INT16})


def narrow(values: Sequence[int], datatype: Datatype, path: str) -> NDArray[Any]:
    """The values as a flat array of the datatype, which must be in NARROW.

    Raises:
        InvalidRequest: A value is out of range; it is never truncated.
    """
    wide = np.array(values)
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    outside = (wide < limits.min) | (wide > limits.max)
    if outside.any():
        index = int(outside.argmax())
        raise InvalidRequest(
            f"{path}[{index}]: {wide[index]} is invalid: must be from {limits.min} to "
            f"{limits.max}, the range of {datatype}"
        )
    return wide.astype(NUMPY_DTYPE[datatype])
