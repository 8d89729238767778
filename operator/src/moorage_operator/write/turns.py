"""Limits how many objects are written concurrently, and creates Deployments last.

    write --> turn --> [a line per rank and namespace] --> place --> write --> place is free again

The API server allocates the addresses of Services one at a time. Each takes milliseconds while it
is idle and tenths of a second once controllers create pods. If a thousand models are created at
once, all of them therefore get their Services before the first gets its Deployment.

A reconcile ends once all children exist, and only the next one reports a pod that became ready. So
the other children come before the Deployment too, except for autoscalers, which refer to it. A
model's own Deployment even waits until its other children are written: the Service of the first
models of a burst takes seconds, and their pods would be ready long before.

An admission webhook that hangs delays a write by up to 30 s, and its namespace may have hundreds
of models. A namespace may hold as many places as are free, so that some remain for the others.
Statuses have places of their own, so that no child delays them.
"""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

__all__ = ["Turns"]

FIRST = "NetworkPolicy"
LAST = frozenset({"Deployment", "HorizontalPodAutoscaler", "ScaledObject"})
"""The kinds that are created before and after all others."""

_Lines = OrderedDict[str, deque[asyncio.Future[None]]]
"""Those who wait for a place, by namespace; the namespace whose turn is next comes first."""


class Turns:
    """A semaphore for writes, which serves some before others.

    Args:
        places: The maximum number of concurrent writes in a namespace. Several namespaces get
            fewer each, and together less than twice as many.
    """

    def __init__(self, places: int) -> None:
        self._free = 2 * places
        self._held: Counter[str] = Counter()  # by namespace
        self._lines: list[_Lines] = [OrderedDict() for _ in range(4)]  # by rank

    @asynccontextmanager
    async def turn(self, namespace: str, kind: str, *, is_new: bool) -> AsyncGenerator[None]:
        """Hold a place while an object of this kind is written.

        Args:
            namespace: The namespace of the object.
            kind: Its kind.
            is_new: Whether it is created. Changes and deletions are few and come first.
        """
        await self._take(namespace, _rank(kind) if is_new else 0)
        try:
            yield
        finally:
            self._give(namespace)

    async def _take(self, namespace: str, rank: int) -> None:
        place = asyncio.get_running_loop().create_future()
        self._lines[rank].setdefault(namespace, deque()).append(place)
        self._serve()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():  # the place was assigned at the same time
                self._give(namespace)
            raise

    def _give(self, namespace: str) -> None:
        self._free += 1
        self._held[namespace] -= 1
        if not self._held[namespace]:
            del self._held[namespace]
        self._serve()

    def _serve(self) -> None:
        """Assign places while one is free for somebody who waits."""
        while found := self._first():
            lines, namespace = found
            place = lines[namespace].popleft()
            lines.move_to_end(namespace)
            if not lines[namespace]:
                del lines[namespace]
            if not place.done():
                self._free -= 1
                self._held[namespace] += 1
                place.set_result(None)

    def _first(self) -> tuple[_Lines, str] | None:
        """Return the first line whose namespace may hold another place."""
        return next(
            (
                (lines, namespace)
                for lines in self._lines
                for namespace in lines
                if self._held[namespace] < self._free
            ),
            None,
        )


def _rank(kind: str) -> int:
    return 1 + (kind != FIRST) + (kind in LAST)
