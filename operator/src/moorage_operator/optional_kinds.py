"""The kinds of children that a cluster may lack: watched while it has them.

    three times a minute, and when something answers 404 --> API discovery
        a kind appears  --> its reflectors --> listed --> available: plans may use it
        a kind vanishes --> its reflectors end, its children are forgotten, no plan uses it

It stands beside the reflectors of the kinds that every cluster has. Discovery reads and never
writes; while the API server does not answer, what was found last stands.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from .kube import errors, kinds
from .kube.client import KubeClient
from .kube.reflector import Reflector

logger = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
"""Somebody who installs KEDA or the Gateway API waits so long at most for its use."""

LOOK_AGAIN_SECONDS = 1.0
"""Discovery is not asked more often, whatever answers 404."""

SETTLE_SECONDS = 5.0
"""What a kind that is there may take to be listed before models are worked on without it."""


@dataclass(frozen=True, slots=True)
class _Watch:
    reflectors: Sequence[Reflector]
    task: asyncio.Task[None]


class OptionalKinds:
    """Keeps watches of those kinds of `kinds.OPTIONAL` that the cluster has.

    Args:
        client: The API.
        make: Makes the reflectors of a kind, one for each namespace.
        changed: Called with the kinds that are served and listed, at each change of them.

    Attributes:
        settled: Set once the kinds that are there at the start are listed, or take too long.
    """

    def __init__(
        self,
        client: KubeClient,
        make: Callable[[str], Sequence[Reflector]],
        changed: Callable[[frozenset[str]], None],
    ) -> None:
        self.settled = asyncio.Event()
        self._client = client
        self._make = make
        self._changed = changed
        self._watches: dict[str, _Watch] = {}
        self._available: frozenset[str] = frozenset()
        self._again = asyncio.Event()

    @property
    def reflectors(self) -> list[Reflector]:
        """Those that run now."""
        return [each for watch in self._watches.values() for each in watch.reflectors]

    def look_again(self) -> None:
        """Something was answered with 404: a kind may be gone."""
        self._again.set()

    async def run(self) -> None:
        """Look and watch until cancelled."""
        try:
            await self._look()
            await self._settle()
            while True:
                await self._wait()
                await self._look()
        finally:
            for watch in self._watches.values():
                watch.task.cancel()
            await asyncio.gather(
                *(watch.task for watch in self._watches.values()), return_exceptions=True
            )

    async def _look(self) -> None:
        for kind in sorted(kinds.OPTIONAL):
            try:
                served = await self._client.serves(kinds.CHILDREN[kind])
            except errors.ApiError as error:
                logger.warning("discovery failed", extra={"kind": kind, "error": error.message})
                continue
            if served and kind not in self._watches:
                self._start(kind)
            elif not served and kind in self._watches:
                logger.info("kind is not served any more", extra={"kind": kind})
                await self._end(kind)

    def _start(self, kind: str) -> None:
        reflectors = self._make(kind)
        task = asyncio.create_task(self._watch(kind, reflectors), name=f"watch {kind}")
        self._watches[kind] = _Watch(reflectors, task)

    async def _watch(self, kind: str, reflectors: Sequence[Reflector]) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            for reflector in reflectors:
                await reflector.synced.wait()
            logger.info("kind is served", extra={"kind": kind})
            self._tell(self._available | {kind})

    async def _settle(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                for reflector in self.reflectors:
                    await reflector.synced.wait()
        self.settled.set()

    async def _wait(self) -> None:
        """Until it is time to look, or a watch broke."""
        await asyncio.sleep(LOOK_AGAIN_SECONDS)
        again = asyncio.create_task(self._again.wait())
        watches = [watch.task for watch in self._watches.values()]
        try:
            ended, _ = await asyncio.wait(
                [again, *watches],
                timeout=LOOK_SECONDS - LOOK_AGAIN_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            again.cancel()
        for task in ended:
            task.result()  # a reflector never ends by itself: raises what it broke with
        self._again.clear()

    async def _end(self, kind: str) -> None:
        watch = self._watches.pop(kind)
        watch.task.cancel()
        await asyncio.wait([watch.task])
        self._tell(self._available - {kind})
        for reflector in watch.reflectors:
            reflector.forget()

    def _tell(self, available: frozenset[str]) -> None:
        if available != self._available:
            self._available = available
            self._changed(available)
