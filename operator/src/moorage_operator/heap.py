"""What the C library keeps of memory that was freed, and how to have it give that back.

    __main__ --> share_one_arena          app --> keep_trimmed, beside the work

A list comes as megabytes of JSON that are freed again at once, in kopf's thread as well as in the
loop's. glibc gives each thread an arena of its own, and returns of one what stands at its end
alone: what is left behind between is the process's for good. Elsewhere than with glibc nothing is
done, as nothing is known to help.

Source: glibc, mallopt(3), malloc_trim(3).
"""

import asyncio
import ctypes
from collections.abc import Callable
from typing import cast

__all__ = ["keep_trimmed", "share_one_arena", "trim"]

M_ARENA_MAX = -8
"""<malloc.h>; how many arenas there may be."""


TRIM_SECONDS = 30.0
"""A trim takes some milliseconds for a heap of 100 MiB."""


def share_one_arena() -> None:
    """Let all threads allocate from the main one's arena; to be called before there are others."""
    if mallopt := _function("mallopt"):
        mallopt(M_ARENA_MAX, 1)


def trim() -> None:
    """Give what is free back to the system."""
    if malloc_trim := _function("malloc_trim"):
        malloc_trim(0)


async def keep_trimmed() -> None:
    """Trim every now and then until cancelled."""
    while True:
        await asyncio.sleep(TRIM_SECONDS)
        trim()


def _function(name: str) -> Callable[..., int] | None:
    """A function of the C library, None where that has none of this name."""
    try:
        return cast("Callable[..., int]", getattr(ctypes.CDLL(None), name))
    except (OSError, AttributeError):
        return None
