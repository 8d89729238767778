"""BYTES elements as text and back, without loss, for libraries whose strings are Unicode.

A BYTES tensor may contain any bytes, but ONNX Runtime's Python interface uses ``str``. UTF-8 text
is unchanged. Each byte that is not part of valid UTF-8 becomes one character of the private range
U+10FF80 to U+10FFFF, and is converted back in the output. A real character of that range is
represented by the private characters of its four bytes, so that the conversion is exact.
"""

import re
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_PRIVATE: Final = 0x10FF00
# Python's own escapes of undecodable bytes (PEP 383) cannot be encoded, hence the private range.
_SURROGATE: Final = 0xDC00
_ESCAPED: Final = re.compile("[\udc80-\udcff\U0010ff80-\U0010ffff]")
_PRIVATE_CHARACTER: Final = re.compile("[\U0010ff80-\U0010ffff]")


def to_text(elements: NDArray[np.object_]) -> NDArray[np.object_]:
    """The elements as ``str``; same shape.

    Args:
        elements: Array of ``bytes``.
    """
    return _mapped(elements, _decode)


def to_bytes(elements: NDArray[np.object_]) -> NDArray[np.object_]:
    """The elements as ``bytes``; same shape.

    Args:
        elements: Array of ``str``.
    """
    return _mapped(elements, _encode)


def _mapped(elements: NDArray[np.object_], convert: Callable[[Any], Any]) -> NDArray[np.object_]:
    flat = elements.reshape(-1).tolist()
    return np.fromiter(map(convert, flat), np.object_, len(flat)).reshape(elements.shape)


def _decode(element: bytes) -> str:
    text = bytes(element).decode("utf-8", "surrogateescape")
    return _ESCAPED.sub(_to_private, text) if not text.isascii() else text


def _encode(element: str) -> bytes:
    if element.isascii():
        return element.encode()
    text = _PRIVATE_CHARACTER.sub(_to_surrogate, element)
    return text.encode("utf-8", "surrogateescape")


def _to_private(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < _PRIVATE:
        return chr(code - _SURROGATE + _PRIVATE)
    return "".join(chr(_PRIVATE + byte) for byte in match[0].encode())


def _to_surrogate(match: re.Match[str]) -> str:
    return chr(ord(match[0]) - _PRIVATE + _SURROGATE)
