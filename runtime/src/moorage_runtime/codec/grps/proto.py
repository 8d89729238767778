"""GRPS's protobuf messages: bytes to :class:`Message`, and responses to bytes. Pure.

Source: GRPS interface, "RPC interface". ``ndarray`` is an empty message there and has no content,
so it is refused.
"""

import math
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from moorage_runtime.codec._generated import grps_pb2 as pb
from moorage_runtime.codec.arrays import shapes
from moorage_runtime.codec.arrays.narrow_integers import NARROW, narrow
from moorage_runtime.codec.grps import tensor_types as grps_tensors
from moorage_runtime.codec.grps.message import (
    MAP_DATATYPES,
    Blob,
    Data,
    Message,
    NestedArray,
    Status,
    Table,
    Tensors,
    Text,
)
from moorage_runtime.codec.unpack import protobuf
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor


def parse(data: bytes | memoryview) -> pb.GrpsMessage:
    """Parse a message.

    Raises:
        InvalidRequest: The bytes are not a GrpsMessage.
        PayloadTooLarge: It has too many fields.
    """
    protobuf.check(data, pb.GrpsMessage)
    try:
        return pb.GrpsMessage.FromString(bytes(data))
    except DecodeError as error:
        raise InvalidRequest(
            f"the {len(data)} received bytes are not a valid grps.protos.v1.GrpsMessage"
        ) from error


def parse_small(data: bytes | memoryview) -> pb.GrpsMessage:
    """Parse a message that contains at most a name.

    Raises:
        InvalidRequest: As :func:`parse`.
        PayloadTooLarge: It is too large for such a message.
    """
    protobuf.check_small(data, pb.GrpsMessage)
    return parse(data)


def is_quick(data: bytes | memoryview) -> bool:
    """Whether reading the message takes at most about a millisecond."""
    return protobuf.is_quick(data, pb.GrpsMessage)


def decode(message: pb.GrpsMessage) -> Message:
    """The values of a message.

    Raises:
        InvalidRequest: ``ndarray``, or an invalid tensor.
    """
    data: Data | None
    match message.WhichOneof("data_oneof"):
        case None:
            data = None
        case "bin_data":
            data = Blob(message.bin_data)
        case "str_data":
            data = Text(message.str_data)
        case "gtensors":
            data = Tensors(
                tuple(
                    _decode_tensor(item, f"gtensors.tensors[{index}]")
                    for index, item in enumerate(message.gtensors.tensors)
                )
            )
        case "ndarray":
            raise InvalidRequest("ndarray is supported only in JSON: use gtensors")
        case _:
            maps = {name: dict(getattr(message.gmap, name)) for name in MAP_DATATYPES}
            data = Table({name: entries for name, entries in maps.items() if entries})
    return Message(message.model, data)


def encode(status: Status, data: Data | None) -> bytes:
    """Encode a response.

    Raises:
        InvalidRequest: A string is not UTF-8.
    """
    message = pb.GrpsMessage(
        status=pb.Status(code=status.code, msg=status.msg, status=status.flag)
    )
    match data:
        case None:
            pass
        case Text(value):
            message.str_data = value
        case Blob(value):
            message.bin_data = value
        case Tensors(tensors):
            message.gtensors.SetInParent()
            message.gtensors.tensors.extend(map(_encode_tensor, tensors))
        case NestedArray():
            raise InvalidRequest("ndarray is supported only in JSON")
        case Table(maps):
            message.gmap.SetInParent()
            for name, entries in maps.items():
                getattr(message.gmap, name).update(entries)
    return message.SerializeToString()


def _decode_tensor(item: pb.GenericTensor, path: str) -> Tensor:
    datatype = grps_tensors.DATATYPE_OF.get(int(item.dtype))
    if datatype is None:
        raise InvalidRequest(
            f"{path}.dtype: {item.dtype} is invalid: must be the number of one of "
            f"{', '.join(grps_tensors.NAMES.values())}"
        )
    field = grps_tensors.FIELDS[datatype]
    for descriptor, _ in item.ListFields():
        if descriptor.name.startswith("flat_") and descriptor.name != field:
            raise InvalidRequest(
                f"{path}.{descriptor.name} has values: {grps_tensors.NAMES[datatype]} requires "
                f"{field}"
            )
    shape = shapes.check(item.shape, f"{path}.shape")
    values = getattr(item, field)
    count = math.prod(shape)
    if len(values) != count:
        raise InvalidRequest(
            f"{path}.{field} has {len(values)} elements: shape {list(shape)} requires {count}"
        )
    return Tensor(
        item.name, datatype, _convert(values, datatype, f"{path}.{field}").reshape(shape)
    )


def _convert(values: Any, datatype: Datatype, path: str) -> Any:
    if datatype is Datatype.BYTES:
        array = np.empty(len(values), np.object_)
        array[:] = [value.encode() for value in values]
        return array
    if datatype in NARROW:
        return narrow(values, datatype, path)
    with np.errstate(over="ignore"):  # FP16 overflows to infinity
        return np.array(values, NUMPY_DTYPE[datatype])


def _encode_tensor(tensor: Tensor) -> pb.GenericTensor:
    item = pb.GenericTensor(
        name=tensor.name, dtype=grps_tensors.NAMES[tensor.datatype], shape=tensor.array.shape
    )
    if tensor.datatype is Datatype.BYTES:
        elements = grps_tensors.texts(tensor)
    else:
        elements = tensor.array.ravel().tolist()
    getattr(item, grps_tensors.FIELDS[tensor.datatype]).extend(elements)
    return item
