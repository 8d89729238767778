"""A JSON value becomes an array, by TensorFlow Serving's rules.

The shape is that of the nesting, and a datatype takes only its own kind of JSON value: nothing is
coerced but a number to a float. Errors carry the real server's texts.

The nesting is taken apart one level at a time, each level as one flat list: no recursion, no
Python step for each number, and the set of leaf types tells exactly what is there. Arrays own
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

from moorage_runtime import string_arrays
from moorage_runtime.codec.json_lists import LongList
from moorage_runtime.codec.number_list import NumberList
from moorage_runtime.codec.string_list import StringList
from moorage_runtime.codec.tfs_dtypes import FLOATS, INTEGERS, JSON_DATATYPES, short_name
from moorage_runtime.errors import InvalidRequest, UnsupportedDatatype
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype

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
    """The array that a JSON value spells: ``[[1, 2]]`` gives shape (1, 2), ``5`` gives ().

    Raises:
        UnsupportedDatatype: The REST API has no JSON form for the datatype.
        InvalidRequest: Ragged nesting, a value of another type or out of range, bad base64.
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
    elif isinstance(value, StringList):
        if value.strings is not None and datatype is Datatype.BYTES:
            return value.strings.reshape(value.shape)
        if value.strings is not None:
            _refuse_leaf([next(value.leaves())], datatype)
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
    """The array of a regular nesting of the datatype's own numbers."""
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
    """Whether this is ``{"b64": "..."}``: exactly that one key, with a string."""
    return isinstance(value, dict) and len(value) == 1 and isinstance(value.get("b64"), str)  # pyright: ignore[reportUnknownArgumentType] # JSON


def decode_string(value: Any) -> bytes:
    """The bytes of a JSON string, or of a base64 object.

    Raises:
        InvalidRequest: Neither of the two, or the base64 is invalid.
    """
    if isinstance(value, str):
        return value.encode()
    if not is_base64_object(value):
        raise InvalidRequest(f"JSON Value: {show(value)} not formatted correctly for base64 data")
    return _decode_base64(value["b64"])


def type_name(value: Any) -> str:
    """The JSON type as the real server's error texts call it."""
    if isinstance(value, bool):
        return "True" if value else "False"
    return _TYPE_NAMES[type(value)]


def show(value: Any) -> str:
    """The value as JSON for an error text, cut when long."""
    text = ""
    for piece in _spell(value):
        text += piece
        if len(text) > _SHOWN_CHARACTERS:
            return text[:_SHOWN_CHARACTERS] + "..."
    return text


def _spell(value: Any) -> Iterator[str]:
    """The JSON in pieces, no more of it than is asked for."""
    if isinstance(value, dict):
        yield "{"
        for index, (key, member) in enumerate(value.items()):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON
            yield f"{',' if index else ''}{_TEXT.encode(key)}:"
            yield from _spell(member)
        yield "}"
    elif isinstance(value, list | LongList):
        yield "["
        for index, item in enumerate(value.elements() if isinstance(value, LongList) else value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # JSON
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
    """Lists and values side by side; the first item says which of them was expected."""
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
        step = string_arrays.PIECE_ELEMENTS
        starts = range(0, len(items), step)
        parts = (list(map(decode_string, items[at : at + step])) for at in starts)
        return string_arrays.collect(parts, len(items))
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
    """Silent rounding, and infinity for what is too large, as the real server does."""
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
    """Standard alphabet; padding may be left out and white space may be anywhere."""
    compact = "".join(text.split())
    try:
        return base64.b64decode(
            compact if "=" in compact else compact + "=" * (-len(compact) % 4), validate=True
        )
    except ValueError as error:  # binascii.Error, or characters beyond ASCII
        raise InvalidRequest(f"Unable to base64 decode {show({'b64': text})}: {error}") from error
