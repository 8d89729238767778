"""The outermost layer of TensorFlow Serving's JSON: bytes to one object, numbers back to bytes.

What the protocols share is in ``json_text``; here is what TensorFlow Serving adds: its error
texts, exact integers, and its forms of numbers and binary strings.
"""

import base64
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime.codec import json_text
from moorage_runtime.codec.json_lists import LONG_BYTES
from moorage_runtime.codec.oip_json import PIECE_ELEMENTS
from moorage_runtime.codec.tfs_values import show
from moorage_runtime.errors import InvalidRequest

_NULL: Final = re.compile(rb"null")
_LONG_LISTS: Final = frozenset({"instances", "inputs"})


def parse_object(body: json_text.Buffer) -> dict[str, Any]:
    """The JSON object that a request body holds.

    A long list of numbers or strings under ``instances`` or ``inputs`` is a LongList.

    Raises:
        InvalidRequest: Not JSON, not UTF-8, text after the document, nested deeper than 100
            levels, or the document is no object.
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    try:
        document = _parse_exactly(text)
    except InvalidRequest as error:
        raise InvalidRequest(f"JSON Parse error: {error.message}") from error
    if not isinstance(document, dict):
        raise InvalidRequest(f"JSON Value: {show(document)} Is not object")
    return document


def parse_signature_name(document: dict[str, Any]) -> str:
    """The requested signature, "" for the default one.

    Raises:
        InvalidRequest: ``signature_name`` is there and no string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidRequest(
            f"JSON Value: {show(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def encode_numbers(array: NDArray[Any]) -> bytes:
    """Numbers or booleans as nested JSON lists; a rank-0 array as one value.

    A float is the shortest decimal that reads back as the same value of its datatype, with
    ``.0`` or an exponent; what is not finite is a bare token.

    Spec: "JSON value will be a number or one of the special token values - NaN, Infinity, and
    -Infinity" (TensorFlow Serving, "JSON mapping").
    """
    return _join(array, _encode_numbers)


def encode_strings(array: NDArray[Any], *, binary: bool) -> bytes:
    """Strings as nested JSON lists; a rank-0 array as one value.

    Args:
        array: Elements are ``bytes``.
        binary: Write every element as ``{"b64": ...}``.
    """
    convert = base64_object if binary else text_of

    def encode(part: NDArray[Any]) -> bytes:
        if not part.ndim:
            return orjson.dumps(convert(part.item()))
        values: Any = np.frompyfunc(convert, 1, 1)(part)
        return orjson.dumps(values.tolist())

    return _join(array, encode)


def text_of(element: bytes) -> str | dict[str, str]:
    """The element as text; a base64 object when it is no UTF-8.

    Spec: only names that end in ``_bytes`` are binary. We: an element that is no text is still
    sent, in the form that the API has for bytes, because the JSON must stay valid.
    """
    try:
        return element.decode()
    except UnicodeDecodeError:
        return base64_object(element)


def base64_object(element: bytes) -> dict[str, str]:
    """``{"b64": ...}``, standard alphabet with padding."""
    return {"b64": base64.b64encode(element).decode()}


def _join(array: NDArray[Any], encode: Callable[[NDArray[Any]], bytes]) -> bytes:
    """The JSON of the array, encoded so many elements at once as take a millisecond or two."""
    if array.size <= PIECE_ELEMENTS or not array.ndim:
        return encode(array)
    step = len(array) * PIECE_ELEMENTS // array.size
    if not step:  # one row is too much already
        return b"[%b]" % b",".join([_join(row, encode) for row in array])
    starts = range(0, len(array), step)
    return b"[%b]" % b",".join([encode(array[at : at + step])[1:-1] for at in starts])


def _encode_numbers(array: NDArray[Any]) -> bytes:
    # the serializer takes arrays of rank 1 and above, and numpy scalars
    value = np.ascontiguousarray(array) if array.ndim else array[()]
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    # "in" would first try whether the word is a number, and fail at length
    if text.find(b"null") < 0:
        return text
    odd = (_token(number) for number in array[~np.isfinite(array)].tolist())
    return _NULL.sub(lambda _: next(odd), text)


def _token(number: float) -> bytes:
    if np.isnan(number):
        return b"NaN"
    return b"Infinity" if number > 0 else b"-Infinity"


def _parse_exactly(text: bytes | bytearray) -> Any:
    """The value, with integers of any size whole: as a float, one beyond uint64 would pass."""
    if len(text) >= LONG_BYTES:
        return json_text.parse(text, _LONG_LISTS)
    if json_text.may_be_deep(text) and json_text.depth(text) > json_text.DEPTH_LIMIT:
        return json_text.parse(text)
    try:
        return msgspec.json.decode(text)
    except ValueError:
        return json_text.parse(text)
