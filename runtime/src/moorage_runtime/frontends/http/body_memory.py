"""Memory that a large body is read into, straight from the socket.

RequestReader -> make_body -> the transport fills it -> HttpRequest.body -> a tensor's memory
"""

from typing import Final

import numpy as np

_ALIGNMENT: Final = 64


def make_body(size: int, json_bytes: str) -> memoryview:
    """Memory for a body, not touched before bytes arrive, so that a large promise costs nothing.

    The first binary tensor, which follows the JSON, is aligned for the processor: frameworks
    would copy it otherwise.
    """
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    is_number = json_bytes.isascii() and json_bytes.isdigit() and len(json_bytes) < 10
    tensor_at = int(json_bytes) if is_number else 0
    address: int = memory.__array_interface__["data"][0]
    start = -(address + tensor_at) % _ALIGNMENT
    return memory.data[start : start + size]
