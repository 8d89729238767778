"""One simulated operator process, assembled from the operator's own parts like App.

kopf is replaced by a watch of the models that calls the same functions as kopf's handler, and the
protocol drivers by one that queries simulated servers. There are no health server and no metrics.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from moorage_operator.api.config import OperatorConfig
from moorage_operator.kube import errors, kinds
from moorage_operator.kube.leadership import Leadership
from moorage_operator.kube.reflector import Reflector, watch_seconds
from moorage_operator.probe.schedule.poller import Edges, Poller
from moorage_operator.reconcile.policy import Policy
from moorage_operator.reconcile.reconciler import Hands, Reconciler, rest_seconds, work
from moorage_operator.reconcile.runtime_fleet import RuntimeFleet
from moorage_operator.reconcile.runtime_turns import RuntimeTurns
from moorage_operator.reconcile.status_pace import StatusPace
from moorage_operator.reconcile.workqueue import WorkQueue
from moorage_operator.store.existence import Existence
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.store.plain_sink import PlainSink
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.watch import kopf_source
from moorage_operator.watch.arrival import Arrival
from moorage_operator.watch.catching_up import catch_up
from moorage_operator.watch.models import SWEEP_SECONDS
from moorage_operator.watch.optional_kinds import OptionalKinds
from moorage_operator.watch.references import Lookups
from moorage_operator.watch.reflectors import Watches
from moorage_operator.watch.revision_history import History
from moorage_operator.write.children import Applier
from moorage_operator.write.events import EventPoster
from moorage_operator.write.runtime_statuses import RuntimeStatusWriter
from moorage_operator.write.statuses import StatusWriter
from moorage_operator.write.turns import Turns
from simulation.clock import OWNER, Owner, SimulatedLoop, moment
from simulation.network import Network, SimulatedClient
from simulation.servers import Drivers, Servers

CONFIG = OperatorConfig(runtime_image="example/runtime:1")
PASSES = 2
PLACES = 2
RESTART_SECONDS = 1.0
APART_SECONDS = 1.0
"""The maximum time between two models of a list, if there are several models."""
LEASE_NAMESPACE = "moorage-system"


class Process:
    """A process of the operator; recreated after it was killed.

    Args:
        network: Its connection to the API server.
        servers: The simulated model servers.
        loop: The event loop of the simulation.
        identity: Its name for leader election; empty for a single process.
        ended: Called when the process exits on its own.
        has_runtimes: Whether the kind InferenceRuntime is installed.
        selector: Label selector of the models that it serves; "" for all.
        routes: The kinds of routes of the Gateway API that are installed.
        changes_kinds: Whether these come and go.

    Attributes:
        clock_error: By how many seconds the clock of its machine is ahead of the API server's.
    """

    def __init__(
        self,
        network: Network,
        servers: Servers,
        loop: SimulatedLoop,
        identity: str,
        ended: Callable[["Process", str], None],
        *,
        has_runtimes: bool = False,
        selector: str = "",
        routes: Sequence[str] = (),
        changes_kinds: bool = False,
    ) -> None:
        self.network = network
        self.identity = identity
        self.clock_error = 0.0
        self.leadership: Leadership | None = None
        self._servers = servers
        self._loop = loop
        self._ended = ended
        self._owner = Owner()
        self._is_dead = False
        self._has_runtimes = has_runtimes
        self._selector = selector
        self._optional = routes
        self._changes_kinds = changes_kinds

    def start(self) -> None:
        """Start the process, with all tasks in its own context."""
        context = contextvars.copy_context()
        context.run(OWNER.set, self._owner)
        self._loop.create_task(self._live(), context=context)

    def kill(self) -> None:
        """Kill the process, in the middle of any operation."""
        self._is_dead = True
        self.network.cut()
        self._loop.thaw(self._owner)
        while alive := [task for task in self._owner.tasks if not task.done()]:
            self._owner.tasks.clear()
            for task in alive:
                task.cancel()

    def freeze(self) -> None:
        """Suspend the process in the middle of any operation while time continues."""
        self.network.lose()
        self._loop.freeze(self._owner)

    def thaw(self) -> None:
        """Resume."""
        self._loop.thaw(self._owner)

    async def _live(self) -> None:
        why = "ended"
        try:
            await self._work()
        except asyncio.CancelledError:
            raise
        except ExceptionGroup as group:  # the process exits when a task ends
            why = ", ".join(f"{type(error).__name__}: {error}" for error in group.exceptions)
        if not self._is_dead:
            self._ended(self, why)

    async def _work(self) -> None:  # noqa: PLR0915 -- assembles everything, like App
        loop, servers, selector = self._loop, self._servers, self._selector
        queue: WorkQueue[ObjectKey] = WorkQueue(
            call_later=loop.call_later,
            clock=loop.time,
            rest=lambda key: rest_seconds(store.count_pods(key)),
            policy=Policy(passes=PASSES),
        )
        existence = Existence(loop.time)
        store = Store(
            changed=queue.add,
            pod_moved=lambda uid: poller.ask_now(uid),  # noqa: PLW0108 -- made later
            child_gone=existence.doubt,
        )
        client = SimulatedClient(self.network, loop.time)
        now = lambda: moment(loop.time() + self.clock_error)  # noqa: E731 -- passed on
        poller = Poller(
            Drivers(servers, self.network.connected),
            store.put_probe,
            store.forget_probe,
            Edges(clock=loop.time),
            polls_a_second=50,
        )
        lookups = Lookups(client, store.put_references)
        events = EventPoster(client, instance=self.network.who, clock=loop.time, now=now)
        relist = asyncio.Event()

        def rewound() -> None:
            store.forget_versions()
            relist.set()

        gateways = GatewayStore(changed=lambda _: None)
        watches = Watches(
            client,
            store,
            gateways,
            lambda _: lambda _: None,
            (),
            clock=loop.time,
            rewound=rewound,
        )
        reflectors = watches.make()
        optional = OptionalKinds(
            client,
            lambda kind: watches.make_optional(kind, optional.look_again),
            store.put_available_kinds,
        )
        for kind in () if self._changes_kinds else self._optional:
            reflectors += watches.make_optional(kind, lambda: None)
        applier = Applier(
            client,
            store,
            existence,
            watches.children,
            wrote=lambda _: None,
            turns=Turns(PLACES),
            missing=optional.look_again,
            clock=loop.time,
        )
        turns = RuntimeTurns()

        runtimes = RuntimeStore(
            changed=lambda *of: fleet.runtime_changed(*of),  # noqa: PLW0108 -- made later
            namespace_changed=lambda of: fleet.labels_changed(of),  # noqa: PLW0108 -- as above
            access_changed=lambda: fleet.access_changed(),  # noqa: PLW0108 -- as above
        )
        fleet = RuntimeFleet(
            store,
            runtimes,
            turns,
            RuntimeStatusWriter(client, wrote=lambda _: None),
            have_arrived=Arrival(client, store, lambda: (), selector, loop.time).is_complete,
            now=now,
            again=queue.add,
        )
        hands = Hands(
            store,
            applier,
            StatusWriter(
                client,
                store,
                existence,
                selector=selector,
                turns=Turns(PLACES),
                wrote=lambda _: None,
                clock=loop.time,
            ),
            poller,
            lookups,
            History(client),
            events,
            StatusPace(loop.time),
            lambda: runtimes.current,
            turns=turns,
        )
        reconciler = Reconciler(hands, CONFIG, now=now, again=queue.add)

        async def reconcile(key: ObjectKey) -> float | None:
            try:
                return await reconciler.reconcile(key)
            finally:
                fleet.look()

        if self._has_runtimes:
            sink = PlainSink(runtimes.put_runtime, runtimes.drop_runtime)
            kind = kinds.INFERENCE_RUNTIMES
            reflectors.append(Reflector(client, kind, sink, clock=loop.time))
        async with asyncio.TaskGroup() as group:
            for reflector in reflectors:
                group.create_task(reflector.run())
            take = partial(kopf_source.take, store, existence)
            apart = APART_SECONDS if self._has_runtimes else 0.0
            group.create_task(_watch_models(client, store, take, relist, apart, selector))
            for reflector in reflectors:
                await reflector.synced.wait()
            if self._changes_kinds:
                group.create_task(optional.run())
                await optional.settled.wait()
            else:
                store.put_available_kinds(frozenset(self._optional))
            if self.identity:
                self.leadership = Leadership(
                    client,
                    LEASE_NAMESPACE,
                    "moorage-operator",
                    identity=self.identity,
                    clock=loop.time,
                    now=now,
                )
                client.write_seconds = self.leadership.write_seconds
                group.create_task(self.leadership.run())
                await self.leadership.acquired.wait()
                await catch_up(
                    client, store, runtimes, watches.children, lambda: ("",), selector=selector
                )
            group.create_task(work(queue, reconcile, lambda *_: None, loop.time))
            group.create_task(poller.run())
            if self._has_runtimes:
                group.create_task(fleet.run())
            group.create_task(events.run())
            group.create_task(_sweep(client, store, selector))


async def _watch_models(
    client: SimulatedClient,
    store: Store,
    take: Callable[[Any], None],
    relist: asyncio.Event,
    apart_seconds: float,
    selector: str,
) -> None:
    """List, watch and list again like kopf, which does not report missed deletions.

    The models of a list arrive one by one.
    """
    version = ""
    while True:
        try:
            if not version or relist.is_set():
                relist.clear()
                await kopf_source.sweep(client, store, (), selector=selector)
                page = await client.page(kinds.INFERENCE_MODELS, selector=selector)
                for body in page.items:
                    take({"type": None, "object": body})
                    if apart_seconds:
                        await asyncio.sleep(apart_seconds * random.random())
                version = page.resource_version
            async for change in client.watch(
                kinds.INFERENCE_MODELS,
                selector=selector,
                resource_version=version,
                seconds=watch_seconds(),
            ):
                if change.type != "BOOKMARK":
                    take({"type": change.type, "object": change.object})
                version = change.object["metadata"]["resourceVersion"]
        except errors.Gone:
            version = ""
        except errors.ApiError:
            await asyncio.sleep(RESTART_SECONDS)


async def _sweep(client: SimulatedClient, store: Store, selector: str) -> None:
    while True:
        await asyncio.sleep(SWEEP_SECONDS)
        try:
            await kopf_source.sweep(client, store, (), selector=selector)
        except errors.ApiError:
            continue
