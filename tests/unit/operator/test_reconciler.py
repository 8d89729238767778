"""A pass, with the plan's own objects and fakes where the cluster would be."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator import observe
from moorage_operator.config import OperatorConfig
from moorage_operator.existence import ModelGone
from moorage_operator.kube import errors
from moorage_operator.opened import ModelRecord
from moorage_operator.planned import PlannedEvent, PodGate, PollPace
from moorage_operator.reconciler import LATER_SECONDS, Hands, Reconciler, rest_seconds, work
from moorage_operator.state import ObjectKey, Reference, Refusal
from moorage_operator.status_pace import PAUSE_FIRST_SECONDS, StatusPace
from moorage_operator.urgency import Urgency
from moorage_operator.watched import PodObserved
from moorage_operator.workqueue import WorkQueue
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
    """Everything that a pass acts with; remembers what was asked of it, in order."""

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
        self.crowded = False
        self.again: list[tuple[ObjectKey, Urgency]] = []
        self.changes = False
        self.timers: list[Callable[[], None]] = []
        self.woken: list[ObjectKey] = []
        self.store = deaf_store()

    def call_later(self, _: float, call: Callable[[], None]) -> None:
        self.timers.append(call)

    async def apply(
        self, record: ModelRecord, objects: tuple[Mapping[str, Any], ...], *, keeps_others: bool
    ) -> bool:
        self.acts.append("apply")
        self.keeps_others = keeps_others
        self.kinds = [str(each["kind"]) for each in objects]
        if self.error:
            raise self.error
        if self.refusal:
            self.store.put_refusal(record.key, self.refusal)
            return True
        return self.changes

    def have_service(self) -> None:
        metadata = {
            **model(labels={"moorage.dev/model": "iris"})["metadata"],
            "ownerReferences": [{"uid": "u", "controller": True}],
        }
        observe.Children("Service", self.store).keep({"metadata": metadata})

    async def write_gates(self, _: ModelRecord, gates: tuple[PodGate, ...]) -> None:
        self.gates += gates

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
    pace = StatusPace(lambda: fakes.now, fakes.call_later, fakes.woken.append)
    hands = Hands(fakes.store, fakes, fakes, fakes, fakes, fakes, fakes, pace)  # type: ignore[arg-type]
    config = OperatorConfig(runtime_image="runtime:1")
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Reconciler(
        hands,
        config,
        now=lambda: now,
        crowded=lambda: fakes.crowded,
        again=lambda *told: fakes.again.append(told),
    )


def ready(status: Mapping[str, Any]) -> str:
    return next(each["reason"] for each in status["conditions"] if each["type"] == "Ready")


async def test_a_pass_applies_polls_and_tells(fakes: Fakes, reconciler: Reconciler) -> None:
    fakes.store.put_model(model())

    await reconciler.reconcile(KEY)

    assert fakes.acts == ["apply", "poll", "status"]
    assert sorted(fakes.kinds) == ["Deployment", "Service"]
    assert not fakes.keeps_others
    (reference,) = fakes.lookups[KEY]
    assert reference.name == "files"


async def test_progress_waits_for_the_pause_after_a_write_and_a_failure_does_not(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    place = ("ns", "iris")
    fakes.store.put_pod(place, PodObserved("a", "a", NOW, revision="other"))

    assert await reconciler.reconcile(KEY) == PAUSE_FIRST_SECONDS
    assert len(fakes.statuses) == 1

    fakes.now = PAUSE_FIRST_SECONDS
    assert await reconciler.reconcile(KEY) is None
    assert [each["pod"] for each in fakes.statuses[1]["replicaStatuses"]] == ["a"]

    fakes.store.put_pod(place, PodObserved("b", "b", NOW, revision="other"))
    assert await reconciler.reconcile(KEY) == 2 * PAUSE_FIRST_SECONDS
    fakes.store.put_model(
        {**model(resourceVersion="9", generation=2), "spec": {"replicas": "many"}}
    )
    await reconciler.reconcile(KEY)
    assert ready(fakes.statuses[2]) == "InvalidSpec"


async def stand_in_line(fakes: Fakes, reconciler: Reconciler) -> None:
    """Have the model wait to tell of a pod, because others took all turns there were."""
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    fakes.now = PAUSE_FIRST_SECONDS
    while reconciler._hands.pace.wait_seconds(ObjectKey("ns", "another")) == 0.0:
        pass
    fakes.store.put_pod(("ns", "iris"), PodObserved("a", "a", NOW, revision="other"))
    assert await reconciler.reconcile(KEY) is None
    assert len(fakes.statuses) == 1
    assert KEY in reconciler._hands.pace._line


async def test_progress_is_written_when_its_turn_has_come(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    await stand_in_line(fakes, reconciler)
    fakes.now += 1.0
    for call in fakes.timers:
        call()
    assert fakes.woken[-1] == KEY

    await reconciler.reconcile(KEY)

    assert len(fakes.statuses) == 2


@pytest.mark.parametrize("end", ["undone", "deleted"])
async def test_progress_that_is_told_no_more_leaves_its_turn_to_others(
    fakes: Fakes, reconciler: Reconciler, end: str
) -> None:
    await stand_in_line(fakes, reconciler)
    if end == "undone":
        fakes.store.drop_pod("a")
    else:
        fakes.store.drop_model(KEY, "u")

    assert await reconciler.reconcile(KEY) is None

    assert KEY not in reconciler._hands.pace._line


async def test_of_a_crowd_each_model_gets_what_it_serves_with_before_any_gets_more(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model({**model(), "spec": {"replicas": 2, "runtime": {"image": "i:1"}}})
    fakes.crowded = fakes.changes = True

    # Its Service, and then it waits among the others once more, for its Deployment.
    assert await reconciler.reconcile(KEY) is None
    assert (fakes.acts, fakes.kinds) == (["apply"], ["Service"])
    assert fakes.again == [(KEY, Urgency.FOLLOWING)]
    assert fakes.keeps_others

    fakes.have_service()
    assert await reconciler.reconcile(KEY) is None
    assert fakes.kinds == ["Service", "Deployment"]
    assert (fakes.acts, len(fakes.again)) == (["apply", "apply"], 1)

    fakes.crowded = fakes.changes = False
    assert await reconciler.reconcile(KEY) is None
    assert fakes.kinds == ["Service", "Deployment", "PodDisruptionBudget"]
    assert not fakes.keeps_others
    assert ready(fakes.statuses[-1]) == "Pending"


async def test_what_short_passes_left_is_done_once_nobody_waits_any_more(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.crowded = fakes.changes = True
    fakes.have_service()
    await reconciler.reconcile(KEY)
    assert fakes.again == []

    fakes.crowded = False
    for _ in range(2):
        await reconciler.reconcile(ObjectKey("ns", "another"))

    assert fakes.again == [(KEY, Urgency.ROUTINE)]


async def test_a_model_that_was_told_of_before_has_whole_passes_in_a_crowd_too(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model({**model(), "status": {"observedGeneration": 1}})
    fakes.crowded = True

    await reconciler.reconcile(KEY)

    assert (fakes.kinds, fakes.again) == (["Service", "Deployment"], [])
    assert not fakes.keeps_others


async def test_a_refused_service_keeps_no_model_of_a_crowd_from_its_deployment(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.store.put_refusal(KEY, Refusal("Service", "iris", "h", 409, "AlreadyExists", "taken"))
    fakes.crowded = fakes.changes = True

    await reconciler.reconcile(KEY)

    assert (fakes.kinds, fakes.again) == (["Service", "Deployment"], [])


async def test_a_verdict_is_written_in_a_crowd_too(fakes: Fakes, reconciler: Reconciler) -> None:
    fakes.store.put_model({**model(), "spec": {"replicas": "many"}})
    fakes.crowded = True

    await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "InvalidSpec"


async def test_a_new_model_that_cannot_have_its_children_now_is_told_that_it_was_seen(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = errors.ServerError("an admission webhook does not answer", code=500)

    with pytest.raises(errors.ServerError):
        await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "Pending"


async def test_a_written_status_from_which_nothing_follows_asks_for_no_further_pass(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())

    assert await reconciler.reconcile(KEY) is None

    assert len(fakes.statuses) == 1


async def test_what_the_status_remembers_is_acted_upon_at_once_and_the_rest_soon(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.kept = {"replicas": 7}
    assert await reconciler.reconcile(KEY) == LATER_SECONDS

    status = {**fakes.statuses[-1], "revisions": {"current": "another", "specHash": "other"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.version = 9
    fakes.now = PAUSE_FIRST_SECONDS

    assert await reconciler.reconcile(KEY) == 0.0


async def test_planned_events_are_posted(fakes: Fakes, reconciler: Reconciler) -> None:
    fakes.store.put_model({**model(), "spec": {"replicas": "many"}})

    await reconciler.reconcile(KEY)

    assert [event.reason for event in fakes.events] == ["InvalidSpec"]
    assert fakes.kinds == []
    assert fakes.keeps_others


async def test_a_refusal_is_in_the_status_of_the_same_pass(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    record = fakes.store.model(KEY)
    assert record is not None
    # The refused object is one of those that the plan makes, known by its hash.
    objects = (await reconciler._plan(record))[1].objects
    service = next(each for each in objects if each["kind"] == "Service")
    applied_hash = service["metadata"]["annotations"]["moorage.dev/applied-hash"]
    fakes.refusal = Refusal("Service", "iris", applied_hash, 409, "AlreadyExists", "taken")

    requeue = await reconciler.reconcile(KEY)

    assert ready(fakes.statuses[-1]) == "NameConflict"
    assert requeue is not None


async def test_a_plan_that_rests_on_an_earlier_revision_is_made_again_with_it(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    # An earlier version of the operator gave this spec another template.
    status = {"revisions": {**fakes.statuses[-1]["revisions"], "current": "earlier"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})

    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)

    assert fakes.acts.count("read") == 1
    assert fakes.acts[3:6] == ["read", "apply", "poll"]


@pytest.mark.parametrize("gone", [True, False])
async def test_a_model_that_is_gone_or_going_is_forgotten_and_not_written(
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


async def test_a_model_that_turns_out_to_be_gone_leaves_the_store(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = ModelGone()

    assert await reconciler.reconcile(KEY) is None

    assert fakes.store.model(KEY) is None


@pytest.mark.parametrize(("pods", "seconds"), [(0, 0.0), (20, 0.0), (500, 0.96)])
def test_a_model_with_many_pods_rests(pods: int, seconds: float) -> None:
    assert rest_seconds(pods) == pytest.approx(seconds)


class Work:
    """A queue on the loop's clock with one worker and a pass that a test gives."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(
            call_later=loop.call_later, clock=loop.time, jitter=lambda: 0.0
        )
        self.outcomes: list[str] = []
        self.results: list[Any] = []
        self.passes = 0

    async def reconcile(self, _: ObjectKey) -> float | None:
        self.passes += 1
        result = self.results.pop(0)
        if not self.results:
            self.queue.close()
        if isinstance(result, Exception):
            raise result
        return result

    async def run(self, *results: Any) -> None:
        self.results = list(results)
        self.queue.add(KEY)
        clock = asyncio.get_running_loop().time
        worker = work(self.queue, self.reconcile, lambda o, _: self.outcomes.append(o), clock)
        await asyncio.wait_for(worker, 10)


async def test_a_pass_is_repeated_when_it_asks_for_it() -> None:
    made = Work()

    await made.run(0.001, None)

    assert made.outcomes == ["ok", "ok"]


async def test_trouble_of_the_api_is_retried() -> None:
    made = Work()

    await made.run(errors.Unreachable("no"), errors.Throttled("later", code=429), None)

    assert made.outcomes == ["retry", "retry", "ok"]


async def test_a_defect_ends_one_pass_and_not_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Work()

    await made.run(KeyError("ours"), None)

    assert made.outcomes == ["error", "ok"]
    assert "KeyError" in caplog.text
