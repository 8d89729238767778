"""The signature in an MLmodel file: names and types of inputs and outputs as tensors.

A signature lists columns, which have names and types, or tensors, which have a dtype and a shape.
Pure. Source: MLflow, "Model Signatures" and mlflow/types/schema.py.
"""

import json
from typing import Any, Final, cast

from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.tensors import Datatype, TensorSpec

_OF_TYPE: Final = {
    "boolean": Datatype.BOOL,
    "integer": Datatype.INT32,
    "long": Datatype.INT64,
    "float": Datatype.FP32,
    "double": Datatype.FP64,
    "string": Datatype.BYTES,
    "binary": Datatype.BYTES,
}
_OF_DTYPE: Final = {
    "bool": Datatype.BOOL,
    "uint8": Datatype.UINT8,
    "uint16": Datatype.UINT16,
    "uint32": Datatype.UINT32,
    "uint64": Datatype.UINT64,
    "int8": Datatype.INT8,
    "int16": Datatype.INT16,
    "int32": Datatype.INT32,
    "int64": Datatype.INT64,
    "float16": Datatype.FP16,
    "float32": Datatype.FP32,
    "float64": Datatype.FP64,
    "str": Datatype.BYTES,
    "object": Datatype.BYTES,
}


def specs_of(signature: Any, side: str, unnamed: str) -> tuple[TensorSpec, ...] | None:
    """One side of a signature as tensors; None if the signature does not have it.

    Args:
        signature: The value of ``signature`` in the MLmodel file.
        side: "inputs" or "outputs".
        unnamed: Name for a tensor without one.

    Raises:
        InvalidConfig: A field is invalid or has a type without a datatype; the message names it.
    """
    field = f"MLmodel: signature.{side}"
    text = _mapping(signature, "MLmodel: signature").get(side)
    if text is None:
        return None
    try:
        items: Any = json.loads(text) if isinstance(text, str) else text
    except ValueError as error:
        raise InvalidConfig(f"{field} is not valid JSON: {error}") from error
    if not isinstance(items, list):
        raise InvalidConfig(f"{field} is invalid: must be a list of columns or tensors")
    listed = cast("list[Any]", items)
    return tuple(
        _spec(_mapping(item, f"{field}[{index}]"), f"{field}[{index}]", unnamed)
        for index, item in enumerate(listed)
    )


def _spec(item: dict[str, Any], field: str, unnamed: str) -> TensorSpec:
    # the columns of a data frame without names are called 0, 1, ...
    given = item.get("name")
    name = unnamed if given is None or given == "" else str(given)
    kind = item.get("type")
    if kind == "tensor":
        tensor = _mapping(item.get("tensor-spec"), f"{field}.tensor-spec")
        dtype, shape = tensor.get("dtype"), tensor.get("shape")
        if not isinstance(dtype, str) or dtype not in _OF_DTYPE:
            raise InvalidConfig(
                f"{field}.tensor-spec.dtype is {dtype!r:.40}: must be one of "
                f"{', '.join(_OF_DTYPE)}"
            )
        if not _is_shape(shape):
            raise InvalidConfig(
                f"{field}.tensor-spec.shape is {shape!r:.60}: must be a list of sizes, -1 for any"
            )
        return TensorSpec(name, _OF_DTYPE[dtype], tuple(cast("list[int]", shape)))
    if not isinstance(kind, str) or kind not in _OF_TYPE:
        raise InvalidConfig(
            f"{field}.type is {kind!r:.40} for column '{name}': must be tensor or one of "
            f"{', '.join(_OF_TYPE)}"
        )
    return TensorSpec(name, _OF_TYPE[kind], (-1,))


def _is_shape(shape: Any) -> bool:
    if not isinstance(shape, list):
        return False
    sizes = cast("list[Any]", shape)
    return all(type(size) is int and size >= -1 for size in sizes)


def _mapping(value: Any, field: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidConfig(f"{field} is {value!r:.40}: must be a mapping")
    return cast("dict[str, Any]", value)
