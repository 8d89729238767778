"""What a model's own code returned, as tensors; and what it raised, as a fault.

For the backends whose models are Python objects: they return whatever numpy makes an array of.
"""

import logging
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime import string_arrays
from moorage_runtime.errors import ModelFailed, RuntimeFault
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor

log = logging.getLogger(__name__)

_DATATYPE_OF: Final = {
    dtype: datatype
    for datatype, dtype in NUMPY_DTYPE.items()
    if datatype not in (Datatype.BF16, Datatype.BYTES)
}


def tensor_of(name: str, value: object, declared: Datatype | None) -> Tensor:
    """An output as a tensor of its declared datatype, else of the array's own.

    Raises:
        ModelFailed: The value has no datatype, or another than the declared one.
    """
    if isinstance(value, Tensor):
        return Tensor(name, value.datatype, value.array, value.parameters)
    array = _array(value, declared)
    datatype = declared or _DATATYPE_OF.get(array.dtype)
    if array.dtype.kind in "OSU" and datatype in (None, Datatype.BYTES):
        return Tensor(name, Datatype.BYTES, _as_bytes(name, array))
    if datatype is None:
        raise ModelFailed(
            f"output '{name}' of the model is an array of {array.dtype}, which has no datatype"
        )
    dtype = NUMPY_DTYPE[datatype]
    if array.dtype != dtype:
        if not np.can_cast(array.dtype, dtype, "same_kind") or datatype is Datatype.BYTES:
            raise ModelFailed(
                f"output '{name}' of the model is an array of {array.dtype}, expected {datatype}"
            )
        array = array.astype(dtype)
    return Tensor(name, datatype, np.ascontiguousarray(array).reshape(array.shape))


def fault_of(error: Exception) -> RuntimeFault:
    """The error itself when it is meant for the client, else the model's failure; logged."""
    if isinstance(error, RuntimeFault):
        return error
    log.error("the model's own code failed", exc_info=error)
    return ModelFailed(f"the model failed: {sentence_of(error)}")


def sentence_of(error: Exception) -> str:
    """The kind of an error and the first line of its text, for clients: no trace."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:500]}" if lines else type(error).__name__


def _array(value: object, declared: Datatype | None) -> NDArray[Any]:
    """The array of what a model returned; lists of text become objects.

    numpy's own types for text have a fixed size, which drops NUL bytes at the end.
    """
    array = np.asarray(value)
    is_text = array.dtype.kind in "SU" and declared in (None, Datatype.BYTES)
    return np.asarray(value, np.object_) if is_text and array is not value else array


def _as_bytes(name: str, array: NDArray[Any]) -> NDArray[np.object_]:
    parts = (
        [_element(name, element) for element in piece] for piece in string_arrays.pieces(array)
    )
    return string_arrays.collect(parts, array.size).reshape(array.shape)


def _element(name: str, element: object) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogateescape")
    if isinstance(element, bytes | bytearray):
        return bytes(element)
    raise ModelFailed(
        f"output '{name}' of the model holds {type(element).__name__}, expected str or bytes"
    )
