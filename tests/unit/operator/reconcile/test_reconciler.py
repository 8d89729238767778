"""A reconcile with real plans and fake collaborators."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.decide import plan as planning
from moorage_operator.kube import errors
from moorage_operator.reconcile import reconciler as reconciler_module
from moorage_operator.reconcile.policy import Policy
from moorage_operator.reconcile.reconciler import (
    LATER_SECONDS,
    Hands,
    Reconciler,
    rest_seconds,
    work,
)
from moorage_operator.reconcile.status_pace import APART_SECONDS, SOON_SECONDS, StatusPace
from moorage_operator.reconcile.workqueue import WorkQueue
from moorage_operator.store.existence import ModelGone
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import ObjectKey, Reference, Refusal
from moorage_operator.values.plan import Plan, PlannedEvent, PodGate, PollPace
from moorage_operator.values.urgency import Urgency
from support.operator_values import deaf_store

KEY = ObjectKey("ns", "iris")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def model(**metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "iris",
            "namespace": "ns",
            "uid": "u",
            "resourceVersion": "1",
            "generation": 1,
            **metadata,
        },
        "spec": {"model": {"uri": "configmap://files"}},
    }


class Fakes:
    """Fake collaborators of a reconcile, which record their calls in order."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        self.version = 1
        self.now = 0.0
        self.kinds: list[str] = []
        self.statuses: list[Mapping[str, Any]] = []
        self.kept: Mapping[str, Any] = {}
        self.events: list[PlannedEvent] = []
        self.gates: tuple[PodGate, ...] = ()
        self.lookups: dict[ObjectKey, frozenset[Reference]] = {}
        self.refusal: Refusal | None = None
        self.error: Exception | None = None
        self.drops = False
        self.gate_error: Exception | None = None
        self.again: list[tuple[ObjectKey, Urgency]] = []
        self.changes = False
        self.store = deaf_store()

    async def apply(
        self, record: ModelRecord, objects: tuple[Mapping[str, Any], ...], *, keeps_others: bool
    ) -> bool:
        self.acts.append("apply")
        self.keeps_others = keeps_others
        self.kinds = [str(each["kind"]) for each in objects]
        if self.error:
            raise self.error
        if self.drops:
            self.store.drop_model(record.key, record.model.uid)
            return True
        if self.refusal:
            self.store.put_refusal(record, self.refusal)
            return True
        return self.changes

    async def write_gates(self, _: ModelRecord, gates: tuple[PodGate, ...]) -> None:
        self.gates += gates
        if self.gate_error:
            raise self.gate_error

    async def write(self, _: ModelRecord, status: Mapping[str, Any]) -> bool:
        self.acts.append("status")
        self.statuses.append(status)
        self.version += 1
        kept = {**status, **self.kept}
        self.store.put_model({**model(resourceVersion=str(self.version)), "status": kept})
        return True

    def forget(self, _: Any) -> None:
        self.acts.append("forget")

    def watch(self, key: ObjectKey, _: Any, pace: PollPace, interval: float) -> None:
        assert (key, pace, interval) == (KEY, PollPace.SETTLING, 30.0)
        self.acts.append("poll")

    def ask_now(self, _: str) -> None:
        self.acts.append("ask")

    def want(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        self.lookups[key] = references

    async def read(self, _: ObjectKey, revisions: frozenset[str]) -> dict[str, None]:
        self.acts.append("read")
        return dict.fromkeys(revisions)

    def post(self, _: ModelRecord, event: PlannedEvent) -> None:
        self.events.append(event)


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def reconciler(fakes: Fakes) -> Reconciler:
    pace = StatusPace(lambda: fakes.now)
    hands = Hands(fakes.store, fakes, fakes, fakes, fakes, fakes, fakes, pace)  # type: ignore[arg-type]
    config = OperatorConfig(runtime_image="runtime:1")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Reconciler(hands, config, now=lambda: now, again=lambda *call: fakes.again.append(call))


def ready(status: Mapping[str, Any]) -> str:
    return next(each["reason"] for each in status["conditions"] if each["type"] == "Ready")


async def test_a_reconcile_applies_polls_and_writes_the_status(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())

    await reconciler.reconcile(KEY)

    assert fakes.acts == ["poll", "apply", "status"]
    assert sorted(fakes.kinds) == ["Deployment", "Service"]
    assert not fakes.keeps_others
    (reference,) = fakes.lookups[KEY]
    assert reference.name == "files"


async def test_nothing_is_applied_for_a_paused_model(fakes: Fakes, reconciler: Reconciler) -> None:
    paused = model()
    fakes.store.put_model({**paused, "spec": {**paused["spec"], "paused": True}})

    await reconciler.reconcile(KEY)

    assert fakes.acts == ["poll", "status"]


async def test_only_progress_waits_after_a_write(fakes: Fakes, reconciler: Reconciler) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    place = ("ns", "iris")
    fakes.store.put_pod(place, PodObserved("a", "a", NOW, revision="other", replica_set="iris-"))

    assert await reconciler.reconcile(KEY) == APART_SECONDS
    assert len(fakes.statuses) == 1

    fakes.now = APART_SECONDS
    assert await reconciler.reconcile(KEY) == LATER_SECONDS
    assert [each["pod"] for each in fakes.statuses[1]["replicaStatuses"]] == ["a"]

    fakes.store.put_pod(place, PodObserved("b", "b", NOW, revision="other", replica_set="iris-"))
    assert await reconciler.reconcile(KEY) == APART_SECONDS
    fakes.store.put_model(
        {**model(resourceVersion="9", generation=2), "spec": {"replicas": "many"}}
    )
    await reconciler.reconcile(KEY)
    assert ready(fakes.statuses[2]) == "InvalidSpec"


async def test_a_new_model_gets_a_status_even_if_its_children_fail(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = errors.ServerError("an admission webhook does not answer", code=500)

    with pytest.raises(errors.ServerError):
        await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "Pending"


@pytest.mark.parametrize("failing", ["apply", "gates"])
async def test_a_failed_step_does_not_stop_the_others(
    fakes: Fakes, reconciler: Reconciler, failing: str
) -> None:
    fakes.store.put_model(model())
    error = errors.ServerError("an admission webhook does not answer", code=500)
    if failing == "apply":
        fakes.error = error
    else:
        fakes.gate_error = error

    with pytest.raises(errors.ServerError):
        await reconciler.reconcile(KEY)

    assert fakes.acts == ["poll", "apply", "poll", "status"]
    assert fakes.lookups[KEY]


async def was_ready(fakes: Fakes, reconciler: Reconciler) -> None:
    """Report a model ready whose last pod is gone."""
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    status = dict(fakes.statuses[-1])
    status["conditions"] = [
        {**each, "status": "True", "reason": "Serving"} if each["type"] == "Ready" else each
        for each in status["conditions"]
    ]
    fakes.version = 9
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.acts.clear()


async def test_a_model_is_reported_not_ready_before_its_children_are_written(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    await was_ready(fakes, reconciler)

    assert await reconciler.reconcile(KEY) == 0.0
    assert fakes.acts == ["poll", "status"]
    assert ready(fakes.statuses[-1]) == "Pending"

    await reconciler.reconcile(KEY)
    assert fakes.acts[2:4] == ["poll", "apply"]


async def test_children_are_written_even_if_the_status_cannot_be(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await was_ready(fakes, reconciler)

    async def refuse(*_: Any) -> bool:
        raise errors.ServerError("the CRD lacks a field", code=500)

    monkeypatch.setattr(fakes, "write", refuse)
    with pytest.raises(errors.ServerError):
        await reconciler.reconcile(KEY)

    assert "apply" in fakes.acts


async def test_the_status_after_a_failed_write_describes_what_is_there_then(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.store.put_model(model())
    started = PodObserved("a", "a", NOW, revision="other", replica_set="iris-")
    fakes.store.put_pod(("ns", "iris"), started)

    async def fail(*_: Any, **__: Any) -> bool:
        fakes.store.drop_pod("a")  # while a webhook delays the answer
        raise errors.ServerError("an admission webhook does not answer", code=500)

    monkeypatch.setattr(fakes, "apply", fail)
    with pytest.raises(errors.ServerError):
        await reconciler.reconcile(KEY)

    assert not fakes.statuses[-1].get("replicaStatuses")


async def test_a_process_that_is_not_the_leader_writes_no_status(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = errors.NotLeading("not the leader")

    with pytest.raises(errors.NotLeading):
        await reconciler.reconcile(KEY)

    assert fakes.statuses == []


async def test_a_model_is_reconciled_again_after_a_status_write(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())

    assert await reconciler.reconcile(KEY) == LATER_SECONDS
    assert await reconciler.reconcile(KEY) is None

    assert len(fakes.statuses) == 1


async def test_changed_revisions_in_the_status_trigger_the_next_reconcile_at_once(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    status = {**fakes.statuses[-1], "revisions": {"current": "another", "specHash": "other"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.version = 9
    fakes.now = APART_SECONDS
    assert await reconciler.reconcile(KEY) == pytest.approx(SOON_SECONDS)
    fakes.now += 2 * SOON_SECONDS

    assert await reconciler.reconcile(KEY) == 0.0


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """Record the computed plans."""
    made: list[Plan] = []
    whole = planning.plan

    def plan(*of: Any, **about: Any) -> Plan:
        made.append(whole(*of, **about))
        return made[-1]

    monkeypatch.setattr(planning, "plan", plan)
    return made


async def test_a_reconcile_without_changes_plans_once_and_others_at_most_twice(
    fakes: Fakes, reconciler: Reconciler, plans: list[Plan]
) -> None:
    fakes.store.put_model(model())
    fakes.changes = True
    await reconciler.reconcile(KEY)
    assert len(plans) == 2

    fakes.changes = False
    plans.clear()
    await reconciler.reconcile(KEY)
    assert len(plans) == 1

    # An earlier version of the operator rendered another template, which has to be read.
    status = {"revisions": {**fakes.statuses[-1]["revisions"], "current": "earlier"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.changes = True
    plans.clear()
    await reconciler.reconcile(KEY)
    assert fakes.acts.count("read") == 1
    assert len(plans) == 2


async def test_an_invalid_spec_is_not_rendered(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def render(*_: Any) -> Any:
        raise AssertionError("rendered")

    monkeypatch.setattr(reconciler_module, "make_pod_template", render)
    fakes.store.put_model({**model(), "spec": {"replicas": "many"}})

    await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "InvalidSpec"


async def test_planned_events_are_posted(fakes: Fakes, reconciler: Reconciler) -> None:
    fakes.store.put_model({**model(), "spec": {"replicas": "many"}})

    await reconciler.reconcile(KEY)

    assert [event.reason for event in fakes.events] == ["InvalidSpec"]
    assert fakes.kinds == []
    assert fakes.keeps_others


async def test_a_refusal_is_in_the_status_of_the_same_reconcile(
    fakes: Fakes, reconciler: Reconciler, plans: list[Plan]
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    # The refused object is one of the plan, with the same hash.
    service = next(each for each in plans[-1].objects if each["kind"] == "Service")
    applied_hash = service["metadata"]["annotations"]["moorage.dev/applied-hash"]
    fakes.refusal = Refusal("Service", "iris", applied_hash, 409, "AlreadyExists", "taken")

    requeue = await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "NameConflict"
    assert requeue is not None


async def test_an_earlier_revision_is_read_before_the_plan_is_carried_out(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    # An earlier version of the operator rendered another template.
    status = {"revisions": {**fakes.statuses[-1]["revisions"], "current": "earlier"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})

    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)

    assert fakes.acts.count("read") == 1
    assert fakes.acts[3:6] == ["read", "poll", "apply"]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_deleted_model_is_forgotten_and_not_written(
    fakes: Fakes, reconciler: Reconciler, gone: bool
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    fakes.acts.clear()
    if gone:
        fakes.store.drop_model(KEY, "u")
    else:
        fakes.store.put_model(model(resourceVersion="9", deletionTimestamp="2026-01-01T00:00:00Z"))

    assert await reconciler.reconcile(KEY) is None

    assert set(fakes.acts) == {"forget"}


async def test_a_model_that_no_longer_exists_is_removed_from_the_store(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = ModelGone()

    assert await reconciler.reconcile(KEY) is None

    assert fakes.store.model(KEY) is None


@pytest.mark.parametrize(("version", "stays"), [("4", True), ("5", False), ("6", False)])
async def test_a_model_that_a_list_lacked_stays_if_it_has_returned(
    fakes: Fakes, reconciler: Reconciler, version: str, stays: bool
) -> None:
    fakes.store.put_model(model(resourceVersion="5"))
    fakes.error = ModelGone(version)

    assert await reconciler.reconcile(KEY) is None

    assert (fakes.store.model(KEY) is not None) is stays


async def test_the_reconcile_of_a_model_ends_when_it_is_dropped(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.drops = True

    assert await reconciler.reconcile(KEY) is None

    assert "status" not in fakes.acts


@pytest.mark.parametrize(("pods", "seconds"), [(0, 0.0), (20, 0.0), (500, 0.96)])
def test_a_model_with_many_pods_rests(pods: int, seconds: float) -> None:
    assert rest_seconds(pods) == pytest.approx(seconds)


HANGS = object()


class Work:
    """A queue with one worker and a reconcile function of the test, on the loop's clock."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            call_later=loop.call_later,
            clock=loop.time,
            jitter=lambda: 0.0,
            policy=Policy(rest_seconds=0.0),
        )
        self.outcomes: list[str] = []
        self.results: list[Any] = []
        self.passes = 0

    async def reconcile(self, _: ObjectKey) -> float | None:
        self.passes += 1
        result = self.results.pop(0)
        if not self.results:
            self.queue.close()
        if result is HANGS:
            await asyncio.Event().wait()
        if isinstance(result, Exception):
            raise result
        return result

    async def run(self, *results: Any) -> None:
        self.results = list(results)
        self.queue.add(KEY)
        clock = asyncio.get_running_loop().time
        worker = work(self.queue, self.reconcile, lambda o, _: self.outcomes.append(o), clock)
        await asyncio.wait_for(worker, 10)


async def test_a_reconcile_is_repeated_after_the_delay_that_it_returns() -> None:
    made = Work()

    await made.run(0.001, None)

    assert made.outcomes == ["ok", "ok"]


async def test_an_api_error_is_retried() -> None:
    made = Work()

    await made.run(errors.Unreachable("no"), errors.Throttled("later", code=429), None)

    assert made.outcomes == ["retry", "retry", "ok"]


async def test_a_bug_fails_one_reconcile_and_not_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Work()

    await made.run(KeyError("ours"), None)

    assert made.outcomes == ["error", "ok"]
    assert "KeyError" in caplog.text


async def test_a_long_queue_does_not_block_other_tasks() -> None:
    made = Work()
    for number in range(100):
        made.queue.add(ObjectKey("ns", str(number)))
    seen: list[int] = []

    async def look() -> None:
        while not seen or seen[-1] < 100:
            seen.append(made.passes)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    await made.run(*[None] * 101)
    await looking

    assert max(after - before for before, after in itertools.pairwise(seen)) <= 2


async def test_a_reconcile_that_times_out_is_retried_and_is_no_bug(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler_module, "PASS_TIMEOUT_SECONDS", 0.01)
    made = Work()

    await made.run(HANGS, None)

    assert made.outcomes == ["retry", "ok"]
    assert "reconcile timed out" in caplog.text
    assert "Traceback" not in caplog.text
