"""The ``data`` member of OIP tensors: nested JSON lists to arrays, and arrays to flat JSON lists.

Source: OIP "Tensor Data" (row-major, natural or flattened form). What the specification leaves to
the server: any nesting with the number of elements of the shape is accepted, numbers are converted
only without loss, floats round to their type and overflow to infinity, and values that are not
finite are the bare tokens NaN, Infinity and -Infinity.

A long list of numbers is a NumberList, which already has its elements as arrays.
"""

import array
import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.number_list import NumberList
from moorage_runtime.values.errors import InvalidRequest
from moorage_runtime.values.tensors import NUMPY_DTYPE, Datatype, Tensor

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
# Accessing a member through its enum costs as much as a small function call.
_BF16: Final = Datatype.BF16
_BYTES: Final = Datatype.BYTES
_FP16: Final = Datatype.FP16
_FP32: Final = Datatype.FP32
# Encoding holds the interpreter lock; after this many elements, a millisecond or two, others run.
PIECE_ELEMENTS: Final = 32 * 1024
# The strict parser rounds integers below -2**63 to this float, so it is not a proven integer.
_INT64_FLOOR: Final = -(2.0**63)


def decode_array(data: Any, datatype: Datatype, shape: tuple[int, ...], path: str) -> NDArray[Any]:
    """The array for a JSON ``data`` member with the given shape; it owns its memory.

    Args:
        data: The parsed JSON value.
        datatype: Datatype of the elements.
        shape: Actual dimensions; their product is known to fit the address range.
        path: Path of ``data`` in the request, for messages.

    Raises:
        InvalidRequest: The value is not an array, its number of elements does not match the shape,
            an element is invalid for the datatype, or the datatype is BF16, which has no JSON
            form.
    """
    if datatype is _BF16:
        raise InvalidRequest(f"{path}: BF16 has no JSON form: use binary data")
    if type(data) is list:
        flat, types = _flatten(data)
        _check_size(len(flat), shape, path)
        converted = _convert(flat, types, datatype)
    elif isinstance(data, NumberList):
        _check_size(data.size, shape, path)
        converted = _convert_numbers(data, datatype)
    else:
        raise InvalidRequest(f"{path}: {json_text.show(data)} is invalid: must be an array")
    if converted is not None:
        return converted.reshape(shape)
    where, value = _first_unfit(data, datatype, path)
    raise InvalidRequest(
        f"{where}: {json_text.show(value)} is invalid: must be {_expected(datatype)}"
    )


def _check_size(size: int, shape: tuple[int, ...], path: str) -> None:
    if size != math.prod(shape):
        raise InvalidRequest(
            f"{path} has {size} elements: shape {list(shape)} requires {math.prod(shape)}"
        )


def encode_data(tensor: Tensor) -> NDArray[Any] | list[str]:
    """The elements in row-major order, in a form that orjson encodes as a JSON list.

    FP16 becomes float64, which is encoded exactly; other types are encoded as the shortest decimal
    that reads back as the same value. :func:`spell_nonfinite` handles values that are not finite.

    Raises:
        InvalidRequest: The elements have no JSON form: BF16, or bytes that are not UTF-8.
    """
    if tensor.datatype is _BF16:
        raise InvalidRequest(
            f"output '{tensor.name}' is BF16, which has no JSON form: request binary output"
        )
    flat = tensor.array.ravel()
    if tensor.datatype is _BYTES:
        try:
            return [element.decode() for element in flat]
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"output '{tensor.name}' contains bytes that are not UTF-8: request binary output"
            ) from error
    return flat.astype(np.float64) if tensor.datatype is _FP16 else flat


