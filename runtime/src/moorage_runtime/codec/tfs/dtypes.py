"""TensorFlow's names of tensor datatypes, and which of them its REST API supports.

Metadata contains ``DT_FLOAT``, error texts contain ``float``. A datatype outside JSON_DATATYPES
has a name for metadata, but no JSON form (TensorFlow Serving, "JSON mapping").
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from moorage_runtime.values.tensors import Datatype

DT_NAME: Final[Mapping[Datatype, str]] = MappingProxyType(
    {
        Datatype.BOOL: "DT_BOOL",
        Datatype.UINT8: "DT_UINT8",
        Datatype.UINT16: "DT_UINT16",
        Datatype.UINT32: "DT_UINT32",
        Datatype.UINT64: "DT_UINT64",
        Datatype.INT8: "DT_INT8",
        Datatype.INT16: "DT_INT16",
        Datatype.INT32: "DT_INT32",
        Datatype.INT64: "DT_INT64",
        Datatype.FP16: "DT_HALF",
        Datatype.BF16: "DT_BFLOAT16",
        Datatype.FP32: "DT_FLOAT",
        Datatype.FP64: "DT_DOUBLE",
        Datatype.BYTES: "DT_STRING",
    }
)

FLOATS: Final = frozenset({Datatype.FP32, Datatype.FP64})
INTEGERS: Final = frozenset(
    {
        Datatype.INT8,
        Datatype.UINT8,
        Datatype.INT16,
        Datatype.INT32,
        Datatype.UINT32,
        Datatype.INT64,
        Datatype.UINT64,
    }
)
JSON_DATATYPES: Final = FLOATS | INTEGERS | {Datatype.BOOL, Datatype.BYTES}


def short_name(datatype: Datatype) -> str:
    """TensorFlow's name in error texts: ``float`` for DT_FLOAT."""
    return DT_NAME[datatype].removeprefix("DT_").lower()
