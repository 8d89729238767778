"""One pass over one model, and the workers that take keys to it.

    observe --> plan --> apply --> plan again where that changed the world --> gates --> status

Level-driven: a pass looks at the whole state and never at what woke it. The stores are fed by
watches, by polls and by its own writes; all that a pass reads itself is what an earlier revision
was made from, when its plan needs that.

While more models wait for their children than there are workers, passes are short: what serves is
written, and a verdict that somebody waits for; the rest is left to a later pass. So the last of a
thousand models that are made at once has its pods on the way before the first has its budget.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from . import logs
from . import plan as planning
from .apply import Applier
from .config import OperatorConfig
from .events import EventPoster
from .existence import ModelGone
from .history import History
from .kube import errors
from .planned import Plan
from .probe.poller import Poller
from .referenced import Lookups
from .state import ObjectKey, Observed
from .status_pace import StatusPace, is_urgent
from .status_writes import StatusWriter
from .store import ModelRecord, Store
from .workqueue import Closed, WorkQueue

logger = logging.getLogger(__name__)

RESTLESS_PODS = 20
"""So many pods a model has for nothing."""

REST_SECONDS_A_POD = 0.002
"""A pass looks at each pod of its model; so a model takes a few hundredths of a core at most for
looking at its pods, however many they are and however often they change."""

SERVING_KINDS = {"Deployment", "Service"}
"""What a model cannot serve without, and all that a short pass applies."""

LATER_SECONDS = 1.0
"""After a short pass, or one that wrote a status, its model is looked at again, if nothing happens
to it before: what a plan does next may follow from what the status remembers."""

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
    """

    def __init__(
        self,
        hands: Hands,
        config: OperatorConfig,
        *,
        now: Callable[[], datetime],
        crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._hands = hands
        self._config = config
        self._now = now
        self._crowded = crowded
        self._seen: dict[ObjectKey, str] = {}  # uids

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Seconds after which the model must be looked at again; None: when something happens.

        Raises:
            ApiError: A write failed for now: try again.
        """
        record = self._hands.store.model(key)
        if record is None or record.model.deleting:
            self._forget(key)
            return None
        self._seen[key] = record.model.uid
        try:
            return await self._pass(record)
        except ModelGone:
            self._hands.store.drop_model(key, record.model.uid)
            return None

    async def _pass(self, record: ModelRecord) -> float | None:
        hands = self._hands
        observed, plan = await self._plan(record)
        short = self._crowded()
        if await self._apply(record, plan, short=short):
            if short and not record.status:
                return LATER_SECONDS
            observed, plan = await self._plan(record)
        hands.poller.watch(record.key, plan.targets, plan.poll, plan.poll_interval_seconds)
        hands.lookups.want(record.key, plan.references if _waits(observed) else frozenset())
        await hands.statuses.write_gates(record, plan.gates)
        later = await self._write_status(record, plan)
        for event in plan.events:
            hands.events.post(record, event)
        unfinished = LATER_SECONDS if short else None
        return min(
            (each for each in (plan.requeue_after, later, unfinished) if each is not None),
            default=None,
        )

    async def _apply(self, record: ModelRecord, plan: Plan, *, short: bool) -> bool:
        """Whether the children changed; a model that cannot have them is at least told so."""
        objects = plan.objects
        if short:
            objects = tuple(body for body in objects if body["kind"] in SERVING_KINDS)
        keeps_others = short or plan.keeps_others
        try:
            return await self._hands.applier.apply(record, objects, keeps_others=keeps_others)
        except errors.ApiError:
            if not record.status:
                await self._write_status(record, plan)
            raise

    async def _write_status(self, record: ModelRecord, plan: Plan) -> float | None:
        """Seconds until the model must be looked at for its status; None where it stood written.

        It has to wait so long, or it is written and something may follow from it.
        """
        hands = self._hands
        if plan.status == record.status:
            return None
        urgent = is_urgent(record.status, plan.status)
        if not urgent and (wait := hands.pace.wait_seconds(record.key)):
            return wait
        if not await hands.statuses.write(record, plan.status):
            return None
        hands.pace.wrote(record.key, urgent=urgent)
        logger.info("status written", extra=_ready_of(plan))
        before, after = (status.get("revisions") for status in (record.status, plan.status))
        return 0.0 if record.status and before != after else LATER_SECONDS

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
