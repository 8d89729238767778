"""One collection of the API server, mirrored into a sink: list, then watch, for ever.

    list pages --> sink.put      watch events --> sink.put | sink.drop
         |                            |
         `- sweep: what a relist did not show is dropped, so that no deletion is ever missed

It stands between the API server and the stores, one reflector a kind and namespace. A broken
connection resumes from the last resourceVersion; 410 Gone lists again; anything else waits with
jittered back-off and tries for ever: an outage of the API server is not the operator's end.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Protocol

from . import errors
from .client import KubeClient
from .kinds import Kind

logger = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_LAST_SECONDS = 10.0


class Sink(Protocol):
    """Where objects go; called from the event loop, must not block."""

    def put(self, body: dict[str, Any]) -> None:
        """An object as it is now; the same object may come again."""
        ...

    def drop(self, uid: str, version: str = "") -> None:
        """The object with this uid is gone; `version` is its last, empty where none was told."""
        ...


class Reflector:
    """Mirrors a kind in a namespace ("" for all) into a sink.

    Attributes:
        synced: Set once the first list is complete.
        last_heard: When the API server last said anything, in the clock's seconds.
    """

    def __init__(  # noqa: PLR0913 -- what to mirror, where to, and three injected edges
        self,
        client: KubeClient,
        kind: Kind,
        sink: Sink,
        *,
        namespace: str = "",
        selector: str = "",
        clock: Callable[[], float],
        restarted: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.last_heard = clock()
        self._client = client
        self._sink = sink
        self._namespace = namespace
        self._selector = selector
        self._clock = clock
        self._restarted = restarted
        self._known: set[str] = set()
        self._version = ""
        self._failures = 0

    async def run(self) -> None:
        """Mirror until cancelled."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                self._restarted("ended")
            except errors.Gone:
                self._version = ""
                self._restarted("expired")
            except errors.ApiError as error:
                self._restarted("failed")
                await self._wait_after(error)

    def forget(self) -> None:
        """The kind is not watched any more: tell the sink that everything is gone."""
        for uid in list(self._known):
            self._drop(uid)

    async def _list(self) -> None:
        seen: set[str] = set()
        page = await self._page("")
        version = page.resource_version
        while True:
            for body in page.items:
                self._put(body)
                seen.add(body["metadata"]["uid"])
            if not page.continue_:
                break
            page = await self._page(page.continue_)
        for uid in self._known - seen:
            self._drop(uid)
        self._version = version
        self.synced.set()

    async def _page(self, continue_: str) -> Any:
        page = await self._client.page(
            self.kind, self._namespace, selector=self._selector, continue_=continue_
        )
        self._heard()
        return page

    async def _watch(self) -> None:
        async for change in self._client.watch(
            self.kind, self._namespace, selector=self._selector, resource_version=self._version
        ):
            self._heard()
            metadata = change.object.get("metadata", {})
            if change.type == "DELETED":
                self._drop(metadata["uid"], metadata.get("resourceVersion", ""))
            elif change.type in ("ADDED", "MODIFIED"):
                self._put(change.object)
            self._version = metadata.get("resourceVersion") or self._version

    def _put(self, body: dict[str, Any]) -> None:
        self._known.add(body["metadata"]["uid"])
        self._sink.put(body)

    def _drop(self, uid: str, version: str = "") -> None:
        self._known.discard(uid)
        self._sink.drop(uid, version)

    def _heard(self) -> None:
        self.last_heard = self._clock()
        self._failures = 0

    async def _wait_after(self, error: errors.ApiError) -> None:
        longest = min(BACKOFF_LAST_SECONDS, BACKOFF_FIRST_SECONDS * 2**self._failures)
        self._failures = min(self._failures + 1, 16)  # 2**16 is far beyond the cap already
        delay = max(error.retry_after_seconds or 0.0, longest * random.uniform(0.5, 1))  # noqa: S311 -- spreads retries; no secret
        logger.warning(
            "watch interrupted",
            extra={"resource": self.kind.rbac_name, "error": error.message, "retry_in_s": delay},
        )
        await asyncio.sleep(delay)
