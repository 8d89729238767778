"""GrpsMessage as plain values, independent of JSON and protobuf. Pure.

::

    JSON  <-> json_form <-> Message <-> mapping <-> tensors of a model
    bytes <-> proto     <->

Source: GRPS interface, "unified payload".
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from numpy.typing import NDArray

from moorage_runtime.values.tensors import Datatype, Tensor


class Text(msgspec.Struct, frozen=True):
    """``str_data``."""

    value: str


class Blob(msgspec.Struct, frozen=True):
    """``bin_data``."""

    value: bytes


class Tensors(msgspec.Struct, frozen=True):
    """``gtensors``: tensors with a datatype in ``tensor_types.FIELDS``; "" is unnamed."""

    tensors: tuple[Tensor, ...]


class NestedArray(msgspec.Struct, frozen=True):
    """``ndarray``: one unnamed FP32 tensor, in JSON as nested lists."""

    array: NDArray[Any]


class Table(msgspec.Struct, frozen=True):
    """``gmap``: from the name of a map ("s_s") to its entries, with values of its type."""

    maps: Mapping[str, Mapping[str, Any]]


Data = Text | Blob | Tensors | NestedArray | Table


class Message(msgspec.Struct, frozen=True):
    """A request.

    Attributes:
        model: "name-version" or a name; "" without one.
        data: The data, or None.
    """

    model: str
    data: Data | None


class Status(msgspec.Struct, frozen=True):
    """The outcome of a call; every transport uses HTTP status codes."""

    code: int
    msg: str

    @property
    def flag(self) -> str:
        """Name of the protocol's StatusFlag."""
        return "SUCCESS" if self.code == 200 else "FAILURE"


OK: Final = Status(200, "OK")
# Type of the values of each map in gmap.
MAP_DATATYPES: Final[Mapping[str, Datatype]] = {
    "s_s": Datatype.BYTES,
    "s_b": Datatype.BYTES,
    "s_i32": Datatype.INT32,
    "s_i64": Datatype.INT64,
    "s_f": Datatype.FP32,
    "s_d": Datatype.FP64,
}


def size_bytes(data: Data) -> int:
    """The approximate size of the data's numbers and texts in bytes."""
    match data:
        case Text(value) | Blob(value):
            return len(value)
        case Tensors(tensors):
            return sum(tensor.array.nbytes for tensor in tensors)
        case NestedArray(array):
            return array.nbytes
        case Table(maps):
            return sum(map(len, maps.values()))
