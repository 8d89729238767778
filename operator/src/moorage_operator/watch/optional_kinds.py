"""Watches kinds that a cluster may lack, while it has them.

    three times a minute, and after a 404 --> API discovery
        a kind appears  --> its reflectors --> listed --> available: plans may use it
        a kind vanishes --> its reflectors end, its children are forgotten, no plan uses it

While the API server does not answer, the last result remains valid, and at startup reconciles wait
for the first one. An installed kind that cannot be listed at startup is available nevertheless: a
plan that takes it for missing would delete the Services behind a route and report no URL.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.kube.reflector import Reflector

logger = logging.getLogger(__name__)

LOOK_SECONDS = 20.0
"""The interval of API discovery: the delay after an installation of KEDA or the Gateway API."""

LOOK_AGAIN_SECONDS = 1.0
"""The shortest interval of API discovery, even after a 404."""

RETRY_SECONDS = 1.0
"""The interval of the first API discovery while it fails."""

REFUSED_SECONDS = 20.0
"""After this time, a refused discovery means that the cluster does not allow it. An API server
that starts also refuses requests for a moment."""

SETTLE_SECONDS = 5.0
"""How long reconciles wait at startup until an installed kind is listed."""

LISTED_LOOK_SECONDS = 0.1
"""The interval of checks whether a kind is listed."""


@dataclass(frozen=True, slots=True)
class _Watch:
    reflectors: Sequence[Reflector]
    task: asyncio.Task[None]


class OptionalKinds:
    """Watches the kinds of `kinds.OPTIONAL` that the cluster has.

    Args:
        client: The API.
        make: Creates the reflectors of a kind, one per namespace.
        changed: Called at each change with the kinds that are available.

    Attributes:
        settled: Set once it is known which kinds exist at startup, and these are listed or do not
            answer in time.
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
        self._refused_until = 0.0

    @property
    def reflectors(self) -> list[Reflector]:
        """The reflectors that run now."""
        return [each for watch in self._watches.values() for each in watch.reflectors]

    def look_again(self) -> None:
        """Repeat API discovery soon, because a kind may have been removed."""
        self._again.set()

    async def run(self) -> None:
        """Discover and watch kinds until cancelled."""
        self._refused_until = asyncio.get_running_loop().time() + REFUSED_SECONDS
        try:
            while not await self._look():  # noqa: ASYNC110 -- discovery has no events
                await asyncio.sleep(RETRY_SECONDS)
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

    async def _look(self) -> bool:
        """Discover kinds; whether the API server answered for all groups."""
        found: dict[tuple[str, str], frozenset[str] | None] = {}  # one request per group
        for name, kind in sorted(kinds.OPTIONAL.items()):
            group = kind.group, kind.version
            if group not in found:
                found[group] = await self._plurals(name, kind)
            served = found[group]
            if served is not None:
                await self._update(name, is_served=kind.plural in served)
        return None not in found.values()

    async def _plurals(self, name: str, kind: kinds.Kind) -> frozenset[str] | None:
        """Return the kinds of a group, none without the right to discover them; None if the API
        server does not answer.
        """
        try:
            return await self._client.plurals(kind)
        except errors.ApiError as error:
            logger.warning("discovery failed", extra={"kind": name, "error": error.message})
            late = asyncio.get_running_loop().time() >= self._refused_until
            is_refused = isinstance(error, errors.Forbidden) and late
            return frozenset() if is_refused and not self.settled.is_set() else None

    async def _update(self, kind: str, *, is_served: bool) -> None:
        if is_served and kind not in self._watches:
            self._start(kind)
        elif not is_served and kind in self._watches:
            logger.info("optional kind removed", extra={"kind": kind})
            await self._end(kind)

    def _start(self, kind: str) -> None:
        reflectors = self._make(kind)
        task = asyncio.create_task(self._watch(kind, reflectors), name=f"watch {kind}")
        self._watches[kind] = _Watch(reflectors, task)

    async def _watch(self, kind: str, reflectors: Sequence[Reflector]) -> None:
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            await _listed(reflectors)
            logger.info("optional kind available", extra={"kind": kind})
            self._report(self._available | {kind})

    async def _settle(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                await _listed(self.reflectors)
        # Those that are not listed yet are applied without knowing what exists.
        usable = {kind for kind, each in self._watches.items() if _are_usable(each.reflectors)}
        self._report(self._available | usable)
        self.settled.set()

    async def _wait(self) -> None:
        """Wait for the next discovery, or until a watch breaks."""
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
            task.result()  # a reflector only ends with an error, which this raises
        self._again.clear()

    async def _end(self, kind: str) -> None:
        watch = self._watches.pop(kind)
        watch.task.cancel()
        await asyncio.wait([watch.task])
        self._report(self._available - {kind})
        for reflector in watch.reflectors:
            reflector.forget()

    def _report(self, available: frozenset[str]) -> None:
        if available != self._available:
            self._available = available
            self._changed(available)


async def _listed(reflectors: Sequence[Reflector]) -> None:
    """Wait until all are listed; refused ones do not delay the others."""
    while not _are_listed(reflectors):  # noqa: ASYNC110 -- there is no event for a refusal
        await asyncio.sleep(LISTED_LOOK_SECONDS)


def _are_listed(reflectors: Sequence[Reflector]) -> bool:
    known = all(each.synced.is_set() or _is_refused(each) for each in reflectors)
    return known and _are_usable(reflectors)


def _are_usable(reflectors: Sequence[Reflector]) -> bool:
    """Whether the kind may be read in at least one namespace, as far as is known."""
    return not (reflectors and all(map(_is_refused, reflectors)))


def _is_refused(reflector: Reflector) -> bool:
    return not reflector.synced.is_set() and reflector.liveness.refused_seconds() > 0
