"""A reconcile with real plans and fake collaborators."""

import asyncio
import itertools
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.inference_runtime import parse_inference_runtime
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.decide import plan as planning
from moorage_operator.kube import errors
from moorage_operator.process import logs
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
from moorage_operator.store.existence import ModelDropped, ModelGone
from moorage_operator.values.gateways import GatewaysObserved
from moorage_operator.values.model_record import ModelRecord
from moorage_operator.values.objects import PodObserved
from moorage_operator.values.observed import ObjectKey, Reference, Refusal, RevisionRecord
from moorage_operator.values.plan import Plan, PlannedEvent, PodGate, PollPace
from moorage_operator.values.runtimes import Resolution, Runtimes, RuntimeState
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
        self.record: RevisionRecord | None = None
        self.store = deaf_store()
        self.undeleted: float | None = None

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

    async def write(self, record: ModelRecord, status: Mapping[str, Any]) -> bool:
        assert record
        self.acts.append("status")
        self.statuses.append(status)
        self.version += 1
        kept = {**status, **self.kept}
        self.store.put_model({**model(resourceVersion=str(self.version)), "status": kept})
        return True

    def retry_seconds(self, key: ObjectKey) -> float | None:
        assert key
        return self.undeleted

    def forget(self, _: Any) -> None:
        self.acts.append("forget")

    def watch(self, key: ObjectKey, _: Any, pace: PollPace, interval: float) -> None:
        assert (key, pace, interval) == (KEY, PollPace.SETTLING, 30.0)
        self.acts.append("poll")

    def ask_now(self, _: str) -> None:
        self.acts.append("ask")

    def want(self, key: ObjectKey, references: frozenset[Reference]) -> None:
        self.lookups[key] = references

    async def read(
        self, key: ObjectKey, revisions: frozenset[str]
    ) -> dict[str, RevisionRecord | None]:
        assert key == KEY
        self.acts.append("read")
        return dict.fromkeys(revisions, self.record)

    def post(self, _: ModelRecord, event: PlannedEvent) -> None:
        self.events.append(event)


@pytest.fixture
def fakes() -> Fakes:
    return Fakes()


@pytest.fixture
def reconciler(fakes: Fakes) -> Reconciler:
    return reconciler_with(fakes)


def reconciler_with(fakes: Fakes, **others: Any) -> Reconciler:
    pace = StatusPace(lambda: fakes.now)
    hands = Hands(fakes.store, fakes, fakes, fakes, fakes, fakes, fakes, pace)  # type: ignore[arg-type]
    config = OperatorConfig(runtime_image="runtime:1")
    return Reconciler(
        replace(hands, **others),
        config,
        now=lambda: NOW,
        again=lambda *call: fakes.again.append(call),
    )


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


