"""Measures the CPU time for parsing the answers of one poll.

    poller: with counted() --> [drivers parse answers: with spending()] --> Cost.seconds

A server determines the size of its answers, so their cost limits how often it is polled. Tasks and
connections that a poll starts inherit its counter.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Cost:
    """A counter of CPU seconds."""

    seconds: float = 0.0


_counting: ContextVar[Cost | None] = ContextVar("cost", default=None)


@contextmanager
def counted() -> Generator[Cost]:
    """Count the CPU time of parsing within the block and in tasks that it starts."""
    cost = Cost()
    token = _counting.set(cost)
    try:
        yield cost
    finally:
        _counting.reset(token)


def spending(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Parse an answer and add the CPU time of this thread to the counter."""
    began = time.thread_time()
    try:
        return read(*args, **kwargs)
    finally:
        if cost := _counting.get():
            cost.seconds += time.thread_time() - began
