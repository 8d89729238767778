"""Parses large answers in a thread if the parser is written in Python.

There is only one thread: the interpreter's lock is released every five milliseconds, so the event
loop keeps running beside one parser, but would wait for each of several.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from .cost import spending

P = ParamSpec("P")
T = TypeVar("T")

INLINE_BYTES = 16 << 10
"""Smaller answers are parsed faster than a thread is woken up."""

_reader = ThreadPoolExecutor(1, "answers")


async def aside(size_bytes: int, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Parse an answer of this size."""
    if size_bytes <= INLINE_BYTES:
        return spending(read, *args, **kwargs)
    context = copy_context()  # has the cost counter of the poll
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(
        _reader, lambda: context.run(spending, read, *args, **kwargs)
    )
