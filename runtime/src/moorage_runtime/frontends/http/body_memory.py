"""Memory into which a large body is read directly from the socket.

RequestReader -> make_body -> the transport fills it -> HttpRequest.body -> a tensor's memory
"""

from typing import Final

import numpy as np

_ALIGNMENT: Final = 64


def make_body(size: int, json_bytes: str) -> memoryview:
    """Memory for the body of a request with this Inference-Header-Content-Length.

    The first binary tensor, which follows the JSON, is aligned.
    """
    is_number = json_bytes.isascii() and json_bytes.isdigit() and len(json_bytes) < 10
    return memory_for(size, int(json_bytes) if is_number else 0)


def memory_for(size: int, aligned: int) -> memoryview:
    """Uninitialized memory, which costs nothing before bytes arrive.

    Args:
        size: Number of bytes.
        aligned: Index of the byte that is aligned, possibly the one after the last. A tensor must
            start or end at such a place, otherwise frameworks copy it.
    """
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    address: int = memory.__array_interface__["data"][0]
    start = -(address + aligned) % _ALIGNMENT
    return memory.data[start : start + size]
