"""The operator put together by hand: what is made of what, started and stopped in which order.

    client -> reflectors -> store <- handlers (kopf)          health server: from first to last
                            |  ^
                        queue  | results
                            v  |
                         workers -> applier, poller, lookups, events

It starts watching children before it works on models, so that the first pass sees what is there;
and it ends in the reverse order, within a few seconds.
"""

import asyncio
import logging
import signal
import socket
import uuid
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

from . import handlers, heap, image_volumes
from .apply import Applier
from .events import EventPoster
from .existence import Existence
from .health_server import HealthServer
from .history import History
from .kube import auth, errors, kinds
from .kube.client import KubeClient
from .kube.reflector import Reflector
from .leadership import Leadership
from .metrics import Metrics
from .optional_kinds import OptionalKinds
from .probe.drivers import Drivers
from .probe.poller import Edges, Poller
from .reconciler import Hands, Reconciler, rest_seconds, work
from .referenced import Lookups
from .settings import Settings
from .state import ObjectKey
from .status_pace import StatusPace
from .status_writes import StatusWriter
from .store import Store
from .urgency import Urgency
from .watches import Watches
from .workqueue import CROWD, MAKING, WorkQueue, bounds_for

logger = logging.getLogger(__name__)

CRD_WAIT_SECONDS = 2.0
RESTART_SECONDS = 1.0
SWEEP_SECONDS = 600.0
GATHER_SECONDS = 0.5
"""What nobody waits for waits so long for more of its kind, so that one pass sees all of it."""

ANSWER_SECONDS = 0.005, 0.1
"""A change of readiness waits for the answers of servers that are being asked for twice as long as
answers take, within these; when the last has come it waits no longer."""

DRAIN_SECONDS = 3.0
"""Passes under way get so long to end; what they leave undone the next process does."""

STALE_SECONDS = 240.0
"""A watch that heard nothing, not even a bookmark, over three reconnects is stuck."""

STUCK_SECONDS = 300.0
"""A key that no worker takes for so long means that the workers hang."""


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


