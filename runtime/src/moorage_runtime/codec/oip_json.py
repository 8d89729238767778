"""The ``data`` member of OIP tensors: nested JSON lists to arrays and arrays to flat JSON lists.

Source: OIP "Tensor Data" (row-major, natural or flattened form). What the specification leaves
to the server: any nesting is accepted whose elements add up to the shape, numbers are coerced
only where nothing is lost, floating point rounds to its type and overflows to infinity, and what
is not finite travels as the bare tokens NaN, Infinity and -Infinity.

A long list of numbers or of strings comes as a LongList, which has its elements as arrays already.
"""

import array
import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime import string_arrays
from moorage_runtime.codec import json_text
from moorage_runtime.codec.json_lists import LongList
from moorage_runtime.codec.number_list import NumberList
from moorage_runtime.codec.string_list import StringList
from moorage_runtime.errors import InvalidRequest
from moorage_runtime.tensors import NUMPY_DTYPE, Datatype, Tensor

_FLOATS: Final = frozenset({Datatype.FP16, Datatype.FP32, Datatype.FP64})
_INTEGERS: Final = frozenset(
    {
        Datatype.UINT8,
        Datatype.UINT16,
        Datatype.UINT32,
        Datatype.UINT64,
        Datatype.INT8,
        Datatype.INT16,
        Datatype.INT32,
        Datatype.INT64,
    }
)
_NUMBERS: Final = frozenset({int, float})
# Looking a member up on its enum costs as much as a small function, and these are needed often.
_BF16: Final = Datatype.BF16
_BYTES: Final = Datatype.BYTES
_FP16: Final = Datatype.FP16
_FP32: Final = Datatype.FP32
# Printing holds the interpreter; so many take a millisecond or two, and then others get a turn.
PIECE_ELEMENTS: Final = 32 * 1024
# The strict parser rounds integers below -2**63 to this float, so it proves no integer.
_INT64_FLOOR: Final = -(2.0**63)


def decode_array(data: Any, datatype: Datatype, shape: tuple[int, ...], path: str) -> NDArray[Any]:
    """The array that a JSON ``data`` member spells, of the given shape; it owns its memory.

    Args:
        data: The parsed JSON value.
        datatype: What the elements shall become.
        shape: Real dimensions; their product was checked to fit the memory's address range.
        path: Where ``data`` stands in the request, for messages.

    Raises:
        InvalidRequest: No array, another number of elements than the shape has, an element that
            the datatype cannot hold, or BF16, which has no JSON form here.
    """
    if datatype is Datatype.BF16:
        raise InvalidRequest(f"{path}: BF16 has no JSON form; use binary data")
    if type(data) is not list and not isinstance(data, LongList):
        raise InvalidRequest(f"{path}: {json_text.show(data)} is no array")
    converted = convert(data, datatype, shape)
    if converted is not None:
        return converted
    size = data.size if isinstance(data, LongList) else len(_flatten(data)[0])
    if size != math.prod(shape):
        raise InvalidRequest(
            f"{path}: {size} elements, but shape {list(shape)} has {math.prod(shape)}"
        )
    where, value = _first_unfit(data, datatype, path)
    raise InvalidRequest(f"{where}: {json_text.show(value)} is no {_EXPECTED[datatype]}")


