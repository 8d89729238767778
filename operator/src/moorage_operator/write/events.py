"""Posts Kubernetes Events about models in the background.

Events result from transitions, so there are few. The same event is not posted again within ten
minutes, and a burst is limited: events inform people and are not a log. An event that the API
server refuses is lost.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from moorage_operator.api import names
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.client import KubeClient
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.plan import PlannedEvent

logger = logging.getLogger(__name__)

CONTROLLER = "moorage.dev/operator"
QUEUE = 1000
AGAIN_SECONDS = 600.0
SPACING_SECONDS = 0.05
NOTE_LIMIT_BYTES = 1024  # the API server refuses a longer note
NAME_PREFIX = 200  # the rest of at most 253 characters makes the name unique


class EventPoster:
    """Posts planned events one at a time.

    Args:
        client: The API.
        instance: The name of this process: that of its pod.
        clock: Monotonic seconds.
        now: The time in UTC.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        instance: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
    ) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._now = now
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE)
        self._posted: dict[tuple[str, str, str], float] = {}

    def post(self, record: ModelRecord, event: PlannedEvent) -> None:
        """Queue an event, unless it was posted recently or the queue is full."""
        now = self._clock()
        same = (record.model.uid, event.reason, event.message)
        self._forget_old(now)
        if same in self._posted or self._queue.full():
            return
        self._posted[same] = now
        self._queue.put_nowait(self._make(record, event))

    def _forget_old(self, now: float) -> None:
        # Events are in the order of their posts, so the loop stops at the first recent one.
        while self._posted:
            first = next(iter(self._posted))
            if now - self._posted[first] < AGAIN_SECONDS:
                return
            del self._posted[first]

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            body = await self._queue.get()
            try:
                await self._client.create(kinds.EVENTS, body)
            except errors.ApiError as error:
                logger.info("event not posted", extra={"error": error.message})
            await asyncio.sleep(SPACING_SECONDS)

    def _make(self, record: ModelRecord, event: PlannedEvent) -> dict[str, Any]:
        key = record.key
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                # A label of a DNS name ends with a letter or digit.
                "name": f"{key.name[:NAME_PREFIX].rstrip('.-')}.{uuid.uuid4().hex[:16]}",
                "namespace": key.namespace,
            },
            "eventTime": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Reconcile",
            "type": event.type,
            "reason": event.reason,
            "note": event.message.encode()[:NOTE_LIMIT_BYTES].decode(errors="ignore"),
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": key.namespace,
                "name": key.name,
                "uid": record.model.uid,
            },
        }