def encode_pieces(tensor: Tensor) -> list[bytes | memoryview]:
    """The JSON list of many elements in pieces, with tokens for values that are not finite.

    Raises:
        InvalidRequest: As :func:`encode_data`.
    """
    flat = tensor.array.ravel()
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
    """The same data, with bare tokens for elements that are not finite.

    orjson would encode them as ``null``, which is not a number.
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
    """All leaves in order, and the set of their types; the parser has limited the depth."""
    types = set(map(type, data))
    while types == {list}:
        data = list(chain.from_iterable(data))
        types = set(map(type, data))
    if list in types:  # lists mixed with other values; a pass per level would copy those each time
        data = list(_walk(data))
        types = set(map(type, data))
    return data, types


def _walk(data: list[Any]) -> Iterator[Any]:
    """The leaves in order, each visited once."""
    stack = [iter(data)]
    while stack:
        for value in stack[-1]:
            if type(value) is list:
                stack.append(iter(value))
                break
            yield value
        else:
            stack.pop()


def _convert_numbers(numbers: NumberList, datatype: Datatype) -> NDArray[Any] | None:
    """The flat array, or None if an element is invalid for the datatype."""
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
    return np.concatenate(parts)


def _convert(flat: list[Any], types: set[type], datatype: Datatype) -> NDArray[Any] | None:
    """The flat array, or None if an element is invalid for the datatype."""
    if not types <= _PLAIN[datatype]:
        if not all(map(_FITS[datatype], flat)):
            return None
        flat = list(map(int, flat))
    if datatype is _BYTES:
        # a generator, unlike map(), lets other threads run between two elements
        return np.fromiter((element.encode() for element in flat), np.object_, len(flat))
    dtype = NUMPY_DTYPE[datatype]
    try:
        if datatype is _FP32:  # it overflows to infinity without a warning, unlike numpy
            return np.frombuffer(array.array("f", flat), dtype)
        with np.errstate(over="ignore"):  # the protocol requires overflow to infinity
            return np.array(flat, dtype)
    except OverflowError:
        if datatype not in _FLOATS:
            return None  # out of range: numpy does not wrap Python integers
        # an integer beyond float64, which only the lenient parser returns
        return _convert(list(map(_float_or_infinity, flat)), {float}, datatype)


def _float_or_infinity(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _fits_integer(smallest: int, largest: int, value: Any) -> bool:
    if type(value) is float:
        return value.is_integer() and smallest <= value <= largest and value != _INT64_FLOOR
    return type(value) is int and smallest <= value <= largest


def _fits_bool(value: Any) -> bool:
    return type(value) is bool or (type(value) is int and value in (0, 1))


def _fits_float(value: Any) -> bool:
    return type(value) in _NUMBERS


def _fits_bytes(value: Any) -> bool:
    return type(value) is str


def _limits(datatype: Datatype) -> tuple[int, int]:
    limits = np.iinfo(NUMPY_DTYPE[datatype])
    return int(limits.min), int(limits.max)


def _expected(datatype: Datatype) -> str:
    if datatype is Datatype.BOOL:
        return "true, false, 0 or 1, as BOOL requires"
    if datatype is _BYTES:
        return "a string, as BYTES requires"
    if datatype in _FLOATS:
        return f"a number, as {datatype} requires"
    smallest, largest = _limits(datatype)
    return f"an integer from {smallest} to {largest}, the range of {datatype}"


_FITS: Final[dict[Datatype, Callable[[Any], bool]]] = {
    Datatype.BOOL: _fits_bool,
    Datatype.BYTES: _fits_bytes,
    **dict.fromkeys(_FLOATS, _fits_float),
    **{datatype: partial(_fits_integer, *_limits(datatype)) for datatype in _INTEGERS},
}
# Types that numpy converts without loss; other elements are checked one by one.
_PLAIN: Final[dict[Datatype, frozenset[type]]] = {
    Datatype.BOOL: frozenset({bool}),
    Datatype.BYTES: frozenset({str}),
    **dict.fromkeys(_FLOATS, _NUMBERS),
    **dict.fromkeys(_INTEGERS, frozenset({int})),
}


def _first_unfit(data: list[Any] | NumberList, datatype: Datatype, path: str) -> tuple[str, Any]:
    fits = _FITS[datatype]
    if isinstance(data, NumberList):
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
