"""Reconciles one model, and runs the reconciles of all queued models.

    observe --> plan --> polls, gates --> apply --> plan again if that changed a child
            --> polls --> status, events

A model that is no longer ready gets its status first, because other writes may take long.

Level-driven: a reconcile depends on the whole state and never on the event that triggered it.
Watches, polls and the operator's own writes update the store. The only read of a reconcile is
that of earlier revisions, if the plan needs them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from moorage_operator.api.conditions import ConditionType, find_condition
from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.decide import plan as planning
from moorage_operator.decide.isolation import Isolation
from moorage_operator.kube import errors
from moorage_operator.probe.schedule.poller import Poller
from moorage_operator.process import logs
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.store.existence import ModelDropped, ModelGone
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.store.store import Store
from moorage_operator.values.gateways import NO_GATEWAYS, GatewaysObserved
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.observed import ObjectKey, Observed
from moorage_operator.values.plan import Plan
from moorage_operator.values.runtimes import NO_RUNTIMES, Runtimes, RuntimeState
from moorage_operator.values.urgency import Urgency
from moorage_operator.watch.references import Lookups
from moorage_operator.watch.revision_history import History
from moorage_operator.write.children import Applier
from moorage_operator.write.events import EventPoster
from moorage_operator.write.statuses import StatusWriter

from .resolutions import Resolutions
from .runtime_turns import RuntimeTurns
from .status_pace import StatusPace, is_urgent
from .workqueue import Closed, WorkQueue

logger = logging.getLogger(__name__)

RESTLESS_PODS = 20
"""A model with more pods than this rests after a reconcile."""

REST_SECONDS_A_POD = 0.002
"""A reconcile reads every pod of its model. The rest limits that to a few hundredths of a core per
model, regardless of how many pods it has and how often they change."""

LATER_SECONDS = 1.0
"""The delay of the next reconcile after a status was written, because the next plan may depend on
that status."""

PASS_TIMEOUT_SECONDS = 300.0
"""A reconcile makes a few requests of at most 30 s each, and waits to create children while many
models are new. If it takes longer than this, something hangs."""


@dataclass(frozen=True, slots=True)
class Hands:
    """The collaborators of a reconcile."""

    store: Store
    applier: Applier
    statuses: StatusWriter
    poller: Poller
    lookups: Lookups
    history: History
    events: EventPoster
    pace: StatusPace
    runtimes: Callable[[], Runtimes] = lambda: NO_RUNTIMES
    gateways: GatewayStore | None = None
    turns: RuntimeTurns = field(default_factory=RuntimeTurns)


class Reconciler:
    """Makes the cluster match a model, and reports the result in its status.

    Args:
        hands: The collaborators of a reconcile.
        config: The settings of this installation that a plan depends on.
        now: Returns the time in UTC.
        again: Called with a model that needs a reconcile, and its urgency.
    """

    def __init__(
        self,
        hands: Hands,
        config: OperatorConfig,
        *,
        now: Callable[[], datetime],
        again: Callable[[ObjectKey, Urgency], None],
    ) -> None:
        self._hands = hands
        self._config = config
        self._now = now
        self._isolation = Isolation(
            ask=hands.poller.ask_now,
            again=lambda key: again(key, Urgency.READINESS),
            changed=self._tell_of_isolation,
        )
        self._seen: dict[ObjectKey, str] = {}  # uids
        self._resolutions = Resolutions(hands.runtimes, hands.turns)

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile a model.

        Returns:
            Seconds until the next reconcile; None: the next event triggers it.

        Raises:
            ApiError: A step failed and is to be retried; the other steps are done.
        """
        record = self._hands.store.model(key)
        if record is None or record.model.deleting:
            self._forget(key)
            return await self._take_leave(record) if record else None
        self._seen[key] = record.model.uid
        resolution = self._resolutions.of(record)
        self._hands.turns.wait(key, resolution.state.awaits)
        try:
            return await self._pass(replace(record, model=resolution.model), resolution.state)
        except ModelDropped:
            return None  # if it has returned meanwhile, it is queued
        except ModelGone as gone:
            self._hands.store.drop_model(key, record.model.uid, gone.version)
            return None

    async def _pass(self, record: ModelRecord, runtime: RuntimeState) -> float | None:
        """Take all steps, even if one of them fails."""
        hands, failures = self._hands, list[errors.ApiError]()
        rendered = self._render(record.model)
        plan = await self._plan(record, rendered, runtime)
        if _retracts(record.status, plan.status):
            with errors.collected(failures):
                if await self._write_status(record, plan) is not None:
                    return 0.0  # the next reconcile makes the other writes
        with errors.collected(failures):
            await hands.statuses.write_gates(record, plan.gates)
        changed, undeleted = False, None
        if not plan.leaves_children:
            with errors.collected(failures):
                changed = await hands.applier.apply(
                    record, plan.objects, keeps_others=plan.keeps_others
                )
            undeleted = hands.applier.retry_seconds(record.key)
        if changed or failures:  # failed writes may have taken long
            plan = await self._plan(record, rendered, runtime)
        later = None
        with errors.collected(failures):
            later = await self._write_status(record, plan)
        if failures:
            raise failures[0]
        known = (each for each in (plan.requeue_after, later, undeleted) if each is not None)
        return min(known, default=None)

    async def _take_leave(self, record: ModelRecord) -> None:
        """Write the status of a model that is being deleted.

        The garbage collector deletes the children; applying them would work against it.

        Raises:
            ApiError: The status is to be written again.
        """
        generation = record.model.generation
        status = planning.status_of_deleted(record.status, generation=generation, now=self._now())
        self._seen[record.key] = record.model.uid
        try:
            await self._hands.statuses.write(record, status)
        except ModelGone as gone:
            self._hands.store.drop_model(record.key, record.model.uid, gone.version)

    def _render(self, model: InferenceModel) -> dict[str, Any]:
        """Return the pod template of the spec; empty for an invalid spec."""
        return {} if model.problems else make_pod_template(model, self._config)

    async def _plan(
        self, record: ModelRecord, rendered: dict[str, Any], runtime: RuntimeState
    ) -> Plan:
        """Plan from all that is known about the model and its earlier revisions.

        Its replicas are polled from then on, before the writes, which a webhook may delay.

        Raises:
            ModelDropped: The store has dropped the model since the reconcile began.
        """
        store, config = self._hands.store, self._config
        key, model = record.key, record.model
        while True:
            if not store.has(key, model.uid):
                raise ModelDropped
            observed = replace(
                store.observed(key),
                is_cut_off=self._isolation.is_cut_off,
                runtime=runtime,
                gateways=self._gateways_of(model),
            )
            unread = planning.unread(model, observed, rendered, now=self._now())
            if not unread:
                break
            # A revision that no longer exists is stored as None, so that each one is read once.
            found = await self._hands.history.read(key, unread)
            store.put_history(
                record,
                {
                    revision: each and planning.exact(each, revision, model, config)
                    for revision, each in found.items()
                },
            )
        plan = planning.plan(model, observed, now=self._now(), config=config, rendered=rendered)
        store.keep_history(key, plan.history)
        self._ask(key, observed, plan)
        return plan

    def _gateways_of(self, model: InferenceModel) -> GatewaysObserved:
        labels = self._hands.runtimes().namespace_labels
        known = (labels or {}).get(model.namespace)
        gateways = self._hands.gateways
        return gateways.of(model, known) if gateways else NO_GATEWAYS

    def _ask(self, key: ObjectKey, observed: Observed, plan: Plan) -> None:
        """Poll the replicas of the plan and look up its references."""
        hands = self._hands
        hands.poller.watch(key, plan.targets, plan.poll, plan.poll_interval_seconds)
        uid = plan.targets[0].pod_uid if plan.targets else ""
        self._isolation.record(key, uid, heard=plan.heard)
        hands.lookups.want(key, plan.references if _waits(observed) else frozenset())

    async def _write_status(self, record: ModelRecord, plan: Plan) -> float | None:
        """Write the status now if that is urgent, or else within the budget of status writes.

        Returns:
            Seconds until the next reconcile, which writes the status or depends on the written
            one; None if the status is up to date.
        """
        hands = self._hands
        if plan.status == record.status:
            hands.pace.forget(record.key)
            return None
        urgent = is_urgent(record.status, plan.status)
        wait = 0.0 if urgent else hands.pace.reserve(record.key, is_first=not record.status)
        if wait > 0:
            return wait
        if not await hands.statuses.write(record, plan.status):
            return None
        hands.pace.wrote(record.key)
        logger.info("status written", extra=_ready_of(plan))
        for event in plan.events:
            hands.events.post(record, event)
        before, after = (
            (status.get("revisions"), status.get("runtime"))
            for status in (record.status, plan.status)
        )
        return 0.0 if record.status and before != after else LATER_SECONDS

    def _tell_of_isolation(self, silent: int, models: int) -> None:
        counts = {"silent": silent, "models": models}
        if self._isolation.is_cut_off:
            logger.warning("most models do not answer the operator", extra=counts)
        else:
            logger.info("most models answer the operator again", extra=counts)

    def _forget(self, key: ObjectKey) -> None:
        # The garbage collector deletes the children; this only frees memory.
        self._hands.poller.forget(key)
        self._hands.applier.forget(key)
        self._hands.pace.forget(key)
        self._isolation.forget(key)
        self._hands.lookups.forget(key)
        self._hands.turns.forget(key)
        self._resolutions.forget(key)
        if uid := self._seen.pop(key, None):
            self._hands.statuses.forget(uid)


