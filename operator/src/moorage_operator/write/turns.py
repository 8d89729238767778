"""Limits how many children are created concurrently, and creates Deployments last.

The API server allocates the addresses of Services one at a time. Each takes milliseconds while it
is idle and tenths of a second once controllers create pods. If a thousand models are created at
once, all of them therefore get their Services before the first gets its Deployment.

A reconcile ends once all children exist, and only the next one reports a pod that became ready. So
the other children come before the Deployment too, except for autoscalers, which refer to it.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from heapq import heappop, heappush
from itertools import count

__all__ = ["Turns"]

FIRST = "NetworkPolicy"
LAST = frozenset({"Deployment", "HorizontalPodAutoscaler", "ScaledObject"})
"""The kinds that are created before and after all others."""


class Turns:
    """A semaphore for the creation of children, which serves some kinds before others.

    Args:
        places: The maximum number of concurrent creations.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def turn(self, kind: str) -> AsyncGenerator[None]:
        """Hold a place while a child of this kind is created."""
        await self._take(_rank(kind))
        try:
            yield
        finally:
            self._give()

    async def _take(self, rank: int) -> None:
        if self._free:  # then no creation is waiting
            self._free -= 1
            return
        place = asyncio.get_running_loop().create_future()
        heappush(self._waiting, (rank, next(self._order), place))
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the place was assigned at the same time
                self._give()
            raise

    def _give(self) -> None:
        while self._waiting:
            _, _, place = heappop(self._waiting)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


def _rank(kind: str) -> int:
    return (kind != FIRST) + (kind in LAST)