async def test_a_model_with_a_refused_deletion_is_reconciled_again_unless_it_is_paused(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    fakes.undeleted = 0.25

    assert await reconciler.reconcile(KEY) == 0.25

    paused = model(resourceVersion="9", generation=2)
    fakes.store.put_model({**paused, "spec": {**paused["spec"], "paused": True}})
    fakes.version = 9
    fakes.now = APART_SECONDS
    assert await reconciler.reconcile(KEY) == LATER_SECONDS


async def test_changed_revisions_in_the_status_trigger_the_next_reconcile_at_once(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    status = {**fakes.statuses[-1], "revisions": {"current": "another", "specHash": "other"}}
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.version = 9

    assert await reconciler.reconcile(KEY) == 0.0
    assert fakes.statuses[-1]["revisions"] != status["revisions"]


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


async def test_an_earlier_revision_is_stored_as_its_spec_renders(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    earlier = fakes.statuses[-1]["revisions"]["current"]
    edited = b'{"metadata":{},"spec":{}}'
    fakes.record = RevisionRecord(edited, parse(model()).written.kept.encode())
    status = {"revisions": {"lastGood": earlier}}
    newer = {**model(resourceVersion="9", generation=2), "status": status}
    fakes.store.put_model({**newer, "spec": {**newer["spec"], "runtime": {"image": "new:1"}}})

    await reconciler.reconcile(KEY)

    stored = fakes.store.observed(KEY).history[earlier]
    assert stored is not None
    assert stored.spec == fakes.record.spec
    assert b"configmap" in stored.template.lower()


async def test_a_deleted_model_is_forgotten_and_not_written(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    fakes.acts.clear()
    fakes.store.drop_model(KEY, "u")

    assert await reconciler.reconcile(KEY) is None

    assert set(fakes.acts) == {"forget"}


async def test_a_model_that_is_being_deleted_is_no_longer_observed_and_says_so(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    fakes.acts.clear()
    left = model(resourceVersion="9", deletionTimestamp="2026-01-01T00:00:00Z")
    fakes.store.put_model({**left, "status": fakes.statuses[-1]})

    assert await reconciler.reconcile(KEY) is None

    assert fakes.acts.count("status") == 1
    assert set(fakes.acts) == {"forget", "status"}
    (condition,) = fakes.statuses[-1]["conditions"]
    assert (condition["type"], condition["status"]) == ("Ready", "False")
    assert condition["reason"] == "Deleting"
    assert condition["observedGeneration"] == fakes.statuses[-1]["observedGeneration"] == 1


async def test_what_is_known_of_the_status_is_forgotten_after_a_deletion(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[object] = []
    fakes.store.put_model(model(deletionTimestamp="2026-01-01T00:00:00Z"))
    await reconciler.reconcile(KEY)
    monkeypatch.setattr(fakes, "forget", forgotten.append)
    fakes.store.drop_model(KEY, "u")

    await reconciler.reconcile(KEY)

    assert "u" in forgotten


async def test_a_model_that_vanishes_during_its_last_status_leaves_the_store(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(*_: object) -> bool:
        raise ModelGone("8")

    dropped: list[tuple[object, ...]] = []
    fakes.store.put_model(model(deletionTimestamp="2026-01-01T00:00:00Z"))
    monkeypatch.setattr(fakes, "write", write)
    monkeypatch.setattr(fakes.store, "drop_model", lambda *of: dropped.append(of))

    assert await reconciler.reconcile(KEY) is None

    assert dropped == [(KEY, "u", "8")]


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


async def test_a_model_that_returns_before_its_reconcile_ends_stays(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    fakes.error = ModelDropped()  # by a write; the model is in the store again

    assert await reconciler.reconcile(KEY) is None

    assert fakes.store.model(KEY) is not None


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


class Recorder:
    """A collaborator that only has to forget models."""

    def __init__(self) -> None:
        self.forgotten: list[Any] = []

    def forget(self, of: Any) -> None:
        self.forgotten.append(of)


async def test_every_collaborator_forgets_a_deleted_model(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    hands = ("poller", "applier", "pace", "lookups", "turns", "statuses")
    made = {name: Recorder() for name in (*hands, "isolation", "resolutions")}
    others: dict[str, Any] = {name: made[name] for name in hands}
    monkeypatch.setattr(reconciler, "_hands", replace(reconciler._hands, **others))
    monkeypatch.setattr(reconciler, "_isolation", made["isolation"])
    monkeypatch.setattr(reconciler, "_resolutions", made["resolutions"])
    fakes.store.drop_model(KEY, "u")

    await reconciler.reconcile(KEY)
    await reconciler.reconcile(KEY)

    assert made.pop("statuses").forgotten == ["u"]
    assert [each.forgotten for each in made.values()] == [[KEY] * 2] * len(made)


def runs(name: str, *, since: datetime | None = NOW, deleting: bool = False) -> PodObserved:
    pod = PodObserved(name, name, NOW, revision="other", replica_set="iris-", deleting=deleting)
    return replace(pod, runtime=replace(pod.runtime, running_since=since))


@pytest.mark.parametrize(
    ("pods", "are_looked_up"),
    [
        ([], True),
        ([runs("a")], False),
        ([runs("a"), runs("b", since=None)], True),
        ([runs("a"), runs("b", since=None, deleting=True)], False),
        ([runs("a", deleting=True)], True),
    ],
)
async def test_references_are_looked_up_until_every_pod_has_started(
    fakes: Fakes, reconciler: Reconciler, pods: list[PodObserved], are_looked_up: bool
) -> None:
    fakes.store.put_model(model())
    for each in pods:
        fakes.store.put_pod(("ns", "iris"), each)

    await reconciler.reconcile(KEY)

    assert bool(fakes.lookups[KEY]) is are_looked_up


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Record the arguments of both planning functions."""
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def recorded(whole: Any) -> Any:
        def call(*of: Any, **about: Any) -> Any:
            found.append((of, about))
            return whole(*of, **about)

        return call

    for name in ("unread", "plan"):
        monkeypatch.setattr(planning, name, recorded(getattr(planning, name)))
    return found


class Gateways:
    """The Gateways of a model, of which there are none."""

    def of(self, model: Any, labels: Mapping[str, str] | None) -> GatewaysObserved:
        assert model.name == "iris"
        return GatewaysObserved({("ns", "web"): None}, labels)


@pytest.mark.parametrize(
    ("labels", "of_the_namespace"),
    [({"ns": {"team": "a"}, "other": {}}, {"team": "a"}), ({}, None), (None, None)],
)
async def test_both_planning_steps_get_the_same_facts(
    fakes: Fakes, asked: list[Any], labels: Any, of_the_namespace: Any
) -> None:
    runtimes = Runtimes(namespace_labels=labels)
    made = reconciler_with(fakes, gateways=Gateways(), runtimes=lambda: runtimes)
    fakes.store.put_model(model())

    await made.reconcile(KEY)

    ((first, observed, rendered), about), (second, rest) = asked
    assert second == (first, observed)
    assert about["now"] == rest["now"] == NOW
    assert rest["rendered"] is rendered
    assert rendered["spec"]["containers"]
    assert observed.is_cut_off is False
    assert observed.gateways == GatewaysObserved({("ns", "web"): None}, of_the_namespace)


async def test_a_model_is_planned_with_the_fields_of_its_runtime(
    fakes: Fakes, asked: list[Any]
) -> None:
    body = {"metadata": {"name": "triton", "uid": "r"}, "spec": {"image": "triton:1"}}
    runtimes = Runtimes({"triton": parse_inference_runtime(body)})
    made = reconciler_with(fakes, runtimes=lambda: runtimes)
    fakes.store.put_model({**model(), "spec": {**model()["spec"], "runtime": {"name": "triton"}}})

    await made.reconcile(KEY)

    given, observed = asked[-1][0]
    assert given.runtime.image == "triton:1"
    assert observed.runtime.use.name == "triton"


async def test_a_model_waits_for_the_turn_that_its_resolution_names(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.store.put_model(model())
    record = fakes.store.model(KEY)
    assert record is not None
    waits: list[tuple[ObjectKey, str]] = []
    resolution = Resolution(record.model, RuntimeState(awaits="triton"))
    monkeypatch.setattr(reconciler._hands.turns, "wait", lambda *each: waits.append(each))
    monkeypatch.setattr(reconciler._resolutions, "of", lambda _: resolution)

    await reconciler.reconcile(KEY)

    assert waits == [(KEY, "triton")]


async def test_a_changed_runtime_in_the_status_triggers_the_next_reconcile_at_once(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    status = {**fakes.statuses[-1], "runtime": {"name": "gone"}}
    fakes.version = 9
    fakes.store.put_model({**model(resourceVersion="9"), "status": status})
    fakes.now = APART_SECONDS
    assert await reconciler.reconcile(KEY) == pytest.approx(SOON_SECONDS)
    fakes.now += 2 * SOON_SECONDS

    assert await reconciler.reconcile(KEY) == 0.0


async def test_history_that_no_plan_needs_is_forgotten(
    fakes: Fakes, reconciler: Reconciler
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    revisions = {**fakes.statuses[-1]["revisions"], "current": "earlier"}
    fakes.store.put_model({**model(resourceVersion="8"), "status": {"revisions": revisions}})
    await reconciler.reconcile(KEY)
    assert fakes.store.observed(KEY).history == {"earlier": None}
    fakes.store.put_model({**model(resourceVersion="9"), "status": {}})

    await reconciler.reconcile(KEY)

    assert fakes.store.observed(KEY).history == {}


async def test_all_writes_are_about_the_model(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.store.put_model({**model(), "spec": {"replicas": "many"}})
    about: list[ObjectKey] = []

    async def done(record: ModelRecord, *_: Any) -> bool:
        about.append(record.key)
        return True

    monkeypatch.setattr(fakes, "write_gates", done)
    monkeypatch.setattr(fakes, "write", done)
    monkeypatch.setattr(fakes, "post", lambda record, _: about.append(record.key))

    await reconciler.reconcile(KEY)

    assert about == [KEY] * 3


async def test_a_written_status_is_logged_with_its_verdict(
    fakes: Fakes, reconciler: Reconciler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    fakes.store.put_model(model())

    await reconciler.reconcile(KEY)

    assert logged(caplog, "ready", "reason") == [("status written", "False", "Pending")]


async def test_a_written_status_without_a_verdict_is_logged(
    fakes: Fakes,
    reconciler: Reconciler,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(planning, "plan", lambda *_, **__: Plan((), {"replicas": 0}))
    fakes.store.put_model(model())
    monkeypatch.setattr(fakes, "watch", lambda *_: None)

    await reconciler.reconcile(KEY)

    assert logged(caplog, "ready") == [("status written", None)]


def logged(caplog: pytest.LogCaptureFixture, *fields: str) -> list[tuple[Any, ...]]:
    """The message and these fields of each line."""
    lines = [each.__dict__ for each in caplog.records]
    return [(line["msg"], *(line.get(each) for each in fields)) for line in lines]


async def test_a_status_that_is_up_to_date_ends_the_wait_for_its_write(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.store.put_model(model())
    await reconciler.reconcile(KEY)
    pace: Any = Recorder()
    monkeypatch.setattr(reconciler, "_hands", replace(reconciler._hands, pace=pace))

    await reconciler.reconcile(KEY)

    assert pace.forgotten == [KEY]


async def test_the_status_of_a_model_that_stays_ready_is_written_last(
    fakes: Fakes, reconciler: Reconciler, monkeypatch: pytest.MonkeyPatch
) -> None:
    await was_ready(fakes, reconciler)
    record = fakes.store.model(KEY)
    assert record is not None
    status = {**record.status, "replicas": 7}
    whole = planning.plan
    monkeypatch.setattr(
        planning, "plan", lambda *of, **about: replace(whole(*of, **about), status=status)
    )

    await reconciler.reconcile(KEY)

    assert fakes.acts[:2] == ["poll", "apply"]


class Many(Fakes):
    """Several models, and whether each one's replicas are heard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.heard: dict[str, bool] = {}
        self.without_replicas: set[str] = set()
        self.watched: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.cut_off: list[bool] = []
        self.reconciler = reconciler_with(self)
        whole = planning.plan

        def plan(of: Any, observed: Any, **about: Any) -> Plan:
            self.cut_off.append(observed.is_cut_off)
            uids = [] if of.name in self.without_replicas else [f"{of.name}-0", f"{of.name}-1"]
            targets: Any = tuple(SimpleNamespace(pod_uid=each) for each in uids)
            made = whole(of, observed, **about)
            return replace(made, heard=self.heard[of.name], targets=targets)

        monkeypatch.setattr(planning, "plan", plan)

    async def write(self, *_: Any) -> bool:
        return False

    def watch(self, key: ObjectKey, targets: Any, *_: Any) -> None:
        self.watched[key.name] = [each.pod_uid for each in targets]

    def ask_now(self, uid: str) -> None:
        self.asked.append(uid)

    async def reconcile(self, **heard: bool) -> None:
        for name, is_heard in heard.items():
            self.heard[name] = is_heard
            key = ObjectKey("ns", name)
            if self.store.model(key) is None:
                self.store.put_model(model(name=name, uid=name))
            await self.reconciler.reconcile(key)


async def test_a_silent_model_lets_a_replica_of_each_other_be_polled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = Many(monkeypatch)
    many.without_replicas.add("c")

    await many.reconcile(a=True, b=True, c=True)
    assert many.watched == {"a": ["a-0", "a-1"], "b": ["b-0", "b-1"], "c": []}
    await many.reconcile(a=False)

    assert many.asked == ["b-0", ""]


async def test_silent_models_are_reconciled_when_the_operator_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    many = Many(monkeypatch)

    await many.reconcile(a=True, b=True, c=True, d=True)
    await many.reconcile(a=False, b=False, c=False)
    assert many.again == [(ObjectKey("ns", name), Urgency.READINESS) for name in "abc"]
    assert many.cut_off == [False] * 7
    await many.reconcile(a=False)
    assert many.cut_off.pop() is True
    many.again.clear()
    many.store.drop_model(ObjectKey("ns", "a"), "a")
    await many.reconciler.reconcile(ObjectKey("ns", "a"))

    assert many.again == [(ObjectKey("ns", name), Urgency.READINESS) for name in "bc"]
    assert logged(caplog, "levelno", "silent", "models") == [
        ("most models do not answer the operator", logging.WARNING, 3, 4),
        ("most models answer the operator again", logging.INFO, 2, 3),
    ]


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
        self.keys: list[ObjectKey] = []
        self.clock = loop.time
        self.durations: list[float] = []

    async def reconcile(self, key: ObjectKey) -> float | None:
        self.keys.append(key)
        result = self.results.pop(0)
        if not self.results:
            self.queue.close()
        if result is HANGS:
            await asyncio.Event().wait()
        if isinstance(result, BaseException):
            raise result
        return result

    def passed(self, outcome: str, seconds: float) -> None:
        self.outcomes.append(outcome)
        self.durations.append(seconds)

    async def run(self, *results: Any) -> None:
        self.results = list(results)
        self.queue.add(KEY)
        worker = work(self.queue, self.reconcile, self.passed, self.clock)
        await asyncio.wait_for(worker, 10)


async def test_a_reconcile_is_repeated_after_the_delay_that_it_returns() -> None:
    made = Work()

    await made.run(0.001, None)

    assert made.outcomes == ["ok", "ok"]
    assert made.keys == [KEY, KEY]


async def test_an_api_error_is_retried(caplog: pytest.LogCaptureFixture) -> None:
    made = Work()
    throttled = errors.Throttled("later", code=429, retry_after_seconds=0.3)

    await made.run(errors.Unreachable("no"), throttled, 0.001, errors.Unreachable("no"), None)

    assert made.outcomes == ["retry", "retry", "ok", "retry", "ok"]
    assert made.keys == [KEY] * 5
    # The delays after a success begin again.
    assert logged(caplog, "error", "retry_in_s") == [
        ("reconcile failed", "no", 0.125),
        ("reconcile failed", "later", 0.3),
        ("reconcile failed", "no", 0.125),
    ]


async def test_a_reconcile_that_is_cancelled_counts_as_an_error() -> None:
    made = Work()

    await made.run(asyncio.CancelledError())

    assert made.outcomes == ["error"]


async def test_the_duration_of_a_reconcile_is_reported() -> None:
    made = Work()
    made.clock = iter([10.0, 12.0]).__next__

    await made.run(None)

    assert made.durations == [2.0]


async def test_the_lines_of_a_reconcile_are_about_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[ObjectKey] = []

    @contextmanager
    def about(key: ObjectKey) -> Generator[None]:
        found.append(key)
        yield

    monkeypatch.setattr(logs, "about", about)

    await Work().run(None)

    assert found == [KEY]


async def test_a_bug_fails_one_reconcile_and_not_the_worker(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = Work()

    await made.run(KeyError("ours"), TimeoutError("ours too"), None)

    assert made.outcomes == ["error", "error", "ok"]
    assert made.keys == [KEY] * 3
    assert logged(caplog, "retry_in_s") == [
        ("unexpected error in reconcile", 0.125),
        ("unexpected error in reconcile", 0.25),
    ]
    assert "KeyError" in caplog.text


async def test_a_long_queue_does_not_block_other_tasks() -> None:
    made = Work()
    for number in range(100):
        made.queue.add(ObjectKey("ns", str(number)))
    seen: list[int] = []

    async def look() -> None:
        while not seen or seen[-1] < 100:
            seen.append(len(made.keys))
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
    assert made.keys == [KEY, KEY]
    assert logged(caplog, "retry_in_s") == [("reconcile timed out", 0.125)]
    assert "Traceback" not in caplog.text
