"""Decompresses bodies and messages of every transport without delaying other requests.

``codec.unpack.inflate`` does the work within its limits; this module selects the thread and stops
when the client has left.
"""

import asyncio
import threading
from typing import Final

from moorage_runtime.codec.unpack.inflate import Buffer, Inflater

# The event loop decompresses this much itself: a few hundred microseconds.
_INLINE_BYTES: Final = 64 * 1024
# After each step of about a millisecond, a thread checks whether the client still waits.
_STEP_BYTES: Final = 512 * 1024


async def inflate(body: Buffer, coding: str, limit_bytes: int) -> bytes:
    """The decompressed bytes.

    Raises:
        UnsupportedEncoding, PayloadTooLarge, InvalidRequest: As :class:`Inflater`.
    """
    inflater = Inflater(body, coding, limit_bytes)
    if inflater.advance(_INLINE_BYTES):
        return inflater.result()
    is_unwanted = threading.Event()
    try:
        return await asyncio.to_thread(_finish, inflater, is_unwanted)
    finally:
        is_unwanted.set()


def _finish(inflater: Inflater, is_unwanted: threading.Event) -> bytes:
    while not inflater.advance(_STEP_BYTES):
        if is_unwanted.is_set():
            return b""
    return inflater.result()
