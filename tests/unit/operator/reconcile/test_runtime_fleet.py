"""The statuses of InferenceRuntimes: who writes them, and only when they change."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.kube import errors
from moorage_operator.reconcile.runtime_fleet import RuntimeFleet
from moorage_operator.reconcile.runtime_turns import RuntimeTurns
from moorage_operator.store.runtimes import RuntimeStore
from moorage_operator.store.store import Store
from moorage_operator.values.observed import ObjectKey
from moorage_operator.values.urgency import Urgency

NOW = datetime(2026, 3, 4, tzinfo=UTC)
BODY = {"metadata": {"name": "triton", "uid": "uid-triton", "generation": 2}, "spec": {}}
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
        self.runtimes.put_runtime({**BODY, "status": status})


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