def convert(data: Any, datatype: Datatype, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """As :func:`decode_array`, but None where that raises an error."""
    if type(data) is list and datatype is not _BF16:
        flat, types = data, set(map(type, data))
        if list in types:
            flat, types = _flatten(data)
        if len(flat) != math.prod(shape):
            return None
        converted = _convert(flat, types, datatype)
        return None if converted is None else converted.reshape(shape)
    if isinstance(data, NumberList):
        return _convert_numbers(data, datatype, shape)
    if isinstance(data, StringList):
        fits = datatype is _BYTES and data.size == math.prod(shape)
        return data.strings.reshape(shape) if fits and data.strings is not None else None
    return None


def encode_data(tensor: Tensor) -> NDArray[Any] | list[str]:
    """The elements in row-major order, in a form that orjson writes as a JSON list.

    FP16 becomes float64, which prints its exact value; the others print the shortest decimal
    that reads back as the same value. What is not finite is left for :func:`spell_nonfinite`.

    Raises:
        InvalidRequest: The elements have no JSON form: BF16, or bytes that are not UTF-8.
    """
    if tensor.datatype is _BF16:
        raise InvalidRequest(
            f"output '{tensor.name}' is BF16, which has no JSON form; request binary output "
            f"for '{tensor.name}'"
        )
    flat = tensor.array if tensor.array.ndim == 1 else tensor.array.reshape(-1)
    if tensor.datatype is _BYTES:
        try:
            return [str(element, "utf-8") for element in flat]
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"output '{tensor.name}' holds bytes that are not UTF-8; request binary output "
                f"for '{tensor.name}'"
            ) from error
    return flat.astype(np.float64) if tensor.datatype is _FP16 else flat


def encode_pieces(tensor: Tensor) -> list[bytes | memoryview]:
    """The JSON list of many elements in pieces, with the tokens for what is not finite.

    Raises:
        InvalidRequest: As :func:`encode_data`.
    """
    flat = tensor.array.reshape(-1)
    pieces: list[bytes | memoryview] = []
    separator = b"["
    for start in range(0, flat.size, PIECE_ELEMENTS):
        part = flat[start : start + PIECE_ELEMENTS]
        elements = encode_data(msgspec.structs.replace(tensor, array=part))
        text = orjson.dumps(spell_nonfinite(elements), option=orjson.OPT_SERIALIZE_NUMPY)
        pieces += (separator, memoryview(text)[1:-1])
        separator = b","
    pieces.append(b"]")
    return pieces


def spell_nonfinite(data: NDArray[Any] | list[str]) -> NDArray[Any] | list[str] | orjson.Fragment:
    """The same data, but with the bare tokens for elements that are not finite.

    orjson writes those as ``null``, which is no number.
    """
    if isinstance(data, list) or data.dtype.kind != "f":
        return data
    odd = data[~np.isfinite(data)]
    if not odd.size:
        return data
    text = orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)
    if np.isnan(odd).all():
        return orjson.Fragment(text.replace(b"null", b"NaN"))
    first, *rest = text.split(b"null")
    tokens = map(_token, odd.tolist())
    return orjson.Fragment(first + b"".join(chain.from_iterable(zip(tokens, rest, strict=True))))


def _token(number: float) -> bytes:
    if math.isnan(number):
        return b"NaN"
    return b"Infinity" if number > 0 else b"-Infinity"


def _flatten(data: list[Any]) -> tuple[list[Any], set[type]]:
    """All leaves in order and the set of their types; the parser has bounded the depth."""
    types = set(map(type, data))
    while list in types:
        if len(types) == 1:
            data = list(chain.from_iterable(data))
        else:
            data = list(chain.from_iterable(x if type(x) is list else (x,) for x in data))
        types = set(map(type, data))
    return data, types


def _convert_numbers(
    numbers: NumberList, datatype: Datatype, shape: tuple[int, ...]
) -> NDArray[Any] | None:
    if numbers.size != math.prod(shape):
        return None
    parts: list[NDArray[Any]] = []
    for piece in numbers.pieces:
        part = None
        if datatype in _FLOATS:
            part = piece.floats(NUMPY_DTYPE[datatype])
        elif datatype in _INTEGERS:
            part = piece.integers(NUMPY_DTYPE[datatype])
        if part is None:
            values = piece.read()
            part = _convert(values, set(map(type, values)), datatype)
        if part is None:
            return None
        parts.append(part)
    return np.concatenate(parts).reshape(shape)


