"""Assembles the operator: creates its parts, and starts and stops them in order.

    client -> reflectors -> store <- models (kopf)          health server: from first to last
                            |  ^
                        queue  | results
                            v  |
                         worker -> applier, poller, lookups, events

Children are watched before models are reconciled, so that the first reconcile sees them. Shutdown
is in the reverse order and takes a few seconds.
"""

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import Any

from .api.inference_runtime import InferenceRuntime
from .kube import auth, kinds
from .kube.client import CONNECTIONS, KubeClient
from .kube.leadership import Leadership
from .kube.reflector import Reflector
from .probe.protocols.drivers import Drivers
from .probe.schedule.poller import Edges, Poller
from .process.health_server import HealthServer
from .process.lifecycle import Lifecycle
from .process.metrics import Metrics
from .reconcile.policy import Policy
from .reconcile.reconciler import Hands, Reconciler, rest_seconds, work
from .reconcile.runtime_fleet import RuntimeFleet
from .reconcile.runtime_turns import RuntimeTurns
from .reconcile.status_pace import StatusPace
from .reconcile.workqueue import WorkQueue
from .settings import Settings
from .store.existence import Existence
from .store.gateways import GatewayStore, gateway_keys
from .store.runtimes import RuntimeStore
from .store.store import Store
from .values.gateways import GatewayKey
from .values.model_record import ModelRecord
from .values.observed import ObjectKey
from .values.urgency import Urgency
from .watch import image_volumes
from .watch.arrival import Arrival
from .watch.models import Models
from .watch.namespaces import Namespaces, NamespaceWatch
from .watch.optional_kinds import OptionalKinds
from .watch.read_access import ReadAccess, reports
from .watch.references import Lookups
from .watch.reflectors import Watches
from .watch.revision_history import History
from .watch.runtimes import RuntimeWatch
from .watch.secret_reads import reading_by
from .write.children import Applier
from .write.events import EventPoster
from .write.runtime_statuses import RuntimeStatusWriter
from .write.statuses import StatusWriter
from .write.turns import Turns

logger = logging.getLogger(__name__)

DRAIN_SECONDS = 3.0
"""How long reconciles may take to finish at shutdown; the next process continues their work."""

STUCK_SECONDS = 300.0
"""The worker is stuck if no reconcile finishes for this time while a model waits."""

STATUSES = 3
"""Statuses that are written concurrently for each worker. In a burst, the models of one namespace
become ready together, and with fewer places their statuses wait for each other."""

NAMESPACES_LOOK_SECONDS = 0.2
"""The interval for checking watches during startup; later it is one second."""


def utc_now() -> datetime:
    """Return the current time, aware."""
    return datetime.now(UTC)


