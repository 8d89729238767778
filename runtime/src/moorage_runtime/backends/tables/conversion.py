"""Converts the numbers of a request to the datatype of an input. Pure.

A float may be rounded, as libraries do. An integer is never altered: a fraction, NaN, or a number
out of range is refused, because the model would answer for another number.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor


def converted(tensor: Tensor, datatype: Datatype) -> NDArray[Any]:
    """The array of a tensor of numbers, in this datatype.

    Raises:
        InvalidRequest: A number is not one of the datatype's integers or booleans.
    """
    array = tensor.array
    dtype = NUMPY_DTYPE[datatype]
    if array.dtype == dtype:
        return array
    if dtype.kind == "f":
        # a number that is too large for FP32 becomes infinite, as in the libraries
        with np.errstate(over="ignore"):
            return array.astype(dtype)
    unfit = array[~_fits(array, dtype)]
    if unfit.size:
        raise InvalidRequest(
            f"input '{tensor.name}' contains {unfit[0].item()}: must be {_expected(datatype)}"
        )
    return array.astype(dtype)


def _fits(array: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.bool_]:
    """Which elements keep their value as a boolean or an integer of this type."""
    if dtype.kind == "b":
        return (array == 0) | (array == 1)
    limits = np.iinfo(dtype)
    if array.dtype.kind != "f":
        return (array >= limits.min) & (array <= limits.max)
    # limits.max + 1 is a power of two, so it is exact, unlike limits.max
    wide = array.astype(np.float64)
    return (np.trunc(wide) == wide) & (wide >= limits.min) & (wide < limits.max + 1)


def _expected(datatype: Datatype) -> str:
    if datatype is Datatype.BOOL:
        return f"true, false, 0 or 1, as {datatype} requires"
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    return f"an integer from {limits.min} to {limits.max}, the range of {datatype}"
