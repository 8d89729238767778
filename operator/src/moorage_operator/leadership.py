"""Holds the Lease or waits for it, and tells who asks whether writes are allowed.

    run() -> Lease read, taken, renewed -> acquired; may_write() <- every writing call

One process of several leads. The others watch everything as it does and write nothing, so that
one of them goes on within seconds. A leader that cannot renew in time stops writing first and
then ends; a new process starts clean.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from . import lease
from .kube import errors, kinds
from .kube.client import KubeClient
from .lease import Seen

logger = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """This process led and does not any more; it has to end."""


class Leadership:
    """The lease of one installation.

    Args:
        client: The API.
        namespace: Where the Lease is.
        name: Its name.
        identity: This process, unlike any other.
        clock: Monotonic seconds.
        now: The time, for the Lease's own fields.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        *,
        identity: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self.acquired = asyncio.Event()
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._now = now
        self._seen: Seen | None = None
        self._renewed_at = float("-inf")

    def may_write(self) -> bool:
        """Whether this process leads at this very moment."""
        return self._clock() - self._renewed_at < lease.WRITE_SECONDS

    async def run(self) -> None:
        """Wait for the lease, then renew it.

        Raises:
            LeadershipLost: It was held and could not be renewed in time.
        """
        while True:
            asked_at = self._clock()
            try:
                holds = await self._try()
            except errors.ApiError as error:
                holds = False
                logger.warning("lease not renewed", extra={"error": error.message})
            if holds:
                # counted from before the request: the lease may be as old as that
                self._renewed_at = asked_at
                self._announce()
            elif self.acquired.is_set() and not self.may_write():
                raise LeadershipLost(f"the lease {self._name} was not renewed in time")
            await asyncio.sleep(lease.RENEW_SECONDS * random.uniform(0.8, 1.0))  # noqa: S311 -- jitter

    async def release(self) -> None:
        """Let the next one lead at once; what fails is left to the lease's own end."""
        seen = self._seen
        self._renewed_at = float("-inf")
        if seen is None or seen.holder != self._identity:
            return
        try:
            await self._replace(seen, lease.released(seen, self._now()))
            logger.info("lease released")
        except errors.ApiError as error:
            logger.warning("lease not released", extra={"error": error.message})

    def _announce(self) -> None:
        if not self.acquired.is_set():
            logger.info("this process leads", extra={"identity": self._identity})
            self.acquired.set()

    async def _try(self) -> bool:
        """Whether the lease is held after this try."""
        try:
            found = await self._client.get(kinds.LEASES, self._namespace, self._name)
        except errors.NotFound:
            return await self._create()
        self._seen = lease.see(found, self._seen, self._clock())
        if not self._seen.is_free(self._identity, self._clock()):
            self._report_holder(self._seen.holder)
            return False
        spec = lease.taken(self._seen, self._identity, self._now())
        try:
            await self._replace(self._seen, spec)
        except errors.Conflict:
            return False  # another one was quicker
        return True

    async def _create(self) -> bool:
        body = self._body(lease.taken(None, self._identity, self._now()))
        try:
            made = await self._client.create(kinds.LEASES, body, gated=False)
        except errors.Conflict:
            return False  # another one was quicker
        self._seen = lease.see(made, None, self._clock())
        return True

    async def _replace(self, seen: Seen, spec: dict[str, Any]) -> None:
        body = self._body(spec)
        # the API server refuses when anybody has written since
        body["metadata"]["resourceVersion"] = seen.version
        written = await self._client.replace(kinds.LEASES, body)
        self._seen = lease.see(written, None, self._clock())

    def _body(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
            "spec": spec,
        }

    def _report_holder(self, holder: str) -> None:
        if not self.acquired.is_set():
            logger.debug("another process leads", extra={"holder": holder})
