"""The memory that a request holds while it runs or waits. Pure."""

from typing import Final

from moorage_runtime.values.inference import InferRequest
from moorage_runtime.values.tensors import Datatype

# Adding up the lengths of more strings takes long; these are taken for short ones.
_COUNTED_ELEMENTS: Final = 8 * 1024
_SHORT_BYTES: Final = 64


def size_of(request: InferRequest) -> int:
    """About the bytes that the request's tensors hold."""
    size = 0
    for tensor in request.inputs:
        size += tensor.array.nbytes
        if tensor.datatype is Datatype.BYTES:
            if tensor.array.size <= _COUNTED_ELEMENTS:
                size += sum(map(len, tensor.array.reshape(-1).tolist()))
            else:
                size += _SHORT_BYTES * tensor.array.size
    return size