def rest_seconds(pods: int) -> float:
    """Return how long a model rests after a reconcile: 0.96 s with 500 pods, 0 with 20. Pure."""
    return max(0, pods - RESTLESS_PODS) * REST_SECONDS_A_POD


def _waits(observed: Observed) -> bool:
    """Whether a pod has not started, perhaps because of a missing reference."""
    pods = [pod for pod in observed.pods if not pod.deleting]
    return not pods or any(pod.runtime.running_since is None for pod in pods)


def _retracts(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the model was reported ready and is not any more, which no other write may delay."""
    was, is_ = (find_condition(each, ConditionType.READY) for each in (before, after))
    return was.get("status") == "True" and is_.get("status") != "True"


def _ready_of(plan: Plan) -> dict[str, str]:
    ready = find_condition(plan.status, ConditionType.READY)
    return {"ready": ready["status"], "reason": ready["reason"]} if ready else {}


async def work(
    queue: WorkQueue[ObjectKey],
    reconcile: Callable[[ObjectKey], Awaitable[float | None]],
    passed: Callable[[str, float], None],
    clock: Callable[[], float],
) -> None:
    """Reconcile the models of the queue until it is closed and the last reconcile has finished.

    Args:
        queue: The keys.
        reconcile: Reconciles a model; returns the seconds until its next reconcile.
        passed: Called after each reconcile with its outcome ("ok", "retry" or "error") and its
            duration in seconds.
        clock: Returns monotonic seconds.
    """

    async def run(key: ObjectKey) -> None:
        started = clock()
        outcome = "error"
        with logs.about(key):
            try:
                outcome = await _one(queue, key, reconcile)
            finally:
                queue.done(key)
                passed(outcome, clock() - started)

    async with asyncio.TaskGroup() as passes:
        while True:
            try:
                key = await queue.get()
            except Closed:
                return
            passes.create_task(run(key))
            # So that a long queue does not block other tasks. Starting several at once delays
            # polls and watches, and in a burst also the models themselves.
            await asyncio.sleep(0)


async def _one(
    queue: WorkQueue[ObjectKey],
    key: ObjectKey,
    reconcile: Callable[[ObjectKey], Awaitable[float | None]],
) -> str:
    deadline = asyncio.timeout(PASS_TIMEOUT_SECONDS)
    try:
        async with deadline:
            seconds = await reconcile(key)
    except errors.ApiError as error:
        delay = queue.retry(key, least_seconds=error.retry_after_seconds or 0.0)
        logger.warning("reconcile failed", extra={"error": error.message, "retry_in_s": delay})
        return "retry"
    except Exception as error:
        if isinstance(error, TimeoutError) and deadline.expired():
            delay = queue.retry(key)
            logger.warning("reconcile timed out", extra={"retry_in_s": delay})
            return "retry"
        # The only place that catches bugs, so that one model does not stop the others.
        delay = queue.retry(key)
        logger.exception("unexpected error in reconcile", extra={"retry_in_s": delay})
        return "error"
    queue.forget(key)
    queue.schedule(key, seconds)
    return "ok"
