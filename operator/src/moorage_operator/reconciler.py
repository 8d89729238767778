"""One pass over one model, and the workers that take keys to it.

    observe --> plan --> apply --> plan again where that changed the world --> gates --> status

Level-driven: a pass looks at the whole state and never at what woke it. The stores are fed by
watches, by polls and by its own writes; all that a pass reads itself is what an earlier revision
was made from, when its plan needs that.

While more models wait for their children than there are workers, new ones have short passes: the
Service, in a second pass the Deployment, and a verdict that somebody waits for; the rest is left
to a later one. So the last of a thousand models that are made at once has its pods on the way
before the first has its budget. Services go before Deployments, because the API server gives out
their addresses one after the other, and slowly once it is busy with pods.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from . import logs
from . import plan as planning
from .apply import Applier
from .config import OperatorConfig
from .events import EventPoster
from .existence import ModelGone
from .history import History
from .kube import errors
from .opened import ModelRecord
from .planned import Plan
from .probe.poller import Poller
from .referenced import Lookups
from .state import ObjectKey, Observed
from .status_pace import StatusPace, is_urgent
from .status_writes import StatusWriter
from .store import Store
from .urgency import Urgency
from .workqueue import Closed, WorkQueue

logger = logging.getLogger(__name__)

RESTLESS_PODS = 20
"""So many pods a model has for nothing."""

REST_SECONDS_A_POD = 0.002
"""A pass looks at each pod of its model; so a model takes a few hundredths of a core at most for
looking at its pods, however many they are and however often they change."""

SERVING_KINDS = ("Service", "Deployment")
"""What a model cannot serve without, in the order in which a crowd gets it."""

LATER_SECONDS = 1.0
"""After a pass that wrote a status from which something follows its model is looked at again, if
nothing happens to it before."""

PASS_TIMEOUT_SECONDS = 60.0
"""A pass is a handful of requests of at most 30 s each; beyond this something hangs."""


@dataclass(frozen=True, slots=True)
class Hands:
    """What a pass acts with."""

    store: Store
    applier: Applier
    statuses: StatusWriter
    poller: Poller
    lookups: Lookups
    history: History
    events: EventPoster
    pace: StatusPace


class Reconciler:
    """Makes the cluster follow a model, and its status tell the truth.

    Args:
        hands: What a pass acts with.
        config: What the plan must know of this installation.
        now: The time in UTC.
        crowded: Whether other models wait for their children.
        again: Called with a model that is to be looked at again, and how urgent that is.
    """

    def __init__(
        self,
        hands: Hands,
        config: OperatorConfig,
        *,
        now: Callable[[], datetime],
        crowded: Callable[[], bool],
        again: Callable[[ObjectKey, Urgency], None],
    ) -> None:
        self._hands = hands
        self._config = config
        self._now = now
        self._crowded = crowded
        self._again = again
        self._unfinished: dict[ObjectKey, None] = {}  # in the order of their short passes
        self._seen: dict[ObjectKey, str] = {}  # uids

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Seconds after which the model must be looked at again; None: when something happens.

        Raises:
            ApiError: A write failed for now: try again.
        """
        self._finish_others()
        record = self._hands.store.model(key)
        if record is None or record.model.deleting:
            self._forget(key)
            return None
        self._seen[key] = record.model.uid
        try:
            return await self._pass(record, short=self._is_short(record))
        except ModelGone:
            self._hands.store.drop_model(key, record.model.uid)
            return None

    def _finish_others(self) -> None:
        """Have the models looked at whose passes were short, once no other waits any more."""
        if self._unfinished and not self._crowded():
            for key in self._unfinished:
                self._again(key, Urgency.ROUTINE)
            self._unfinished.clear()

    def _is_short(self, record: ModelRecord) -> bool:
        """Whether the model is new and one of many."""
        self._unfinished.pop(record.key, None)
        if record.status or not self._crowded():
            return False
        self._unfinished[record.key] = None
        return True

    async def _pass(self, record: ModelRecord, *, short: bool) -> float | None:
        hands = self._hands
        observed, plan = await self._plan(record)
        if await self._apply(record, plan, short=short):
            if short:
                return None
            observed, plan = await self._plan(record)
        hands.poller.watch(record.key, plan.targets, plan.poll, plan.poll_interval_seconds)
        hands.lookups.want(record.key, plan.references if _waits(observed) else frozenset())
        await hands.statuses.write_gates(record, plan.gates)
        later = await self._write_status(record, plan, short=short)
        for event in plan.events:
            hands.events.post(record, event)
        known = (each for each in (plan.requeue_after, later) if each is not None)
        return min(known, default=None)

    async def _apply(self, record: ModelRecord, plan: Plan, *, short: bool) -> bool:
        """Whether the children changed; a model that cannot have them is at least told so."""
        objects = self._serving(record, plan) if short else plan.objects
        keeps_others = short or plan.keeps_others
        try:
            return await self._hands.applier.apply(record, objects, keeps_others=keeps_others)
        except errors.ApiError:
            if not record.status:
                await self._write_status(record, plan, short=False)
            raise

    def _serving(self, record: ModelRecord, plan: Plan) -> tuple[dict[str, Any], ...]:
        """What a short pass applies: the objects up to the first kind of which one is missing."""
        store = self._hands.store
        objects: list[dict[str, Any]] = []
        for kind in SERVING_KINDS:
            mine = [body for body in plan.objects if body["kind"] == kind]
            objects += mine
            names = [str(body["metadata"]["name"]) for body in mine]
            if any(
                store.child(record.key, kind, name) is None
                and store.refusal(record.key, kind, name) is None
                for name in names
            ):
                if kind != SERVING_KINDS[-1]:
                    self._again(record.key, Urgency.FOLLOWING)
                break
        return tuple(objects)

    async def _write_status(self, record: ModelRecord, plan: Plan, *, short: bool) -> float | None:
        """Seconds until the model must be looked at for its status.

        It has to rest so long, or it is written and something follows from it. None where it
        stands written, or its model will be woken.
        """
        hands = self._hands
        if plan.status == record.status:
            hands.pace.forget(record.key)
            return None
        urgent = is_urgent(record.status, plan.status)
        if short and not urgent:
            return None  # the pass that finishes this one writes it
        if not urgent and (wait := hands.pace.wait_seconds(record.key)) != 0:
            return wait
        began = hands.pace.clock()
        if not await hands.statuses.write(record, plan.status):
            return None
        spent = hands.pace.clock() - began
        hands.pace.wrote(record.key, urgent=urgent, seconds=spent)
        logger.info("status written", extra=_ready_of(plan))
        if await self._is_settled(record, plan):
            return None
        before, after = (status.get("revisions") for status in (record.status, plan.status))
        return 0.0 if record.status and before != after else LATER_SECONDS

    async def _is_settled(self, record: ModelRecord, done: Plan) -> bool:
        """Whether the status, now that it is written, asks for nothing more than was done."""
        observed, plan = await self._plan(record)
        again = replace(plan, status={}, events=(), requeue_after=None)
        return (
            plan.status == observed.status
            and again == replace(done, status={}, events=(), requeue_after=None)
            and (plan.requeue_after is None) == (done.requeue_after is None)
        )

    async def _plan(self, record: ModelRecord) -> tuple[Observed, Plan]:
        """A plan that knows all that it needs."""
        store = self._hands.store
        while True:
            observed = store.observed(record.key)
            plan = planning.plan(record.model, observed, now=self._now(), config=self._config)
            unread = plan.history - observed.history.keys()
            if not unread:
                store.keep_history(record.key, plan.history)
                return observed, plan
            # One that nothing keeps comes back as None, so that each is read once.
            store.put_history(record.key, await self._hands.history.read(record.key, unread))

    def _forget(self, key: ObjectKey) -> None:
        # The children go with their owner reference; here only memory is freed.
        self._hands.poller.forget(key)
        self._hands.pace.forget(key)
        self._hands.lookups.forget(key)
        if uid := self._seen.pop(key, None):
            self._hands.statuses.forget(uid)