def boot_seconds() -> float:
    """Return monotonic seconds, including the time while the machine was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


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
        self._clock = loop.time
        self._metrics = Metrics()
        self._metrics.built(version)
        self._lifecycle = Lifecycle()
        self._is_ending = False
        self._available: frozenset[str] = frozenset()
        self._listed = False
        self._passed_at = loop.time()
        self._settled = asyncio.Event()
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            call_later=loop.call_later,
            clock=loop.time,
            rest=lambda key: rest_seconds(self._store.count_pods(key)),
            policy=Policy(),
        )
        self._existence = Existence(loop.time)
        self._store = Store(
            changed=self._queue.add, pod_moved=self._pod_moved, child_gone=self._existence.doubt
        )
        self._runtimes = RuntimeStore(
            changed=self._runtime_changed,
            namespace_changed=self._labels_changed,
            access_changed=self._runtime_access_changed,
        )
        self._gateways = GatewayStore(changed=self._gateway_changed)
        self._turns = RuntimeTurns()
        self._client = KubeClient(
            access,
            observe=self._metrics.called,
            # A write that waits for its turn holds none, so reads always find one.
            connections=max(CONNECTIONS, 2 * (1 + STATUSES) * settings.workers),
            clock=loop.time,
        )
        self._drivers = Drivers(reading_by(self._client), ca_file=settings.ca_file)
        self._poller = Poller(
            self._drivers,
            self._store.put_probe,
            self._store.forget_probe,
            Edges(
                clock=loop.time,
                polled=self._metrics.polled,
                smoked=self._metrics.smoked,
            ),
            polls_a_second=settings.polls_a_second,
        )
        self._lookups = Lookups(
            self._client, self._store.put_references, secret_hints=settings.secret_hints
        )
        self._events = EventPoster(
            self._client, instance=socket.gethostname(), clock=loop.time, now=utc_now
        )
        self._watches = Watches(
            self._client,
            self._store,
            self._gateways,
            self._metrics.watch_restarted,
            settings.namespaces,
            clock=time.monotonic,
            rewound=self._rewound,
        )
        self._reflectors = self._watches.make()
        self._optional = OptionalKinds(
            self._client,
            self._make_optional_reflectors,
            self._kinds_changed,
        )
        self._namespaces = Namespaces(
            settings.namespaces, self._namespace_watches, self._namespace_changed
        )
        self._read_access = ReadAccess(
            self._gateways, self._store, lambda: [*self._reflectors, *self._optional.reflectors]
        )
        self._models = Models(
            self._client,
            access,
            self._store,
            self._existence,
            self._namespaces,
            settings.watch_label_selector,
        )
        self._runtime_watch = RuntimeWatch(
            self._client, self._runtimes, self._metrics.watch_restarted, time.monotonic
        )
        serves_all = not settings.namespaces and not settings.watch_label_selector
        statuses = RuntimeStatusWriter(self._client, wrote=self._metrics.wrote)
        self._fleet = RuntimeFleet(
            self._store,
            self._runtimes,
            self._turns,
            statuses if serves_all else None,
            have_arrived=self._arrival().is_complete,
            now=utc_now,
            again=self._queue.add,
        )
        self._leadership = self._make_leadership()
        self._leads = asyncio.Event()
        self._measure()

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit status."""
        self._lifecycle.end_on_signals()
        async with AsyncExitStack() as stack:
            server = HealthServer(
                self._settings.health_host,
                self._settings.health_port,
                live=self.troubles,
                ready=self._unready,
                metrics=self._metrics.text,
            )
            try:
                await stack.enter_async_context(server)
            except OSError as error:
                logger.error("health server cannot listen", extra={"error": str(error)})  # noqa: TRY400 -- a port in use needs no stack trace
                return 1
            logger.info("health server listening", extra={"port": server.port})
            await stack.enter_async_context(self._client)
            stack.push_async_callback(self._drivers.close)
            stack.push_async_callback(self._lookups.close)
            return await self._serve()

    def troubles(self) -> Sequence[str]:
        """Return problems that a restart may fix; not broken watches, which are reopened."""
        found = [trouble] if (trouble := self._models.watch.trouble()) else []
        idle = self._clock() - self._passed_at
        if self._leads.is_set() and min(idle, self._queue.oldest_seconds) > STUCK_SECONDS:
            found.append("the worker is stuck: it takes no model from the queue")
        return found

    def _unready(self) -> Sequence[str]:
        """Return why the operator is not ready."""
        if self._is_ending:
            return ["the operator is shutting down"]
        if self._models.waiting:
            return [self._models.waiting]
        first = [] if self._listed else ["waiting for the initial lists of pods and children"]
        return [*first, *self._namespaces.troubles()]

    def _namespace_watches(self) -> Iterator[NamespaceWatch]:
        for each in self._reflectors:
            # Once it is listed, a lost right is reported in a condition, and models are served.
            is_required = not (reports(each) and each.synced.is_set())
            yield NamespaceWatch(each.liveness, each.synced.is_set, is_required=is_required)
        for liveness in self._models.watch.livenesses.values():
            yield NamespaceWatch(liveness)
        for each in self._optional.reflectors:
            if each.kind is kinds.GATEWAYS:
                continue  # a model whose Gateway cannot be read only lacks its URL
            yield NamespaceWatch(each.liveness, each.synced.is_set, is_required=False)

    def _namespace_changed(self, namespace: str, is_served: bool) -> None:
        if namespace:
            self._metrics.namespace_served.labels(namespace).set(is_served)
        for key, uid in self._store.uids().items():
            if key.namespace != namespace:
                continue
            if is_served:
                self._queue.add(key, Urgency.ROUTINE)
            else:
                self._store.drop_model(key, uid)
        if is_served and self._listed:
            self._models.relist()

    def _rewound(self) -> None:
        """Handle a restore of etcd, after which known resource versions are reused."""
        self._store.forget_versions()
        self._models.relist()

    async def _look_at_namespaces(self) -> None:
        while True:
            self._namespaces.look()
            self._read_access.look()
            if self._namespaces.are_settled:
                self._settled.set()
            await asyncio.sleep(1.0 if self._listed else NAMESPACES_LOOK_SECONDS)

    async def _serve(self) -> int:
        if not await self._lifecycle.unless_stopped(self._start()):
            return 0
        orderly = await self._lifecycle.stopped()
        await self._end()
        return 0 if orderly else 1

    async def _start(self) -> None:
        await self._models.wait_for_crd()
        for reflector in self._reflectors:
            self._lifecycle.spawn(reflector.run(), f"watch {reflector.kind.rbac_name}")
        self._lifecycle.spawn(self._optional.run(), "optional kinds")
        self._lifecycle.spawn(self._runtime_watch.run(), "watch inferenceruntimes")
        # Models are listed meanwhile, but reconciled only after pods and children are known.
        self._lifecycle.spawn(self._models.run(), "watch inferencemodels")
        self._lifecycle.spawn(self._look_at_namespaces(), "namespaces")
        synced = asyncio.create_task(self._all_settled(), name="settled")
        if not await self._lifecycle.unless_one_ends(synced):
            return  # a reflector ended by itself, which is a bug
        config = await image_volumes.settled(
            self._client,
            self._settings.config,
            self._settings.image_volumes,
            self._settings.namespaces,
        )
        self._listed = True
        namespaces, selector = self._settings.namespaces, self._settings.watch_label_selector
        scope = {"namespaces": list(namespaces), "selector": selector}
        logger.info("operator started", extra=scope)
        reconciler = Reconciler(
            self._hands(),
            config,
            now=utc_now,
            again=self._queue.add,
        )
        if self._leadership is None:
            self._leads.set()
        else:
            self._client.write_seconds = self._leadership.write_seconds
            self._lifecycle.spawn(self._lead(self._leadership), "leadership")
        reconcile = partial(self._reconcile_served, reconciler)
        worker = work(self._queue, reconcile, self._passed, self._clock)
        self._lifecycle.spawn(self._once_leading(worker), "worker")
        self._lifecycle.spawn(self._once_leading(self._fleet.run()), "runtimes")
        self._lifecycle.spawn(self._poller.run(), "poller")
        self._lifecycle.spawn(self._events.run(), "events")
        self._lifecycle.spawn(self._models.sweep(), "sweep")

    async def _all_settled(self) -> None:
        for each in (self._settled, self._optional.settled, self._runtime_watch.settled):
            await each.wait()

    async def _reconcile_served(self, reconciler: Reconciler, key: ObjectKey) -> float | None:
        """Reconcile a model if its pods and children are known."""
        if self._store.model(key) is not None and not self._namespaces.is_served(key.namespace):
            return None  # it is added again once the namespace is served
        try:
            return await reconciler.reconcile(key)
        finally:
            self._fleet.look()

    def _passed(self, outcome: str, seconds: float) -> None:
        self._passed_at = self._clock()
        self._metrics.passed(outcome, seconds)

    async def _lead(self, leadership: Leadership) -> None:
        """Acquire leadership; meanwhile the store is kept up to date."""
        async with asyncio.TaskGroup() as group:  # a leader that cannot begin ends
            beginning = group.create_task(self._begin_to_lead(leadership))
            await leadership.run()
            beginning.cancel()

    async def _begin_to_lead(self, leadership: Leadership) -> None:
        await leadership.acquired.wait()
        await self._models.catch_up(self._runtimes, self._watches.children)
        self._leads.set()

    async def _once_leading(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await self._leads.wait()
        except asyncio.CancelledError:
            coroutine.close()
            raise
        await coroutine

    async def _end(self) -> None:
        self._is_ending = True
        self._queue.close()
        await self._lifecycle.drain("worker", DRAIN_SECONDS)
        await self._lifecycle.cancel()
        await self._lookups.close()
        if self._leadership is not None:
            # After the last write, so that only the next leader writes.
            await self._leadership.release()
        logger.info("operator stopped")

    def _hands(self) -> Hands:
        applier = Applier(
            self._client,
            self._store,
            self._existence,
            self._watches.children,
            wrote=self._metrics.wrote,
            turns=Turns(self._settings.workers),
            missing=self._optional.look_again,
            clock=self._clock,
        )
        return Hands(
            self._store,
            applier,
            StatusWriter(
                self._client,
                self._store,
                self._existence,
                selector=self._settings.watch_label_selector,
                turns=Turns(STATUSES * self._settings.workers),
                wrote=self._metrics.wrote,
                clock=self._clock,
            ),
            self._poller,
            self._lookups,
            History(self._client),
            self._events,
            StatusPace(self._clock),
            lambda: self._runtimes.current,
            self._gateways,
            self._turns,
        )

    def _arrival(self) -> Arrival:
        selector = self._settings.watch_label_selector
        return Arrival(self._client, self._store, self._models.served, selector, self._clock)

    def _make_optional_reflectors(self, kind: str) -> list[Reflector]:
        return self._watches.make_optional(kind, self._optional.look_again)

    def _runtime_changed(
        self, before: InferenceRuntime | None, after: InferenceRuntime | None
    ) -> None:
        self._fleet.runtime_changed(before, after)

    def _labels_changed(self, namespace: str) -> None:
        self._fleet.labels_changed(namespace)
        if self._listed:  # before, all models are going to be reconciled anyway
            self._reconcile_routed(lambda record: record.key.namespace == namespace)

    def _runtime_access_changed(self) -> None:
        self._fleet.access_changed()
        self._reconcile_routed(lambda _: True)

    def _gateway_changed(self, gateway: GatewayKey | None) -> None:
        """Reconcile the models behind a changed Gateway; None means all Gateways."""
        self._reconcile_routed(
            lambda record: gateway is None or gateway in gateway_keys(record.model)
        )

    def _reconcile_routed(self, concerned: Callable[[ModelRecord], bool]) -> None:
        """Reconcile models behind Gateways, whose listeners may select namespaces by labels."""
        for record in self._store.models():
            if record.model.route.parent_refs and concerned(record):
                self._queue.add(record.key, Urgency.ROUTINE)

    def _kinds_changed(self, available: frozenset[str]) -> None:
        for kind in kinds.OPTIONAL:
            self._metrics.optional_kinds.labels(kind).set(kind in available)
        if kinds.GATEWAY in self._available - available:
            self._gateways.forget()
        self._available = available
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
            clock=boot_seconds,
            now=utc_now,
        )

    def _pod_moved(self, uid: str) -> None:
        self._poller.ask_now(uid)

    def _measure(self) -> None:
        """Set the functions that each scrape calls for metrics that change constantly."""
        metrics = self._metrics
        metrics.queue_depth.set_function(lambda: self._queue.depth)
        metrics.queue_oldest.set_function(lambda: self._queue.oldest_seconds)
        metrics.poll_targets.set_function(lambda: self._poller.targets)
        metrics.poll_least_interval.set_function(lambda: self._poller.least_interval_seconds)
        metrics.leading.set_function(self._leads.is_set)
        metrics.read(self._store.models, self._certificate_expiry)

    def _certificate_expiry(self, record: ModelRecord) -> float | None:
        """Return when the first certificate of a model's servers expires, as Unix time."""
        secret = record.model.tls.secret_name
        if not secret:
            return None
        hosts = self._store.addresses(record.key)
        return self._drivers.certificates.earliest(record.key.namespace, secret, hosts)
