"""Maps GRPS's kinds of data to a model's tensors. Pure.

===========  ================================================================================
str_data     one BYTES input with one element
bin_data     the same; for a model with one numeric input, its little-endian bytes
gtensors     the inputs by name, or by position if none has a name
ndarray      one unnamed FP32 tensor
gmap         an input with one element for each entry: named by its key if the model declares
             inputs, otherwise by "<map>.<key>"
===========  ================================================================================

The response has the kind of the request if the outputs allow that, otherwise gtensors.

Source: GRPS interface, which leaves it to the server how texts, bytes and maps reach a model.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.codec.arrays import binary_data
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.grps.message import (
    MAP_DATATYPES,
    Blob,
    Data,
    NestedArray,
    Table,
    Tensors,
    Text,
)
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.inference import ModelMetadata
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

# The map for an output's datatype, if its name does not start with the name of a map.
_MAP_OF: Final[Mapping[Datatype, str]] = {
    Datatype.UINT8: "s_i32",
    Datatype.INT8: "s_i32",
    Datatype.INT16: "s_i32",
    Datatype.INT32: "s_i32",
    Datatype.INT64: "s_i64",
    Datatype.FP16: "s_f",
    Datatype.FP32: "s_f",
    Datatype.FP64: "s_d",
}


def inputs_of(data: Data, metadata: ModelMetadata) -> tuple[Tensor, ...]:
    """The model's inputs.

    Raises:
        InvalidRequest: No input of the model accepts the data.
    """
    match data:
        case Text(value):
            return (_element(value.encode(), "str_data", metadata),)
        case Blob(value):
            if not metadata.dynamic and [spec.datatype for spec in metadata.inputs] not in (
                [],
                [Datatype.BYTES],
            ):
                return (binary_data.decode_raw(value, metadata),)
            return (_element(value, "bin_data", metadata),)
        case Tensors(tensors):
            return _name(tensors, metadata)
        case NestedArray(array):
            return _name((Tensor("", Datatype.FP32, array),), metadata)
        case Table(maps):
            return _entries(maps, metadata)


def answer_of(outputs: Sequence[Tensor], request: Data) -> Data:
    """The data of the response.

    Raises:
        InvalidRequest: A text is not UTF-8.
        UnsupportedDatatype: GRPS does not support the datatype of an output.
    """
    carried = tuple(map(grps_tensors.carry, outputs))
    sizes = {tensor.array.size for tensor in carried}
    if isinstance(request, Text | Blob) and len(carried) == 1 and sizes == {1}:
        (tensor,) = carried
        if tensor.datatype is Datatype.BYTES:
            element: bytes = tensor.array.item()
            if isinstance(request, Blob):
                return Blob(element)
            return Text(_text(element, tensor.name))
    if isinstance(request, Table) and sizes <= {1}:
        return _table(carried)
    return Tensors(carried)


def nested_of(data: Data) -> NestedArray:
    """The response as ``ndarray``.

    Raises:
        InvalidRequest: It is not exactly one FP32 tensor.
    """
    if isinstance(data, Tensors) and [t.datatype for t in data.tensors] == [Datatype.FP32]:
        return NestedArray(data.tensors[0].array)
    raise InvalidRequest(
        "return-ndarray: the response is not exactly one DT_FLOAT32 tensor: send the "
        "request without it"
    )


def _element(value: bytes, name: str, metadata: ModelMetadata) -> Tensor:
    if metadata.dynamic:
        return Tensor(name, Datatype.BYTES, _filled(value, Datatype.BYTES, (1,)))
    if [spec.datatype for spec in metadata.inputs] != [Datatype.BYTES]:
        raise InvalidRequest(
            f"{name} requires a model with exactly one BYTES input, unlike '{metadata.name}': use "
            "gtensors"
        )
    (spec,) = metadata.inputs
    array = _filled(value, Datatype.BYTES, (1,) * len(spec.shape))
    return Tensor(spec.name, Datatype.BYTES, array)


def _name(tensors: tuple[Tensor, ...], metadata: ModelMetadata) -> tuple[Tensor, ...]:
    """The tensors with the names and datatypes of the model."""
    named = [bool(tensor.name) for tensor in tensors]
    if any(named) and not all(named):
        raise InvalidRequest("gtensors: only some tensors have a name: name all or none")
    if metadata.dynamic:
        # several tensors cannot share the empty name
        if all(named) or len(tensors) == 1:
            return tensors
        return tuple(
            Tensor(f"input{index}", tensor.datatype, tensor.array)
            for index, tensor in enumerate(tensors)
        )
    if not all(named):
        if len(tensors) > len(metadata.inputs):
            raise InvalidRequest(
                f"gtensors has {len(tensors)} tensors: model '{metadata.name}' has "
                f"{len(metadata.inputs)} inputs"
            )
        tensors = tuple(
            Tensor(spec.name, tensor.datatype, tensor.array)
            for tensor, spec in zip(tensors, metadata.inputs, strict=False)
        )
    wanted = {spec.name: spec.datatype for spec in metadata.inputs}
    return tuple(
        grps_tensors.restore(tensor, wanted.get(tensor.name, tensor.datatype))
        for tensor in tensors
    )


def _entries(maps: Mapping[str, Mapping[str, Any]], metadata: ModelMetadata) -> tuple[Tensor, ...]:
    ranks = {spec.name: len(spec.shape) for spec in metadata.inputs}
    tensors: list[Tensor] = []
    for name, entries in maps.items():
        datatype = MAP_DATATYPES[name]
        for key, value in entries.items():
            element = value.encode() if isinstance(value, str) else value
            array = _filled(element, datatype, (1,) * ranks.get(key, 1))
            tensors.append(Tensor(f"{name}.{key}" if metadata.dynamic else key, datatype, array))
    return tuple(tensors)


def _table(tensors: tuple[Tensor, ...]) -> Table:
    maps: dict[str, dict[str, Any]] = {}
    for tensor in tensors:
        name, key, value = _entry(tensor)
        maps.setdefault(name, {})[key] = value
    return Table(maps)


def _entry(tensor: Tensor) -> tuple[str, str, Any]:
    """Map, key and value of a tensor with one element."""
    value = tensor.array.item()
    prefix, dot, key = tensor.name.partition(".")
    if dot and MAP_DATATYPES.get(prefix) is tensor.datatype:
        return prefix, key, _text(value, tensor.name) if prefix == "s_s" else value
    if tensor.datatype is not Datatype.BYTES:
        return _MAP_OF[tensor.datatype], tensor.name, value
    try:
        return "s_s", tensor.name, value.decode()
    except UnicodeDecodeError:
        return "s_b", tensor.name, value


def _text(value: bytes, output: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"output '{output}' contains bytes that are not UTF-8: send the request as bin_data"
        ) from error


def _filled(value: Any, datatype: Datatype, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.empty(shape, NUMPY_DTYPE[datatype])
    array[...] = value
    return array