def rest_seconds(pods: int) -> float:
    """How long a model with so many pods rests after a pass: 0.96 s with 500, 0 with 20. Pure."""
    return max(0, pods - RESTLESS_PODS) * REST_SECONDS_A_POD


def _waits(observed: Observed) -> bool:
    """Whether a pod waits to start, so that a missing reference may be the reason."""
    pods = [pod for pod in observed.pods if not pod.deleting]
    return not pods or any(pod.runtime.running_since is None for pod in pods)


def _ready_of(plan: Plan) -> dict[str, str]:
    for condition in plan.status.get("conditions", []):
        if condition["type"] == "Ready":
            return {"ready": condition["status"], "reason": condition["reason"]}
    return {}


async def work(
    queue: WorkQueue[ObjectKey],
    reconcile: Callable[[ObjectKey], Awaitable[float | None]],
    passed: Callable[[str, float], None],
    clock: Callable[[], float],
) -> None:
    """Take keys from the queue until it is closed.

    Args:
        queue: The keys.
        reconcile: One pass; returns when to look again.
        passed: Called with the outcome ("ok", "retry" or "error") and the seconds of each pass.
        clock: Monotonic seconds.
    """
    while True:
        try:
            key = await queue.get()
        except Closed:
            return
        started = clock()
        outcome = "error"
        with logs.about(key):
            try:
                outcome = await _one(queue, key, reconcile)
            finally:
                queue.done(key)
                passed(outcome, clock() - started)


async def _one(
    queue: WorkQueue[ObjectKey],
    key: ObjectKey,
    reconcile: Callable[[ObjectKey], Awaitable[float | None]],
) -> str:
    try:
        async with asyncio.timeout(PASS_TIMEOUT_SECONDS):
            seconds = await reconcile(key)
    except errors.ApiError as error:
        delay = queue.retry(key, least_seconds=error.retry_after_seconds or 0.0)
        logger.warning("pass failed", extra={"error": error.message, "retry_in_s": delay})
        return "retry"
    except Exception:
        # The one place where a defect of ours is survived: one model must not end the others.
        delay = queue.retry(key)
        logger.exception("pass broke", extra={"retry_in_s": delay})
        return "error"
    queue.forget(key)
    queue.schedule(key, seconds)
    return "ok"
