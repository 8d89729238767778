"""The outermost layer of TensorFlow Serving's JSON: bytes to one object, numbers back to bytes.

A strict parser reads nearly every body. When it refuses one, the lenient parser decides: it takes
the tokens NaN, Infinity and -Infinity (which JSON does not have and this API does), a byte order
mark, and numbers beyond float64, which it reads as infinite.
"""

import base64
import json
import re
from typing import Any, Final

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from moorage_runtime.codec.tfs_values import show
from moorage_runtime.errors import InvalidRequest

Buffer = bytes | bytearray | memoryview

# More than any tensor needs; far from where a parser or Python's own stack gives up.
_DEPTH_LIMIT: Final = 100
_TO_SQUARE: Final = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NULL: Final = re.compile(rb"null")


def parse_object(body: Buffer) -> dict[str, Any]:
    """The JSON object that a request body holds.

    Raises:
        InvalidRequest: Not JSON, not UTF-8, text after the document, nested deeper than 100
            levels, or the document is no object.
    """
    text = bytes(body) if isinstance(body, memoryview) else body
    if not text:
        raise InvalidRequest("JSON Parse error: The document is empty")
    try:
        document = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        document = _parse_leniently(text)
    if _is_too_deep(text):
        raise InvalidRequest(
            f"JSON Parse error: The document is nested deeper than {_DEPTH_LIMIT} levels"
        )
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
    # the serializer takes arrays of rank 1 and above, and numpy scalars
    value = np.ascontiguousarray(array) if array.ndim else array[()]
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    if b"null" not in text:
        return text
    odd = (_token(number) for number in array[~np.isfinite(array)].tolist())
    return _NULL.sub(lambda _: next(odd), text)


def encode_strings(array: NDArray[Any], *, binary: bool) -> bytes:
    """Strings as nested JSON lists; a rank-0 array as one value.

    Args:
        array: Elements are ``bytes``.
        binary: Write every element as ``{"b64": ...}``.
    """
    convert = base64_object if binary else text_of
    if not array.ndim:
        return orjson.dumps(convert(array[()]))
    values: NDArray[Any] = np.frompyfunc(convert, 1, 1)(array)
    return orjson.dumps(values.tolist())


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


def _token(number: float) -> bytes:
    if np.isnan(number):
        return b"NaN"
    return b"Infinity" if number > 0 else b"-Infinity"


def _parse_leniently(text: bytes | bytearray) -> Any:
    try:
        return json.loads(text.decode("utf-8-sig"))
    except RecursionError as error:
        raise InvalidRequest("JSON Parse error: The document is nested too deeply") from error
    except ValueError as error:  # JSON, UTF-8, or an integer of thousands of digits
        raise InvalidRequest(f"JSON Parse error: {error}") from error


def _is_too_deep(text: bytes | bytearray) -> bool:
    """Whether a document that has parsed is nested deeper than the limit."""
    if text.count(b"[") + text.count(b"{") <= _DEPTH_LIMIT:
        return False
    brackets = _STRING.sub(b"", text).translate(_TO_SQUARE, _NOT_BRACKETS)
    for _ in range(_DEPTH_LIMIT):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return False
    return True
