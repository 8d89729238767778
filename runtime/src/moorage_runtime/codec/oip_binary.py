"""The binary tensor extension's tensor data: little-endian bytes to arrays and back.

Grammar of one tensor's part of the body::

    part    = *element                 ; row-major, no stride, no padding
    element = native bytes             ; fixed-size datatypes, BOOL one byte, any non-zero is true
            / length bytes             ; BYTES: length is 4 bytes, unsigned

    raw     = part                     ; a raw request, where the size gives the variable dimension
            / bytes                    ; raw BYTES: the element itself, without a length

Source: binary tensor data extension, "Binary Tensor Request", "Raw Binary Request".
The gRPC field raw_input_contents has the form of ``part`` too.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime import string_arrays
from moorage_runtime.codec.json_text import Buffer
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.inference import ModelMetadata
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor, TensorSpec

_LENGTH: Final = struct.Struct("<I")
_LENGTH_BYTES: Final = 4


def decode_array(
    part: Buffer, datatype: Datatype, shape: tuple[int, ...], path: str
) -> NDArray[Any]:
    """The array that one tensor's bytes hold; it shares their memory where alignment allows.

    Args:
        part: All bytes of the tensor and no others.
        datatype: Type of the elements.
        shape: Real dimensions.
        path: Which tensor it is, for messages.

    Raises:
        InvalidRequest: The bytes are more or fewer than the shape needs.
    """
    count = math.prod(shape)
    if datatype is Datatype.BYTES:
        return _decode_bytes(part, count, path).reshape(shape)
    dtype = NUMPY_DTYPE[datatype]
    if len(part) != count * dtype.itemsize:
        raise InvalidRequest(
            f"{path}: {len(part)} bytes of binary data, but shape {list(shape)} of {datatype} "
            f"needs {count * dtype.itemsize}"
        )
    if datatype is Datatype.BOOL:
        return (np.frombuffer(part, np.uint8) != 0).reshape(shape)
    array = np.frombuffer(part, dtype).reshape(shape)
    return array if array.flags.aligned else array.copy()


def decode_raw(body: Buffer, metadata: ModelMetadata) -> Tensor:
    """The one input of a raw request, whose shape follows from the model and the body's size.

    Spec: "the model has exactly one input", "at most one variable-size dimension", "for BYTES
    the shape must be [1]"; a batching model runs as batch 1.

    Raises:
        InvalidRequest: The model does not allow raw requests, or the size does not fit.
    """
    if len(metadata.inputs) != 1:
        raise InvalidRequest(
            f"a raw binary request needs a model with exactly one input; '{metadata.name}' has "
            f"{len(metadata.inputs)}"
        )
    spec = metadata.inputs[0]
    dims = spec.shape[1:] if metadata.batching else spec.shape
    path = f"input '{spec.name}'"
    if spec.datatype is Datatype.BYTES:
        if dims != (1,):
            raise InvalidRequest(
                f"{path} has shape {list(dims)}; a raw binary request of BYTES needs shape [1]"
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
        return b"".join(map(_encode_bytes, string_arrays.pieces(array)))
    if not array.size:
        return b""
    return np.ascontiguousarray(array).reshape(-1).data.cast("B")


def _encode_bytes(elements: list[bytes]) -> bytes:
    parts: list[bytes] = []
    for element in elements:
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def _raw_dims(size: int, spec: TensorSpec, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The dims with the variable one filled in: 16 bytes for FP32 (-1, 2) give (2, 2)."""
    variable = dims.count(-1)
    if variable > 1:
        raise InvalidRequest(
            f"input '{spec.name}' has {variable} variable dimensions in {list(dims)}; a raw "
            "binary request allows one"
        )
    if not variable:
        return dims
    row = NUMPY_DTYPE[spec.datatype].itemsize * math.prod(dim for dim in dims if dim != -1)
    count, rest = divmod(size, row) if row else (0, size)
    if rest:
        raise InvalidRequest(
            f"input '{spec.name}': {size} bytes are no multiple of the {row} bytes that one "
            f"step of its variable dimension in {list(dims)} takes"
        )
    return tuple(count if dim == -1 else dim for dim in dims)


def _decode_bytes(part: Buffer, count: int, path: str) -> NDArray[Any]:
    found = 0
    pieces: list[list[bytes]] = []
    for piece in _read_bytes(part, path):
        found += len(piece)
        pieces.append(piece)
    if found != count:
        raise InvalidRequest(
            f"{path}: {found} BYTES elements of binary data, but the shape has {count}"
        )
    return string_arrays.collect(pieces, count)


def _read_bytes(part: Buffer, path: str) -> Iterator[list[bytes]]:
    """The elements, some thousand at a time."""
    view = memoryview(part)
    elements: list[bytes] = []
    found = start = 0
    end = len(view)
    while start < end:
        body = start + _LENGTH_BYTES
        stop = body + _LENGTH.unpack_from(view, start)[0] if body <= end else body
        if stop > end:
            raise InvalidRequest(
                f"{path}: BYTES element {found + len(elements)} runs over the end of the {end} "
                "bytes of binary data"
            )
        elements.append(bytes(view[body:stop]))
        start = stop
        if len(elements) == string_arrays.PIECE_ELEMENTS:
            found += len(elements)
            yield elements
            elements = []
    yield elements
