"""Mirrors a collection of the API server into a sink with a list and a watch.

    list pages --> sink.put      watch events --> sink.put | sink.drop
         |                            |
         `- sweep: objects that a relist did not return are dropped, so no deletion is missed

There is one reflector per kind and namespace. After a broken connection it resumes from the last
resourceVersion; after 410 Gone it lists again. Any other error is retried forever, because an
outage of the API server must not end the operator. Each retry has a jittered delay, also after a
410 or a watch that ended early, which would otherwise be repeated as fast as the API server
answers. The delay grows until a watch has worked.

Each watch is requested for about a minute. So a working watch gives a sign of life at least that
often, even without events, and a watch that hangs is detected and reopened.
"""

import asyncio
import logging
import math
import random
from collections.abc import Callable
from typing import Any, Protocol

from . import errors
from .bodies import Change
from .client import KubeClient
from .delays import Delays
from .kinds import Kind
from .liveness import Liveness
from .versions import is_rewound

logger = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS = 0.1
BACKOFF_LAST_SECONDS = 10.0

WORKING_SECONDS = 1.0
"""A watch that stayed open for this time has worked, even without events, as in client-go."""

WATCH_SECONDS = 80
"""The longest watch. Each is up to a fifth shorter, so that they do not all end at once. The value
must be less than BROKEN_SECONDS minus the grace of the client. A lower value would cause more
load: each watch is a request to the API server."""


def watch_seconds() -> int:
    """Choose the duration of the next watch."""
    return round(WATCH_SECONDS * random.uniform(0.8, 1))  # noqa: S311 -- spreads requests; no secret


class Sink(Protocol):
    """Receives objects; called from the event loop, must not block."""

    def put(self, body: dict[str, Any], *, listed_at: str = "") -> None:
        """Store the current version of an object, possibly again.

        `listed_at` is the resourceVersion of the list that returned it, empty for an event.
        """
        ...

    def drop(self, uid: str, version: str = "") -> None:
        """Remove a deleted object; `version` is its last version, empty if unknown."""
        ...

    def end_list(self, namespace: str, version: str) -> None:
        """Take note that a list of a namespace ("" for all) at this version is complete."""
        ...


class Reflector:
    """Mirrors a kind in a namespace ("" for all) into a sink.

    Attributes:
        synced: Set once the initial list is complete.
        namespace: The namespace that is mirrored.
        liveness: Whether the watch works.
    """

    def __init__(  # noqa: PLR0913 -- source, sink and three injected functions
        self,
        client: KubeClient,
        kind: Kind,
        sink: Sink,
        *,
        namespace: str = "",
        selector: str = "",
        clock: Callable[[], float],
        restarted: Callable[[str], None] = lambda _: None,
        rewound: Callable[[], None] = lambda: None,
    ) -> None:
        self.kind = kind
        self.synced = asyncio.Event()
        self.namespace = namespace
        self.liveness = Liveness(kind.rbac_name, namespace, clock)
        self._client = client
        self._sink = sink
        self._selector = selector
        self._clock = clock
        self._restarted = restarted
        self._rewound = rewound
        self._known: set[str] = set()
        self._version = ""
        self._must_list = True
        self._is_doubtful = False
        self._delays = Delays(BACKOFF_FIRST_SECONDS, BACKOFF_LAST_SECONDS)

    async def run(self) -> None:
        """Mirror until cancelled."""
        while True:
            try:
                if self._is_doubtful:
                    await self._check_history()
                if self._must_list:
                    await self._list()
                await self._watch()
                self._restarted("ended")
            except errors.Gone:
                self._must_list = True
                self._restarted("expired")
                await asyncio.sleep(self._delays.next_seconds())
            except errors.ApiError as error:
                self._is_doubtful = True
                self._restarted("failed")
                await self._wait_after(error)

    def forget(self) -> None:
        """Drop all objects from the sink, because the kind is no longer watched."""
        for uid in list(self._known):
            self._drop(uid)

    async def _list(self) -> None:
        seen: set[str] = set()
        page = await self._page()
        version = page.resource_version
        rewound = is_rewound(version, self._version)
        if rewound:
            self._report_rewind(version)
        while True:
            for body in page.items:
                uid = body["metadata"]["uid"]
                if rewound:
                    # The known version belongs to the history before the restore.
                    self._drop(uid)
                self._put(body, listed_at=version)
                seen.add(uid)
            if not page.continue_:
                break
            page = await self._page(page.continue_)
        for uid in self._known - seen:
            self._drop(uid)
        self._sink.end_list(self.namespace, version)
        self._version = version
        self._must_list = False
        self.synced.set()

    async def _check_history(self) -> None:
        """List again if etcd was restored from a backup while no watch was open.

        The API server accepts a watch from a version that it has not reached yet, and then omits
        all events up to that version.
        """
        if not self._must_list:
            version = await self._client.version(self.kind, self.namespace)
            self._must_list = is_rewound(version, self._version)
        self._is_doubtful = False

    def _report_rewind(self, version: str) -> None:
        logger.warning(
            "etcd was restored from a backup; listing all objects again",
            extra={"resource": self.kind.rbac_name, "version": version, "known": self._version},
        )
        self._rewound()

    async def _page(self, continue_: str = "") -> Any:
        page = await self._client.page(
            self.kind, self.namespace, selector=self._selector, continue_=continue_
        )
        self.liveness.beat()
        return page

    async def _watch(self) -> None:
        seconds = watch_seconds()
        began = self._clock()
        opened_at = math.inf

        def opened() -> None:
            nonlocal opened_at
            opened_at = self._clock()
            self.liveness.beat()

        try:
            async for change in self._client.watch(
                self.kind,
                self.namespace,
                selector=self._selector,
                resource_version=self._version,
                seconds=seconds,
                began=opened,
            ):
                self._take(change)
        finally:
            if self._clock() - opened_at >= WORKING_SECONDS:
                self._delays.reset()
        self.liveness.beat()
        if self._clock() - began < seconds - 1:
            # Earlier than requested: the API server is stopping, or a proxy ended the watch.
            self._is_doubtful = True
            await asyncio.sleep(self._delays.next_seconds())

    def _take(self, change: Change) -> None:
        self.liveness.beat()
        self._delays.reset()
        metadata = change.object.get("metadata", {})
        if change.type == "DELETED":
            self._drop(metadata["uid"], metadata.get("resourceVersion", ""))
        elif change.type in ("ADDED", "MODIFIED"):
            self._put(change.object)
        self._version = metadata.get("resourceVersion") or self._version

    def _put(self, body: dict[str, Any], listed_at: str = "") -> None:
        self._known.add(body["metadata"]["uid"])
        self._sink.put(body, listed_at=listed_at)

    def _drop(self, uid: str, version: str = "") -> None:
        self._known.discard(uid)
        self._sink.drop(uid, version)

    async def _wait_after(self, error: errors.ApiError) -> None:
        self.liveness.fail(error.message, refused=isinstance(error, errors.Forbidden))
        delay = max(error.retry_after_seconds or 0.0, self._delays.next_seconds())
        logger.warning(
            "watch interrupted",
            extra={"resource": self.kind.rbac_name, "error": error.message, "retry_in_s": delay},
        )
        await asyncio.sleep(delay)
