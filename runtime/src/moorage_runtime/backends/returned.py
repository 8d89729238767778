"""Converts results of a model's own code to tensors.

Used by backends whose models are Python objects and may return anything that numpy converts.
"""

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from moorage_runtime.values.errors import ModelFailed
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

_DATATYPE_OF: Final = {
    dtype: datatype
    for datatype, dtype in NUMPY_DTYPE.items()
    if datatype not in (Datatype.BF16, Datatype.BYTES)
}


def tensor_of(name: str, value: object, declared: Datatype | None) -> Tensor:
    """An output as a tensor with its declared datatype, otherwise with the array's own.

    Raises:
        ModelFailed: The value has no datatype, or a different one from the declared one.
    """
    if isinstance(value, Tensor):
        # made by the model, so its array may not be that of its datatype
        fitting = tensor_of(name, value.array, value.datatype)
        return msgspec.structs.replace(fitting, parameters=value.parameters)
    array = _array(value, declared)
    datatype = declared or _DATATYPE_OF.get(array.dtype)
    if not array.size and declared is not None:
        # numpy makes an empty list an array of float64
        return Tensor(name, declared, np.empty(array.shape, NUMPY_DTYPE[declared]))
    if array.dtype.kind in "OSTU" and datatype in (None, Datatype.BYTES):
        return Tensor(name, Datatype.BYTES, _as_bytes(name, array))
    if datatype is None:
        raise ModelFailed(
            f"output '{name}' of the model has numpy type {array.dtype}, which has no datatype"
        )
    dtype = NUMPY_DTYPE[datatype]
    if array.dtype != dtype:
        if not np.can_cast(array.dtype, dtype, "same_kind") or datatype is Datatype.BYTES:
            raise ModelFailed(
                f"output '{name}' of the model has numpy type {array.dtype}: must be {datatype}"
            )
        _check_range(name, array, datatype)
        array = array.astype(dtype)
    return Tensor(name, datatype, np.ascontiguousarray(array).reshape(array.shape))


def _check_range(name: str, array: NDArray[Any], datatype: Datatype) -> None:
    """Refuse integers that the narrower type would truncate."""
    if array.dtype.kind not in "iu" or NUMPY_DTYPE[datatype].kind not in "iu" or not array.size:
        return
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    for value in (int(array.min()), int(array.max())):
        if not limits.min <= value <= limits.max:
            raise ModelFailed(
                f"output '{name}' of the model contains {value}: must be from {limits.min} to "
                f"{limits.max}, the range of {datatype}"
            )


def _array(value: object, declared: Datatype | None) -> NDArray[Any]:
    """The array of a model's result; lists of text become objects.

    numpy's own text types have a fixed size and drop NUL bytes at the end.
    """
    array = np.asarray(value)
    is_text = array.dtype.kind in "SU" and declared in (None, Datatype.BYTES)
    return np.asarray(value, np.object_) if is_text and array is not value else array


def _as_bytes(name: str, array: NDArray[Any]) -> NDArray[np.object_]:
    elements = (_element(name, element) for element in array.reshape(-1).tolist())
    return np.fromiter(elements, np.object_, array.size).reshape(array.shape)


def _element(name: str, element: object) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogateescape")
    if isinstance(element, bytes | bytearray):
        return bytes(element)
    raise ModelFailed(
        f"output '{name}' of the model contains {type(element).__name__}: must contain "
        "str or bytes"
    )
