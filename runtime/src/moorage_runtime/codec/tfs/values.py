"""Converts a JSON value to an array by TensorFlow Serving's rules.

The shape is that of the nesting. A datatype accepts only its own kind of JSON value; the only
conversion is from a number to a float. Errors have the texts of TensorFlow Serving.

The nesting is flattened one level at a time, into one flat list per level. This needs no recursion
and no Python step per number, and the set of leaf types shows which kinds are present. Arrays own
their memory.
"""

import array as array_
import base64
import json
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, NoReturn

import numpy as np
from numpy.typing import NDArray

from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.codec.tfs.dtypes import FLOATS, INTEGERS, JSON_DATATYPES, short_name
from moorage_runtime.values.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype

# numpy's own limit on the number of dimensions.
_RANK_LIMIT: Final = 64
# Long enough to recognize the value, short enough for a log line.
_SHOWN_CHARACTERS: Final = 120
_TEXT: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "Null",
    dict: "Object",
    list: "Array",
    str: "String",
    int: "Number",
    float: "Number",
}
_LEAF_TYPES: Final[dict[Datatype, frozenset[type]]] = {
    **dict.fromkeys(FLOATS, frozenset({int, float})),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    Datatype.BOOL: frozenset({bool}),
    Datatype.BYTES: frozenset({str, dict}),
}


def decode_array(value: Any, datatype: Datatype) -> NDArray[Any]:
    """The array for a JSON value: ``[[1, 2]]`` gives shape (1, 2), ``5`` gives ().

    Raises:
        UnsupportedDatatype: The datatype has no JSON form.
        InvalidRequest: Ragged nesting, a value of another type or out of range, invalid base64.
    """
    if datatype not in JSON_DATATYPES:
        raise UnsupportedDatatype(
            f"Conversion of JSON Value: {show(value)} to type: {short_name(datatype)}"
        )
    if isinstance(value, NumberList):
        numbers = _numbers(value, datatype)
        if numbers is not None:
            return numbers
        value = value.tolist()
    shape: list[int] = []
    items: list[Any] = [value]
    types = set(map(type, items))
    while list in types:
        size = _common_size(items, types, level=len(shape))
        shape.append(size)
        items = list(chain.from_iterable(items))
        types = set(map(type, items))
    if not types <= _LEAF_TYPES[datatype]:
        _refuse_leaf(items, datatype)
    return _leaves(items, datatype).reshape(shape)


def _numbers(value: NumberList, datatype: Datatype) -> NDArray[Any] | None:
    """The array of a regular nesting of numbers of the datatype."""
    if value.shape is None or datatype not in FLOATS | INTEGERS:
        return None
    dtype = NUMPY_DTYPE[datatype]
    parts: list[NDArray[Any]] = []
    for piece in value.pieces:
        part = piece.floats(dtype) if datatype in FLOATS else piece.integers(dtype)
        if part is None:
            return None
        parts.append(part)
    return np.concatenate(parts).reshape(value.shape)


def is_base64_object(value: Any) -> bool:
    """Whether this is ``{"b64": "..."}``: exactly this key, with a string."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)  # pyright: ignore[reportUnknownArgumentType] # JSON


def decode_string(value: Any) -> bytes:
    """The bytes of a JSON string, or of a base64 object.

    Raises:
        InvalidRequest: It is neither of the two, or the base64 is invalid.
    """
    if isinstance(value, str):
        return value.encode()
    if not is_base64_object(value):
        raise InvalidRequest(f"JSON Value: {show(value)} not formatted correctly for base64 data")
    return _decode_base64(value["b64"])


def type_name(value: Any) -> str:
    """The JSON type, as named in TensorFlow Serving's error texts."""
    if isinstance(value, bool):
        return "True" if value else "False"
    return _TYPE_NAMES[type(value)]


def show(value: Any) -> str:
    """The value as JSON for an error text, shortened if it is long."""
    text = ""
    for piece in _spell(value):
        text += piece
        if len(text) > _SHOWN_CHARACTERS:
            return text[:_SHOWN_CHARACTERS] + "..."
    return text


