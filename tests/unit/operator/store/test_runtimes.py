"""The InferenceRuntimes and the labels of namespaces in memory, and which changes are reported."""

from typing import Any

import pytest

from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.store.runtimes import RuntimeStore

OPEN, CLOSED = {"team": "a"}, {"team": "b"}


def runtime(name: str = "triton", uid: str = "u", image: str = "triton:1", **more: Any) -> Any:
    return {"metadata": {"name": name, "uid": uid}, "spec": {"image": image}, **more}


def namespace(name: str = "ns", uid: str = "n", labels: Any = None) -> Any:
    return {"metadata": {"name": name, "uid": uid, "labels": labels}}


class Told:
    """A store with the changes that it reports."""

    def __init__(self) -> None:
        self.runtimes: list[tuple[InferenceRuntime | None, InferenceRuntime | None]] = []
        self.namespaces: list[str] = []
        self.accesses = 0
        self.store = RuntimeStore(
            changed=lambda *both: self.runtimes.append(both),
            namespace_changed=self.namespaces.append,
            access_changed=self._count,
        )

    def _count(self) -> None:
        self.accesses += 1

    @property
    def names(self) -> list[str]:
        return list(self.store.current.by_name)


@pytest.fixture
def told() -> Told:
    return Told()


def test_a_runtime_is_reported_when_its_spec_changes_and_when_it_is_deleted(told: Told) -> None:
    told.store.put_runtime(runtime())
    first = told.store.current.by_name["triton"]
    told.store.put_runtime(runtime(status={"models": 3}))
    told.store.put_runtime(runtime(image="triton:2"))
    second = told.store.current.by_name["triton"]
    told.store.put_runtime(runtime("other", "o"))
    other = told.store.current.by_name["other"]
    told.store.drop_runtime("u")

    assert [each.content["runtime"]["image"] for each in (first, second)] == [
        "triton:1",
        "triton:2",
    ]
    assert told.runtimes == [(None, first), (first, second), (None, other), (second, None)]
    assert told.names == ["other"]


def test_the_status_of_a_runtime_is_kept_until_it_is_deleted(told: Told) -> None:
    told.store.put_runtime(runtime())
    assert told.store.statuses == {"triton": {}}

    told.store.put_runtime(runtime(status={"models": 3}))
    assert told.store.statuses == {"triton": {"models": 3}}

    told.store.drop_runtime("u")
    assert told.store.statuses == {}


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor(told: Told) -> None:
    told.store.put_runtime(runtime(uid="old"))
    told.store.put_runtime(runtime(uid="new"))

    told.store.drop_runtime("old")
    told.store.drop_runtime("never seen")
    assert told.names == ["triton"]
    assert told.store.statuses == {"triton": {}}

    told.store.drop_runtime("new")
    assert told.names == []


def test_only_changes_of_labels_are_reported(told: Told) -> None:
    told.store.put_namespace(namespace(labels=OPEN))
    told.store.put_namespace(namespace(labels=OPEN))
    told.store.put_namespace(namespace("bare", "b"))
    told.store.put_namespace(namespace(labels=CLOSED))

    assert told.namespaces == ["ns", "bare", "ns"]
    assert told.store.current.namespace_labels == {"ns": CLOSED, "bare": {}}


def test_the_labels_of_a_deleted_namespace_are_removed(told: Told) -> None:
    told.store.drop_namespace("never seen")
    assert told.store.current.namespace_labels is None

    told.store.put_namespace(namespace(labels=OPEN))
    told.store.put_namespace(namespace("other", "o", CLOSED))
    told.store.drop_namespace("n")
    told.store.drop_namespace("never seen")

    assert told.store.current.namespace_labels == {"other": CLOSED}


def test_the_deletion_of_a_namespace_does_not_remove_one_of_the_same_name(told: Told) -> None:
    told.store.put_namespace(namespace(uid="old", labels=OPEN))
    told.store.put_namespace(namespace(uid="new", labels=CLOSED))

    told.store.drop_namespace("old")

    assert told.store.current.namespace_labels == {"ns": CLOSED}


def test_labels_that_may_not_be_read_do_not_count(told: Told) -> None:
    told.store.put_labels_access(may_read=True)
    told.store.put_namespace(namespace(labels=OPEN))
    for _ in range(2):
        told.store.put_labels_access(may_read=False)
    told.store.put_namespace(namespace(labels=CLOSED))
    assert (told.store.current.namespace_labels, told.accesses) == (None, 1)

    for _ in range(2):
        told.store.put_labels_access(may_read=True)
    assert (told.store.current.namespace_labels, told.accesses) == ({"ns": CLOSED}, 2)


def test_access_to_labels_is_reported_only_once_there_are_labels(told: Told) -> None:
    told.store.put_labels_access(may_read=False)

    assert told.accesses == 0
    assert told.store.current.namespace_labels is None


def test_the_reason_for_unreadable_runtimes_is_reported_once(told: Told) -> None:
    for _ in range(2):
        told.store.put_unreadable("no right", is_forbidden=True)
    assert (told.store.current.unreadable, told.store.current.is_forbidden) == ("no right", True)
    assert told.accesses == 1

    told.store.put_unreadable("no kind")
    assert (told.store.current.unreadable, told.store.current.is_forbidden) == ("no kind", False)
    told.store.put_unreadable("")
    assert (told.store.current.unreadable, told.store.current.is_forbidden) == ("", False)
    assert told.accesses == 3


def test_every_change_has_a_version_of_its_own(told: Told) -> None:
    versions = [told.store.current.version]
    told.store.put_runtime(runtime())
    versions.append(told.store.current.version)
    told.store.put_namespace(namespace(labels=OPEN))
    versions.append(told.store.current.version)
    told.store.put_unreadable("no right")
    versions.append(told.store.current.version)
    told.store.put_runtime(runtime(status={"models": 1}))

    assert len({*versions}) == 4
    assert told.store.current.version == versions[-1]
