"""The statuses of InferenceRuntimes: who writes them, and only when they change."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.api.inference_runtime import InferenceRuntime, parse_inference_runtime
from moorage_operator.kube import errors
from moorage_operator.reconcile import runtime_fleet
from moorage_operator.reconcile.runtime_fleet import RuntimeFleet
from moorage_operator.reconcile.runtime_turns import RuntimeTurns
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.urgency import Urgency

NOW = datetime(2026, 3, 4, tzinfo=UTC)
BODY = {
    "metadata": {
        "name": "triton",
        "uid": "uid-triton",
        "generation": 2,
        "resourceVersion": "1",
    },
    "spec": {},
}
MODEL = {
    "metadata": {
        "name": "iris",
        "namespace": "ns",
        "uid": "uid-iris",
        "generation": 1,
        "resourceVersion": "1",
    },
    "spec": {"runtime": {"name": "triton"}},
    "status": {"runtime": {"name": "triton", "generation": 2, "specHash": "", "content": "{}"}},
}


class Statuses:
    """Takes the place of the writer, and of the watch that brings the result back."""

    def __init__(self, runtimes: RuntimeStore) -> None:
        self.runtimes = runtimes
        self.written: list[dict[str, Any]] = []

    async def write(self, runtime: InferenceRuntime, status: dict[str, Any]) -> None:
        assert runtime.name == "triton"
        self.written.append(status)
        metadata = {**BODY["metadata"], "resourceVersion": str(1 + len(self.written))}
        self.runtimes.put_runtime({**BODY, "metadata": metadata, "status": status})


class Refused(Statuses):
    """Writes nothing, with this error."""

    def __init__(self, runtimes: RuntimeStore, error: errors.ApiError) -> None:
        super().__init__(runtimes)
        self.error = error
        self.asked: list[str] = []

    async def write(self, runtime: InferenceRuntime, status: dict[str, Any]) -> None:  # noqa: ARG002 -- as above
        self.asked.append(runtime.name)
        raise self.error


@pytest.fixture
def runtimes() -> RuntimeStore:
    made = RuntimeStore(
        changed=lambda *_: None, namespace_changed=lambda _: None, access_changed=lambda: None
    )
    made.put_runtime(BODY)
    return made


async def known() -> bool:
    return True


async def unknown() -> bool:
    return False


def fleet(
    runtimes: RuntimeStore,
    statuses: Statuses | None,
    have_arrived: Callable[[], Awaitable[bool]] = known,
    again: Callable[[ObjectKey, Urgency], None] = lambda *_: None,
) -> RuntimeFleet:
    store = Store(changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None)
    store.put_model(MODEL)
    return RuntimeFleet(
        store,
        runtimes,
        RuntimeTurns(),
        statuses,
        have_arrived=have_arrived,
        now=lambda: NOW,
        again=again,
    )


async def test_a_changed_status_is_written_once(runtimes: RuntimeStore) -> None:
    statuses = Statuses(runtimes)
    looking = fleet(runtimes, statuses)

    await looking.look_now()
    await looking.look_now()

    assert [(each["models"], each["observedGeneration"]) for each in statuses.written] == [(1, 2)]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (errors.Forbidden("denied by a webhook", code=403), ["triton", "vllm"]),
        (errors.NotLeading("not the leader"), ["triton"]),
    ],
)
async def test_a_status_that_is_refused_does_not_stop_the_others(
    runtimes: RuntimeStore, error: errors.ApiError, expected: list[str]
) -> None:
    runtimes.put_runtime({**BODY, "metadata": {**BODY["metadata"], "name": "vllm", "uid": "v"}})
    statuses = Refused(runtimes, error)

    with pytest.raises(type(error)):
        await fleet(runtimes, statuses).look_now()

    assert statuses.asked == expected


async def test_an_operator_of_a_part_of_the_models_writes_no_status(
    runtimes: RuntimeStore,
) -> None:
    await fleet(runtimes, None).look_now()

    assert runtimes.statuses == {"triton": {}}


async def test_nothing_is_counted_before_all_models_are_known(runtimes: RuntimeStore) -> None:
    statuses = Statuses(runtimes)

    await fleet(runtimes, statuses, unknown).look_now()

    assert statuses.written == []


async def test_runtimes_that_may_not_be_read_get_no_status(runtimes: RuntimeStore) -> None:
    statuses = Statuses(runtimes)
    runtimes.put_unreadable("forbidden", is_forbidden=True)

    await fleet(runtimes, statuses).look_now()
    before = list(statuses.written)
    runtimes.put_unreadable("")
    await fleet(runtimes, statuses).look_now()

    assert before == []
    assert len(statuses.written) == 1


def test_models_that_can_use_a_runtime_are_reconciled_once_runtimes_can_be_read(
    runtimes: RuntimeStore,
) -> None:
    added: list[str] = []

    fleet(runtimes, None, again=lambda key, _: added.append(key.name)).access_changed()

    assert added == ["iris"]


class World:
    """Several models and runtimes, with the reconciles that are requested."""

    def __init__(self, *models: dict[str, Any], runtimes: Sequence[dict[str, Any]] = ()) -> None:
        self.again: list[tuple[str, str, Urgency]] = []
        self.looks = 0
        self.store = Store(
            changed=lambda *_: None, pod_moved=lambda _: None, child_gone=lambda _: None
        )
        for each in models:
            self.store.put_model(each)
        self.runtimes = RuntimeStore(
            changed=lambda *_: None, namespace_changed=lambda _: None, access_changed=lambda: None
        )
        for each in runtimes:
            self.runtimes.put_runtime(each)
        self.turns = RuntimeTurns()
        self.fleet = RuntimeFleet(
            self.store,
            self.runtimes,
            self.turns,
            None,
            have_arrived=known,
            now=lambda: NOW,
            again=lambda key, urgency: self.again.append((key.namespace, key.name, urgency)),
        )

    @property
    def is_looking(self) -> bool:
        return self.fleet._news.is_set()


def of(name: str, namespace: str = "ns", **spec: Any) -> dict[str, Any]:
    metadata = {**MODEL["metadata"], "name": name, "namespace": namespace, "uid": name}
    return {**MODEL, "metadata": metadata} if not spec else {"metadata": metadata, "spec": spec}


def runtime(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {**BODY["metadata"], "name": name, "uid": name}, "spec": spec}


USES_VLLM = {"runtime": {"name": "vllm"}}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("after", [True, False])
def test_the_models_of_a_changed_runtime_are_reconciled(before: bool, after: bool) -> None:
    world = World(of("b"), of("a"), of("c", **USES_VLLM))
    one = parse_inference_runtime(runtime("triton"))
    assert not world.is_looking

    world.fleet.runtime_changed(one if before else None, one if after else None)

    expected = [("ns", name, Urgency.ROUTINE) for name in "ab"]
    assert world.again == (expected if before or after else [])
    assert world.is_looking


SELECTS = {"allowedNamespaces": {"matchLabels": {"team": "a"}}}


def test_new_labels_of_a_namespace_reconcile_its_models_of_selecting_runtimes() -> None:
    world = World(
        of("a"), of("b", "other"), of("c", **USES_VLLM),
        runtimes=[runtime("triton", **SELECTS), runtime("vllm")],
    )  # fmt: skip

    world.fleet.labels_changed("ns")

    assert world.again == [("ns", "a", Urgency.ROUTINE)]
    assert world.is_looking


def test_new_labels_matter_to_no_model_without_a_selecting_runtime() -> None:
    world = World(of("a"), runtimes=[runtime("triton")])

    world.fleet.labels_changed("ns")

    assert world.again == []
    assert not world.is_looking


def test_runtimes_that_can_be_read_again_are_looked_at() -> None:
    world = World(of("a"), of("plain", model={"uri": "pvc://a/b"}, runtime={"image": "i:1"}))

    world.fleet.access_changed()

    assert world.again == [("ns", "a", Urgency.ROUTINE)]
    assert world.is_looking


async def test_models_get_their_turns_in_order() -> None:
    world = World(of("b"), of("a"), runtimes=[runtime("triton")])

    def grant(runtimes: Any, users: Any) -> set[ObjectKey]:
        assert [each.name for each in runtimes] == ["triton"]
        assert [each.key.name for each in users] == ["b", "a"]
        return {each.key for each in users}

    world.turns.grant = grant  # type: ignore[method-assign, assignment]

    await world.fleet.look_now()

    assert world.again == [("ns", name, Urgency.SPEC) for name in "ab"]


async def test_it_looks_again_until_all_models_are_known(runtimes: RuntimeStore) -> None:
    looking = fleet(runtimes, None, unknown)

    await looking.look_now()

    assert looking._news.is_set()


@pytest.mark.parametrize("is_readable", [True, False])
async def test_without_runtimes_nothing_is_waited_for(is_readable: bool) -> None:
    made = RuntimeStore(
        changed=lambda *_: None, namespace_changed=lambda _: None, access_changed=lambda: None
    )
    if not is_readable:
        made.put_runtime(BODY)
        made.put_unreadable("forbidden", is_forbidden=True)
    looking = fleet(made, None, unknown)

    await looking.look_now()

    assert not looking._news.is_set()


async def test_a_status_is_dated_and_keeps_what_it_was(
    runtimes: RuntimeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[Any, ...]] = []

    def status(*given: Any) -> dict[str, Any]:
        made.append(given)
        return {"models": len(made)}

    monkeypatch.setattr(runtime_fleet, "runtime_status", status)
    looking = fleet(runtimes, Statuses(runtimes))

    await looking.look_now()
    await looking.look_now()

    current = runtimes.current
    assert [each[3] for each in made] == [{}, {"models": 1}]
    assert {each[4] for each in made} == {NOW}
    first = made[0]
    assert first[0].name == "triton"
    assert first[1].by_name.keys() == current.by_name.keys()
    assert [each.key.name for each in first[2]] == ["iris"]


async def test_a_look_follows_each_change_and_a_failure_is_retried(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    naps: list[float] = []
    looks = iter([None, errors.ServerError("no", code=500), None])

    async def look_now() -> None:
        naps.append(0)
        if error := next(looks):
            raise error

    async def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 2:
            world.fleet.look()
        if len(naps) == 7:
            raise asyncio.CancelledError

    monkeypatch.setattr(world.fleet, "look_now", look_now)
    monkeypatch.setattr(runtime_fleet.asyncio, "sleep", sleep)
    world.fleet.look()

    with pytest.raises(asyncio.CancelledError):
        await world.fleet.run()

    assert naps == [0, 0.5, 0, 5.0, 0.5, 0, 0.5]
    assert not world.is_looking
    [line] = (each.__dict__ for each in caplog.records)
    assert (line["msg"], line["error"]) == ("runtimes not updated", "no")


async def test_a_single_refused_status_is_reported(runtimes: RuntimeStore) -> None:
    refused = Refused(runtimes, errors.Forbidden("denied by a webhook", code=403))

    with pytest.raises(errors.Forbidden):
        await fleet(runtimes, refused).look_now()


async def test_a_runtime_that_is_deleted_meanwhile_stops_no_other_status(
    runtimes: RuntimeStore,
) -> None:
    class Deleting(Refused):
        async def write(self, runtime: InferenceRuntime, status: dict[str, Any]) -> None:  # noqa: ARG002 -- as above
            self.asked.append(runtime.name)
            self.runtimes.drop_runtime("uid-vllm")

    metadata = {**BODY["metadata"], "name": "vllm", "uid": "uid-vllm"}
    runtimes.put_runtime({**BODY, "metadata": metadata})
    deleting = Deleting(runtimes, errors.NotFound("gone", code=404))

    await fleet(runtimes, deleting).look_now()

    assert deleting.asked == ["triton", "vllm"]
