"""Leader election with a Lease; every write checks whether this process is the leader.

    run() -> Lease read, acquired, renewed -> acquired; may_write() <- every write

One of several processes is the leader. The others watch the same objects and write nothing, so
that one of them can take over within seconds. A leader that cannot renew the Lease in time, or
that sees another holder, stops writing and then exits; a new process starts without stale state.

Two clocks measure the time since the last renewal, and the longer time counts: the monotonic clock
of a suspended or copied machine may have stopped while the Lease expired.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from datetime import datetime
from typing import Any

from . import errors, kinds, lease
from .client import KubeClient
from .lease import Seen

logger = logging.getLogger(__name__)


LEAST_CALL_SECONDS = 0.1


class LeadershipLost(Exception):
    """This process is no longer the leader and must exit."""


class Leadership:
    """The lease of one installation.

    Args:
        client: The API.
        namespace: The namespace of the Lease.
        name: The name of the Lease.
        identity: A unique name of this process.
        clock: Returns monotonic seconds, including the time while the machine was suspended.
        now: Returns the time, for the fields of the Lease and as the second clock.
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
        self._renewed_at: tuple[float, float] | None = None

    def may_write(self) -> bool:
        """Whether this process is the leader now."""
        return self.write_seconds() > 0

    def write_seconds(self) -> float:
        """Return for how many seconds this process may still write; 0 if it may not."""
        if self._renewed_at is None:
            return 0.0
        spans = (now - at for now, at in zip(self._read_clocks(), self._renewed_at, strict=True))
        return max(0.0, lease.WRITE_SECONDS - max(spans))

    async def run(self) -> None:
        """Acquire the lease, then renew it.

        Raises:
            LeadershipLost: Another process has taken the lease, or it was not renewed in time.
        """
        renewed = False
        while True:
            # A leader that was suspended after a renewal may still be the holder.
            if self.acquired.is_set() and not renewed and not self.may_write():
                raise LeadershipLost(f"the lease {self._name} {self._why_lost()}")
            asked_at = self._read_clocks()
            try:
                renewed = await self._try()
            except errors.ApiError as error:
                renewed = False
                logger.warning("lease not renewed", extra={"error": error.message})
            if renewed:
                # The time before the request counts, because the renewal may be that old.
                self._renewed_at = asked_at
                self._announce()
            pause = lease.RENEW_SECONDS * random.uniform(0.8, 1.0)  # noqa: S311 -- jitter
            left = self.write_seconds() if self.acquired.is_set() else pause
            await asyncio.sleep(min(pause, left))

    async def release(self) -> None:
        """Release the lease so that another process can take over; on failure, it expires."""
        seen = self._seen
        self._renewed_at = None
        if seen is None or seen.holder != self._identity:
            return
        try:
            await self._replace(seen, lease.released(seen, self._now()))
            logger.info("lease released")
        except errors.ApiError as error:
            logger.warning("lease not released", extra={"error": error.message})

    def _announce(self) -> None:
        if not self.acquired.is_set():
            logger.info("became the leader", extra={"identity": self._identity})
            self.acquired.set()

    async def _try(self) -> bool:
        """Try to acquire or renew the lease; whether it was written.

        Raises:
            LeadershipLost: Another process has taken it since this one acquired it.
        """
        is_there = await self._read()
        seen = self._seen
        if is_there and seen and self.acquired.is_set() and seen.holder != self._identity:
            # Even if it is free again, what this process knows may be from before the other one.
            raise LeadershipLost(f"the lease {self._name} {self._why_lost()}")
        # The holder of a lease that somebody deleted may write until the lease would have expired.
        if seen is not None and not seen.is_free(self._identity, self._clock()):
            return False
        spec = lease.taken(seen, self._identity, self._now())
        try:
            await (self._replace(seen, spec) if seen and is_there else self._create(spec))
        except errors.Conflict:
            # The lease has changed. Until it is read again, another process may be the leader.
            renewed_at, self._renewed_at = self._renewed_at, None
            if await self._is_still_held():
                self._renewed_at = renewed_at  # it was not renewed; the last renewal counts
            return False
        return True

    async def _read(self) -> bool:
        """Read the lease; whether it exists."""
        try:
            found = await self._client.get(
                kinds.LEASES, self._namespace, self._name, timeout_seconds=self._call_seconds()
            )
        except errors.NotFound:
            return False
        self._seen = lease.see(found, self._seen, self._clock())
        if self._seen.holder != self._identity:
            self._renewed_at = None  # the new holder may be writing already
        return True

    async def _is_still_held(self) -> bool:
        found = await self._client.get(
            kinds.LEASES, self._namespace, self._name, timeout_seconds=self._call_seconds()
        )
        self._seen = lease.see(found, None, self._clock())
        return self._seen.holder == self._identity

    async def _create(self, spec: dict[str, Any]) -> None:
        made = await self._client.create_lease(
            kinds.LEASES, self._body(spec), timeout_seconds=self._call_seconds()
        )
        self._seen = lease.see(made, None, self._clock())

    async def _replace(self, seen: Seen, spec: dict[str, Any]) -> None:
        body = self._body(spec)
        # The API server refuses the write if the lease has changed.
        body["metadata"]["resourceVersion"] = seen.version
        written = await self._client.replace_lease(
            kinds.LEASES, body, timeout_seconds=self._call_seconds()
        )
        self._seen = lease.see(written, None, self._clock())

    def _body(self, spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": self._namespace, "name": self._name},
            "spec": spec,
        }

    def _call_seconds(self) -> float:
        """Return the deadline of a request; a leader's ends with its right to write."""
        return min(lease.CALL_SECONDS, max(LEAST_CALL_SECONDS, self.write_seconds() or math.inf))

    def _read_clocks(self) -> tuple[float, float]:
        return self._clock(), self._now().timestamp()

    def _why_lost(self) -> str:
        holder = self._seen and self._seen.holder
        if holder and holder != self._identity:
            return f"is held by {holder}"
        if self._seen and not holder:
            return "was held by another process, which released it"
        return "was not renewed in time"