class App:
    """One process of the operator.

    Args:
        settings: Its settings.
        access: The API server.
        version: The operator's version.
    """

    def __init__(self, settings: Settings, access: auth.Access, version: str) -> None:
        loop = asyncio.get_running_loop()
        self._settings = settings
        self._access = access
        self._clock = loop.time
        self._metrics = Metrics()
        self._metrics.built(version)
        self._stop = asyncio.Event()
        self._waiting = "waiting for the API server"
        self._listed = False
        self._tasks: list[asyncio.Task[None]] = []
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            call_later=loop.call_later,
            clock=loop.time,
            rest=lambda key: rest_seconds(self._store.count_pods(key)),
            bounds=bounds_for(settings.workers),
            gather=self._moment,
        )
        self._existence = Existence(loop.time)
        self._store = Store(
            changed=self._queue.add, pod_moved=self._pod_moved, child_gone=self._existence.doubt
        )
        self._client = KubeClient(access, observe=self._metrics.called, clock=loop.time)
        self._drivers = Drivers()
        self._poller = Poller(
            self._drivers,
            self._store.put_probe,
            Edges(
                clock=loop.time,
                now=utc_now,
                polled=self._metrics.polled,
                smoked=self._metrics.smoked,
            ),
            polls_a_second=settings.polls_a_second,
        )
        self._lookups = Lookups(self._client, self._store.put_references)
        self._events = EventPoster(
            self._client, instance=socket.gethostname(), clock=loop.time, now=utc_now
        )
        self._watches = Watches(
            self._client, self._store, self._metrics, settings.namespaces, loop.time
        )
        self._reflectors = self._watches.make()
        self._optional = OptionalKinds(
            self._client,
            self._make_optional_reflectors,
            self._kinds_changed,
        )
        self._leadership = self._make_leadership()
        self._leads = asyncio.Event()

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT; the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with AsyncExitStack() as stack:
            server = HealthServer(
                self._settings.health_host,
                self._settings.health_port,
                live=self.troubles,
                ready=self._unready,
                metrics=self._exposition,
            )
            try:
                await stack.enter_async_context(server)
            except OSError as error:
                logger.error("health server cannot listen", extra={"error": str(error)})  # noqa: TRY400 -- a full port is the user's, not a defect with a stack
                return 1
            logger.info("health server listens", extra={"port": server.port})
            await stack.enter_async_context(self._client)
            stack.push_async_callback(self._drivers.close)
            stack.push_async_callback(self._lookups.close)
            return await self._serve()

    def troubles(self) -> Sequence[str]:
        """What a restart might mend."""
        now = self._clock()
        found = [
            f"the watch of {reflector.kind.rbac_name} is silent"
            for reflector in [*self._reflectors, *self._optional.reflectors]
            if reflector.synced.is_set() and now - reflector.last_heard > STALE_SECONDS
        ]
        if self._leads.is_set() and self._queue.oldest_seconds > STUCK_SECONDS:
            found.append("no worker takes a model from the queue")
        return found

    def _unready(self) -> Sequence[str]:
        """What the process waits for before it can be relied on."""
        if self._waiting:
            return [self._waiting]
        return [] if self._listed else ["waiting for the first list of pods and children"]

    async def _serve(self) -> int:
        started = await self._unless_stopped(self._start())
        if not started:
            return 0
        ending = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait([ending, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        orderly = self._stop.is_set()
        if not orderly:
            self._report_dead_tasks()
        await self._end()
        ending.cancel()
        return 0 if orderly else 1

    async def _start(self) -> None:
        await self._wait_for_crd()
        for reflector in self._reflectors:
            self._spawn(reflector.run(), f"watch {reflector.kind.rbac_name}")
        self._spawn(self._optional.run(), "optional kinds")
        # Listed meanwhile, and looked at by nobody before pods and children are known.
        self._spawn(self._watch_models(), "watch inferencemodels")
        synced = asyncio.gather(
            *(reflector.synced.wait() for reflector in self._reflectors),
            self._optional.settled.wait(),
        )
        await asyncio.wait([synced, *self._tasks], return_when=asyncio.FIRST_COMPLETED)
        if not synced.done():  # a reflector never ends by itself: a defect of ours
            synced.cancel()
            return
        config = await image_volumes.settled(self._client, self._settings)
        self._listed = True
        namespaces, selector = self._settings.namespaces, self._settings.watch_label_selector
        scope = {"namespaces": list(namespaces), "selector": selector}
        logger.info("operator started", extra=scope)
        reconciler = Reconciler(
            self._hands(),
            config,
            now=utc_now,
            crowded=lambda: any(map(self._queue.waiting, MAKING)),
            again=self._queue.add,
        )
        if self._leadership is None:
            self._leads.set()
        else:
            self._client.gate = self._leadership.may_write
            self._spawn(self._lead(self._leadership), "leadership")
        for number in range(CROWD * self._settings.workers):
            worker = work(self._queue, reconciler.reconcile, self._metrics.passed, self._clock)
            self._spawn(self._once_leading(worker), f"worker {number}")
        self._spawn(self._poller.run(), "poller")
        self._spawn(self._events.run(), "events")
        self._spawn(self._sweep(), "sweep")
        self._spawn(heap.keep_trimmed(), "heap")

    async def _lead(self, leadership: Leadership) -> None:
        """Try to lead; a process that waits has everything in the store by the time it does."""
        announcing = asyncio.create_task(leadership.acquired.wait())
        announcing.add_done_callback(lambda _: self._leads.set())
        await leadership.run()

    async def _once_leading(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await self._leads.wait()
        except asyncio.CancelledError:
            coroutine.close()
            raise
        await coroutine

    async def _watch_models(self) -> None:
        """Watch the models; where that breaks, wait for the CRD and watch again."""
        while True:
            await self._wait_for_crd()
            take = partial(handlers.take, self._store, self._existence)
            namespaces, selector = self._settings.namespaces, self._settings.watch_label_selector
            try:
                await self._forget_missed()
                await handlers.watch_models(self._access, take, namespaces, selector=selector)
            except Exception as error:  # noqa: BLE001 -- kopf raises whatever it gives up for
                logger.warning("watch of the models broke", extra={"error": str(error)})
            await asyncio.sleep(RESTART_SECONDS)

    async def _wait_for_crd(self) -> None:
        told = ""
        while True:
            try:
                if await self._client.serves(kinds.INFERENCE_MODELS):
                    self._waiting = ""
                    return
                reason = (
                    "the CRD inferencemodels.moorage.dev is not installed: apply "
                    "crds/inferencemodels.yaml or install the chart"
                )
            except errors.ApiError as error:
                reason = f"the API server does not answer: {error.message}"
            self._waiting = reason
            if reason != told:
                logger.warning("waiting", extra={"reason": reason})
                told = reason
            await asyncio.sleep(CRD_WAIT_SECONDS)

    async def _unless_stopped(self, coroutine: Coroutine[Any, Any, None]) -> bool:
        """Whether the coroutine ended before the process was told to."""
        task = asyncio.create_task(coroutine, name="start")
        ending = asyncio.create_task(self._stop.wait(), name="stop")
        await asyncio.wait([task, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if task.done():
            task.result()
            return True
        task.cancel()
        await asyncio.gather(task, *self._cancelled(), return_exceptions=True)
        return False

    async def _end(self) -> None:
        self._waiting = "the operator is ending"
        self._queue.close()
        workers = [task for task in self._tasks if task.get_name().startswith("worker")]
        if workers:
            await asyncio.wait(workers, timeout=DRAIN_SECONDS)
        await asyncio.gather(*self._cancelled(), return_exceptions=True)
        await self._lookups.close()
        if self._leadership is not None:
            # after the last write, so that the next leader writes alone
            await self._leadership.release()
        logger.info("operator ended")

    def _cancelled(self) -> list[asyncio.Task[None]]:
        for task in self._tasks:
            task.cancel()
        return self._tasks

    def _report_dead_tasks(self) -> None:
        for task in self._tasks:
            if task.done() and not task.cancelled():
                logger.error(
                    "task ended", extra={"task": task.get_name()}, exc_info=task.exception()
                )

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self._forget_missed()
            except errors.ApiError as error:
                logger.warning("sweep failed", extra={"error": error.message})

    async def _forget_missed(self) -> None:
        if self._store.uids():
            gone = await handlers.sweep(
                self._client,
                self._store,
                self._settings.namespaces,
                selector=self._settings.watch_label_selector,
            )
            if gone:
                logger.info("missed deletions found", extra={"models": gone})

    def _hands(self) -> Hands:
        applier = Applier(
            self._client,
            self._store,
            self._existence,
            self._watches.children,
            wrote=self._metrics.wrote,
            missing=self._optional.look_again,
            clock=self._clock,
        )
        return Hands(
            self._store,
            applier,
            StatusWriter(self._client, self._store, self._existence, wrote=self._metrics.wrote),
            self._poller,
            self._lookups,
            History(self._client),
            self._events,
            StatusPace(self._clock, asyncio.get_running_loop().call_later, self._queue.add),
        )

    def _make_optional_reflectors(self, kind: str) -> list[Reflector]:
        return self._watches.make_optional(kind, self._optional.look_again)

    def _kinds_changed(self, available: frozenset[str]) -> None:
        for kind in kinds.OPTIONAL:
            self._metrics.optional_kinds.labels(kind).set(kind in available)
        self._store.put_available_kinds(available)

    def _make_leadership(self) -> Leadership | None:
        settings = self._settings
        if not settings.lease_namespace:
            return None
        return Leadership(
            self._client,
            settings.lease_namespace,
            settings.lease_name,
            identity=f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}",
            clock=self._clock,
            now=utc_now,
        )

    def _pod_moved(self, uid: str) -> None:
        self._poller.ask_now(uid)

    def _moment(self, key: ObjectKey, urgency: Urgency) -> float:
        if urgency is Urgency.READINESS and self._poller.owed.is_owed(key):
            least, most = ANSWER_SECONDS
            return max(least, min(most, 2 * self._poller.usual.seconds))
        return GATHER_SECONDS if urgency is Urgency.ROUTINE else 0.0

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(coroutine, name=name))

    def _exposition(self) -> bytes:
        metrics = self._metrics
        metrics.queue_depth.set(self._queue.depth)
        metrics.queue_oldest.set(self._queue.oldest_seconds)
        metrics.poll_targets.set(self._poller.targets)
        metrics.poll_least_interval.set(self._poller.least_interval_seconds)
        metrics.leading.set(self._leads.is_set())
        metrics.tell_readiness(self._store.readiness())
        return metrics.text()
