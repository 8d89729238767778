"""Integers of 8 and 16 bits out of the wider protobuf fields that they travel in. Pure."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.errors import InvalidRequest
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype

# Datatypes that have no protobuf type of their own width.
NARROW: Final = frozenset({Datatype.UINT8, Datatype.UINT16, Datatype.INT8, Datatype.INT16})


def narrow(values: Sequence[int], datatype: Datatype, path: str) -> NDArray[Any]:
    """The values as a flat array of the datatype, which is one of NARROW.

    Raises:
        InvalidRequest: A value is outside the datatype's range; it is never cut off.
    """
    wide = np.array(values, np.int64)
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    outside = (wide < limits.min) | (wide > limits.max)
    if outside.any():
        index = int(outside.argmax())
        raise InvalidRequest(
            f"{path}[{index}]: {wide[index]} is outside {datatype}'s range from {limits.min} to "
            f"{limits.max}"
        )
    return wide.astype(NUMPY_DTYPE[datatype])
