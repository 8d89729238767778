"""A worker's part in the server: it reports its state and carries out commands for all workers.

dataplane -> State -> link; link -> Do -> dataplane, metrics
"""

import asyncio

from prometheus_client import CollectorRegistry

from moorage_runtime.dataplane import Dataplane
from moorage_runtime.workers import collected
from moorage_runtime.workers.link import Link
from moorage_runtime.workers.shared.messages import Act, Family, State, VersionState


class Member:
    """One worker.

    Args:
        link: Connection to the supervisor.
        dataplane: This worker's dataplane.
        prometheus: This worker's metrics.
    """

    def __init__(self, link: Link, dataplane: Dataplane, prometheus: CollectorRegistry) -> None:
        self._link = link
        self._dataplane = dataplane
        self._prometheus = prometheus
        self._is_listening = False
        self._changed = asyncio.Event()
        dataplane.on_readiness_change(self._tell)

    async def run(self) -> None:
        """Handle the supervisor's messages until it ends."""
        await self._link.run(self._perform, self._dataplane.others_changed)

    async def catch_up(self) -> None:
        """Return when this worker can replace the one that ended.

        A worker of the first start returns at once: clients must learn that models are loading.
        """
        begin = self._link.begin
        if not begin.takes_over:
            return
        await self._until_loaded()
        for name in begin.unloaded:
            await self._dataplane.change_here("unload", name)
        await self._until_loaded()

    def listens(self) -> None:
        """Report that clients can reach this worker."""
        self._is_listening = True
        self._tell()

    async def _until_loaded(self) -> None:
        while not self._dataplane.has_loaded():
            self._changed.clear()
            await self._changed.wait()

    def _tell(self) -> None:
        self._changed.set()
        plane = self._dataplane
        models = tuple(
            VersionState(s.name, s.version, s.state, s.message) for s in plane.index_here()
        )
        self._link.tell(State(self._is_listening, plane.ready_here(), models))

    async def _perform(self, act: Act, name: str) -> tuple[Family, ...]:
        if act == "collect":
            return collected.families(self._prometheus)
        await self._dataplane.change_here(act, name)
        return ()
