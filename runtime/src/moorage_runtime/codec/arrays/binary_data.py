"""Tensor data of the binary tensor extension: little-endian bytes to arrays and back.

Grammar of one tensor's part of the body::

    part    = *element                 ; row-major, no stride, no padding
    element = native bytes             ; fixed-size datatypes; BOOL is one byte, non-zero is true
            / length bytes             ; BYTES: length is 4 bytes, unsigned

    raw     = part                     ; a raw request; its size gives the variable dimension
            / bytes                    ; raw BYTES: the element itself, without a length

Source: binary tensor data extension, "Binary Tensor Request", "Raw Binary Request". The gRPC field
raw_input_contents has the form of ``part`` too.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.codec.arrays.json_data import PIECE_ELEMENTS
from moorage_runtime.codec.json.text import Buffer
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

_LENGTH: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = 4


def decode_array(
    part: Buffer, datatype: Datatype, shape: tuple[int, ...], path: str
) -> NDArray[Any]:
    """The array for one tensor's bytes; it shares their memory if they are aligned.

    Args:
        part: Exactly the bytes of the tensor.
        datatype: Type of the elements.
        shape: Actual dimensions.
        path: Name of the tensor in messages.

    Raises:
        InvalidRequest: The number of bytes does not match the shape.
    """
    count = math.prod(shape)
    if datatype is Datatype.BYTES:
        return _decode_bytes(part, count, path).reshape(shape)
    dtype = NUMPY_DTYPE[datatype]
    if len(part) != count * dtype.itemsize:
        raise InvalidRequest(
            f"{path} has {len(part)} bytes of binary data: shape {list(shape)} of {datatype} "
            f"requires {count * dtype.itemsize}"
        )
    if datatype is Datatype.BOOL:
        return (np.frombuffer(part, np.uint8) != 0).reshape(shape)
    array = np.frombuffer(part, dtype).reshape(shape)
    return array if array.flags.aligned else array.copy()


def decode_raw(body: Buffer, metadata: ModelMetadata) -> Tensor:
    """The only input of a raw request; its shape follows from the model and the size of the body.

    Spec: "the model has exactly one input", "at most one variable-size dimension", "for BYTES the
    shape must be [1]"; a batching model runs with a batch of 1.

    Raises:
        InvalidRequest: The model does not allow raw requests, or the size does not match.
    """
    if len(metadata.inputs) != 1:
        raise InvalidRequest(
            f"a raw binary request requires a model with exactly one input: '{metadata.name}' has "
            f"{len(metadata.inputs)}"
        )
    spec = metadata.inputs[0]
    dims = spec.shape[1:] if metadata.batching else spec.shape
    path = f"input '{spec.name}'"
    if spec.datatype is Datatype.BYTES:
        if dims != (1,):
            raise InvalidRequest(
                f"{path} has shape {list(dims)}: a raw binary request of BYTES requires shape [1]"
            )
        array = np.empty(1, np.object_)
        array[0] = bytes(body)
    else:
        dims = _raw_dims(len(body), spec, dims)
        array = decode_array(body, spec.datatype, dims, path)
    return Tensor(spec.name, spec.datatype, array[np.newaxis] if metadata.batching else array)


def encode_array(tensor: Tensor) -> bytes | memoryview:
    """The tensor's bytes; the view shares the array's memory."""
    array = tensor.array
    if tensor.datatype is Datatype.BYTES:
        flat = array.ravel()
        # joining millions of short parts at once would block other threads for seconds
        starts = range(0, flat.size, PIECE_ELEMENTS)
        return b"".join([_encode_bytes(flat[at : at + PIECE_ELEMENTS]) for at in starts])
    if not array.size:
        return b""
    return array.ravel().data.cast("B")


def _encode_bytes(elements: NDArray[np.object_]) -> bytes:
    parts: list[bytes] = []
    for element in elements.tolist():
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def _raw_dims(size: int, spec: TensorSpec, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dimensions with the variable one resolved: 16 bytes for FP32 (-1, 2) give (2, 2)."""
    variable = dims.count(-1)
    if variable > 1:
        raise InvalidRequest(
            f"input '{spec.name}' has {variable} variable dimensions in {list(dims)}: a raw "
            "binary request allows one"
        )
    if not variable:
        return dims
    row = NUMPY_DTYPE[spec.datatype].itemsize * math.prod(dim for dim in dims if dim != -1)
    count, rest = divmod(size, row) if row else (0, size)
    if rest:
        raise InvalidRequest(
            f"input '{spec.name}' has {size} bytes: must be a multiple of {row}, the size of one "
            f"step of the variable dimension in {list(dims)}"
        )
    return tuple(count if dim == -1 else dim for dim in dims)


def _decode_bytes(part: Buffer, count: int, path: str) -> NDArray[Any]:
    # a generator lets other threads run between two elements
    array = np.fromiter(_read_bytes(part, path), np.object_)
    if array.size != count:
        raise InvalidRequest(
            f"{path} has {array.size} BYTES elements of binary data: its shape requires {count}"
        )
    return array


def _read_bytes(part: Buffer, path: str) -> Iterator[bytes]:
    view = memoryview(part)
    found = start = 0
    end = len(view)
    while start < end:
        body = start + _LENGTH_BYTES
        stop = body + _LENGTH.unpack_from(view, start)[0] if body <= end else body
        if stop > end:
            raise InvalidRequest(
                f"{path}: BYTES element {found} exceeds the {end} bytes of binary data"
            )
        yield bytes(view[body:stop])
        found += 1
        start = stop
