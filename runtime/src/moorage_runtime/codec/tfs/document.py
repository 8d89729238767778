"""The outermost layer of TensorFlow Serving's JSON: bytes to one object, numbers back to bytes.

``json.text`` contains what the protocols share. This module adds TensorFlow Serving's error texts,
exact integers, and its forms of numbers and binary strings.
"""

import base64
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime.codec.arrays.json_data import PIECE_ELEMENTS
from moorage_runtime.codec.json import text as json_text
from moorage_runtime.codec.json.lists import LONG_BYTES
from moorage_runtime.codec.tfs.values import show
from moorage_runtime.codec.unpack import limits
from moorage_runtime.values.errors import InvalidRequest

_NULL: Final = re.compile(rb"null")
_LONG_LISTS: Final = frozenset({"instances", "inputs"})


def parse_object(body: json_text.Buffer) -> dict[str, Any]:
    """The JSON object of a request body.

    If the document's ``instances`` or ``inputs`` is a long list of numbers, it is a NumberList.

    Raises:
        InvalidRequest: The text is not JSON or not UTF-8, has more text after the document, is
            nested deeper than 100 levels, or the document is not an object.
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
        InvalidRequest: ``signature_name`` is not a string.
    """
    name = document.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidRequest(
            f"JSON Value: {show(document)} not formatted correctly. "
            "'signature_name' key must be a string value."
        )
    return name


def encode_numbers(array: NDArray[Any]) -> bytes:
    """Numbers or booleans as nested JSON lists; a rank-0 array is one value.

    A float is the shortest decimal that reads back as the same value of its datatype, with ``.0``
    or an exponent; values that are not finite are bare tokens.

    Spec: "JSON value will be a number or one of the special token values - NaN, Infinity, and
    -Infinity" (TensorFlow Serving, "JSON mapping").
    """
    return _join(array, _encode_numbers)


def encode_strings(array: NDArray[Any], *, binary: bool) -> bytes:
    """Strings as nested JSON lists; a rank-0 array is one value.

    Args:
        array: Elements are ``bytes``.
        binary: Encode every element as ``{"b64": ...}``.
    """
    convert = base64_object if binary else text_of

    def encode(part: NDArray[Any]) -> bytes:
        if not part.ndim:
            return orjson.dumps(convert(part.item()))
        values: Any = np.frompyfunc(convert, 1, 1)(part)
        return orjson.dumps(values.tolist())

    return _join(array, encode)


def text_of(element: bytes) -> str | dict[str, str]:
    """The element as text, or as a base64 object if it is not UTF-8.

    Spec: only names that end in ``_bytes`` are binary. We: an element that is not text is still
    sent, in the API's form for bytes, because the JSON must be valid.
    """
    try:
        return element.decode()
    except UnicodeDecodeError:
        return base64_object(element)


def base64_object(element: bytes) -> dict[str, str]:
    """``{"b64": ...}``, standard alphabet with padding."""
    return {"b64": base64.b64encode(element).decode()}


def _join(array: NDArray[Any], encode: Callable[[NDArray[Any]], bytes]) -> bytes:
    """The JSON of the array, encoded in steps of a millisecond or two."""
    if array.size <= PIECE_ELEMENTS or not array.ndim:
        return encode(array)
    step = len(array) * PIECE_ELEMENTS // array.size
    if not step:  # one row is already too large
        return b"[%b]" % b",".join([_join(row, encode) for row in array])
    starts = range(0, len(array), step)
    return b"[%b]" % b",".join([encode(array[at : at + step])[1:-1] for at in starts])


def _encode_numbers(array: NDArray[Any]) -> bytes:
    # the serializer takes arrays of rank 1 and above, and numpy scalars
    value = np.ascontiguousarray(array) if array.ndim else array[()]
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    # "in" would first try whether the word is a number, and slowly fail
    if text.find(b"null") < 0:
        return text
    odd = (_token(number) for number in array[~np.isfinite(array)].tolist())
    return _NULL.sub(lambda _: next(odd), text)


def _token(number: float) -> bytes:
    if np.isnan(number):
        return b"NaN"
    return b"Infinity" if number > 0 else b"-Infinity"


def _parse_exactly(text: bytes | bytearray) -> Any:
    """The value, with exact integers: as a float, an integer beyond uint64 would be accepted."""
    if len(text) >= LONG_BYTES:
        # the inputs of a model may have these names too
        return json_text.parse(text, _LONG_LISTS, nested=False)
    if json_text.may_be_deep(text) and json_text.depth(text) > limits.JSON_DEPTH:
        return json_text.parse(text)
    try:
        return msgspec.json.decode(text)
    except ValueError:
        return json_text.parse(text)