def _convert(flat: list[Any], types: set[type], datatype: Datatype) -> NDArray[Any] | None:
    """The flat array, or None when an element does not fit the datatype."""
    if not types <= _PLAIN[datatype]:
        if not all(map(_FITS[datatype], flat)):
            return None
        flat = list(map(int, flat))
    if datatype is _BYTES:
        return _convert_strings(flat)
    dtype = NUMPY_DTYPE[datatype]
    try:
        if datatype is _FP32:  # it overflows to infinity without a word, unlike numpy
            return np.frombuffer(array.array("f", flat), dtype)
        with np.errstate(over="ignore"):  # overflow to infinity is what the protocol wants
            return np.array(flat, dtype)
    except OverflowError:
        if datatype in _FLOATS:  # an integer beyond float64; only the lenient parser gives it
            return np.array(list(map(_float_or_infinity, flat)), dtype)
        return None  # out of range: numpy does not wrap Python integers


def _float_or_infinity(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _convert_strings(flat: list[str]) -> NDArray[Any]:
    step = string_arrays.PIECE_ELEMENTS
    starts = range(0, len(flat), step)
    parts = ([element.encode() for element in flat[at : at + step]] for at in starts)
    return string_arrays.collect(parts, len(flat))


def _fits_integer(dtype: np.dtype[Any]) -> Callable[[Any], bool]:
    limits = np.iinfo(dtype)
    smallest, largest = int(limits.min), int(limits.max)

    def fits(value: Any) -> bool:
        if type(value) is float:
            return value.is_integer() and smallest <= value <= largest and value != _INT64_FLOOR
        return type(value) is int and smallest <= value <= largest

    return fits


def _fits_bool(value: Any) -> bool:
    return type(value) is bool or (type(value) is int and value in (0, 1))


def _fits_float(value: Any) -> bool:
    return type(value) in _NUMBERS


def _fits_bytes(value: Any) -> bool:
    return type(value) is str


def _expected_integer(datatype: Datatype) -> str:
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    return f"integer in {datatype}'s range from {limits.min} to {limits.max}"


_FITS: Final[dict[Datatype, Callable[[Any], bool]]] = {
    Datatype.BOOL: _fits_bool,
    Datatype.BYTES: _fits_bytes,
    **dict.fromkeys(_FLOATS, _fits_float),
    **{datatype: _fits_integer(NUMPY_DTYPE[datatype]) for datatype in _INTEGERS},
}
# What numpy converts without loss or guessing; anything else is looked at one by one.
_PLAIN: Final[dict[Datatype, frozenset[type]]] = {
    Datatype.BOOL: frozenset({bool}),
    Datatype.BYTES: frozenset({str}),
    **dict.fromkeys(_FLOATS, _NUMBERS),
    **dict.fromkeys(_INTEGERS, frozenset({int})),
}
_EXPECTED: Final[dict[Datatype, str]] = {
    Datatype.BOOL: "BOOL: expected true, false, 0 or 1",
    Datatype.BYTES: "string, as BYTES needs",
    **{datatype: f"number, as {datatype} needs" for datatype in _FLOATS},
    **{datatype: _expected_integer(datatype) for datatype in _INTEGERS},
}


def _first_unfit(data: list[Any] | LongList, datatype: Datatype, path: str) -> tuple[str, Any]:
    fits = _FITS[datatype]
    if isinstance(data, LongList):
        if data.shape is not None:
            index, unfit = next((i, x) for i, x in enumerate(data.leaves()) if not fits(x))
            places = np.unravel_index(index, data.shape)
            return path + "".join(f"[{place}]" for place in places), unfit
        data = data.tolist()
    return next((where, value) for where, value in _leaves(data, path) if not fits(value))


def _leaves(data: list[Any], path: str) -> Iterator[tuple[str, Any]]:
    for index, value in enumerate(data):
        if type(value) is list:
            yield from _leaves(value, f"{path}[{index}]")
        else:
            yield f"{path}[{index}]", value
