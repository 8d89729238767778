"""Memory that is free and not given back, and what Python's collector has to look through.

    __main__ --> set_up          app --> keep_trimmed, beside the work

A list comes as megabytes of JSON that are freed again at once, in kopf's thread as well as in the
loop's. glibc gives each thread an arena of its own, and returns of one what stands at its end
alone: what is left behind between is the process's for good. Elsewhere than with glibc nothing is
done, as nothing is known to help.

Python's collector looks at all that was imported each time that it looks at everything, 50 ms for
nothing; and with its default it looks at what is young after each second event.

Source: glibc, mallopt(3), malloc_trim(3); CPython, "Garbage collector design"; gc.freeze.
"""

import asyncio
import ctypes
import gc
from collections.abc import Callable
from typing import cast

__all__ = ["keep_trimmed", "set_up", "trim"]

# <malloc.h>
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8

LARGE_BYTES = 128 << 10
"""Blocks from this size on, a list's page above all, are mapped by themselves and given back as
soon as they are freed. It is glibc's default, which moves up to 32 MiB once such a block was freed
unless it is set."""


TRIM_SECONDS = 30.0
"""A trim takes some milliseconds for a heap of 100 MiB."""


YOUNG_OBJECTS = 5000
"""After so many new ones the collector looks at those that are young: some ten events."""


def set_up() -> None:
    """To be called once all is imported, and before there are other threads.

    All threads then allocate from the main one's arena, large blocks never become part of it, and
    the collector does not look any more at what is there by now.
    """
    if mallopt := _function("mallopt"):
        mallopt(M_ARENA_MAX, 1)
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    gc.collect()
    gc.freeze()


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