def _spell(value: Any) -> Iterator[str]:
    """The JSON in pieces, built on demand."""
    if isinstance(value, dict):
        yield "{"
        for index, (key, member) in enumerate(value.items()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON
            yield f"{',' if index else ''}{_TEXT.encode(key)}:"
            yield from _spell(member)
        yield "}"
    elif isinstance(value, list | NumberList):
        yield "["
        for index, item in enumerate(value.elements() if isinstance(value, NumberList) else value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON
            yield "," if index else ""
            yield from _spell(item)
        yield "]"
    else:
        yield _TEXT.encode(value)


def _common_size(items: list[Any], types: set[type], level: int) -> int:
    if types != {list}:
        _refuse_mixture(items, level)
    sizes = set(map(len, items))
    if len(sizes) > 1:
        expected = len(items[0])
        odd = next(len(item) for item in items if len(item) != expected)
        raise InvalidRequest(
            f"Encountered list at unexpected size: {odd} at level: {level} "
            f"expected size: {expected}"
        )
    if level == _RANK_LIMIT:
        raise InvalidRequest(f"JSON lists are nested deeper than {_RANK_LIMIT} levels")
    return sizes.pop()


def _refuse_mixture(items: list[Any], level: int) -> NoReturn:
    """Report lists and values at the same level; the first item determines the expected kind."""
    if not isinstance(items[0], list):
        raise InvalidRequest(f"Encountered list at unexpected level: {level} expected < {level}")
    rank = level
    inner: Any = items[0]
    while isinstance(inner, list):
        rank += 1
        inner = inner[0] if inner else None
    odd = next(item for item in items if not isinstance(item, list))
    raise InvalidRequest(
        f"JSON Value: {show(odd)} found at incorrect level: {level + 1} in the JSON DOM. "
        f"Expected at level: {rank}"
    )


def _refuse_leaf(items: list[Any], datatype: Datatype) -> NoReturn:
    allowed = _LEAF_TYPES[datatype]
    _refuse_value(next(item for item in items if type(item) not in allowed), datatype)


def _refuse_value(value: Any, datatype: Datatype) -> NoReturn:
    raise InvalidRequest(
        f"JSON Value: {show(value)} Type: {type_name(value)} "
        f"is not of expected type: {short_name(datatype)}"
    )


def _leaves(items: list[Any], datatype: Datatype) -> NDArray[Any]:
    """A flat array of values whose types fit the datatype."""
    if datatype is Datatype.BYTES:
        return np.fromiter(map(decode_string, items), np.object_, len(items))
    if datatype in FLOATS:
        return _floats(items, datatype)
    try:
        return np.array(items, NUMPY_DTYPE[datatype])
    except OverflowError:
        limits = np.iinfo(NUMPY_DTYPE[datatype])
        _refuse_value(
            next(item for item in items if not limits.min <= item <= limits.max), datatype
        )


def _floats(items: list[Any], datatype: Datatype) -> NDArray[Any]:
    """Rounding and overflow to infinity without an error, as in TensorFlow Serving."""
    try:
        if datatype is Datatype.FP32:
            return np.frombuffer(array_.array("f", items), np.float32)
        array = np.array(items, np.float64)
    except OverflowError:
        array = np.array([_as_float(item) for item in items], np.float64)
    if datatype is Datatype.FP64:
        return array
    with np.errstate(over="ignore"):
        return array.astype(NUMPY_DTYPE[datatype])


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _decode_base64(text: str) -> bytes:
    """Standard alphabet; padding is optional, and whitespace is ignored."""
    compact = "".join(text.split())
    try:
        return base64.b64decode(
            compact if "=" in compact else compact + "=" * (-len(compact) % 4), validate=True
        )
    except ValueError as error:  # binascii.Error, or characters beyond ASCII
        raise InvalidRequest(f"Unable to base64 decode {show({'b64': text})}: {error}") from error
