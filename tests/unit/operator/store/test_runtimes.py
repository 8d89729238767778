"""The InferenceRuntimes and the labels of namespaces in memory, and which changes are reported."""

from itertools import count
from typing import Any

import pytest

from moorage_operator.api.inference_runtime import InferenceRuntime
from moorage_operator.store.runtimes import RuntimeStore

VERSIONS = map(str, count(1))
OPEN, CLOSED = {"team": "a"}, {"team": "b"}


def runtime(name: str = "triton", uid: str = "u", image: str = "triton:1", **more: Any) -> Any:
    metadata = {"name": name, "uid": uid, "resourceVersion": next(VERSIONS)}
    return {"metadata": metadata, "spec": {"image": image}, **more}


def namespace(name: str = "ns", uid: str = "n", labels: Any = None) -> Any:
    return {"metadata": {"name": name, "uid": uid, "labels": labels}}


class ReportingStore:
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
def reporting() -> ReportingStore:
    return ReportingStore()


def at(version: int, image: str = "triton:1") -> Any:
    body = runtime(image=image)
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


def test_an_earlier_version_changes_nothing(reporting: ReportingStore) -> None:
    reporting.store.put_runtime(at(7, "triton:2"))

    reporting.store.put_runtime(at(6))

    (known,) = reporting.store.known()
    assert (known[0].content["runtime"]["image"], known[1]) == ("triton:2", "7")
    assert len(reporting.runtimes) == 1


def test_events_from_before_a_list_without_a_runtime_do_not_bring_it_back(
    reporting: ReportingStore,
) -> None:
    reporting.store.put_runtime(at(5))
    reporting.store.drop_runtime("u", "8")

    reporting.store.put_runtime(at(7))
    assert reporting.names == []

    reporting.store.drop_runtime("u")  # by its watch, after which etcd may be restored
    reporting.store.put_runtime(at(3))
    assert reporting.names == ["triton"]


def test_a_runtime_is_known_again_after_a_restore_of_etcd(reporting: ReportingStore) -> None:
    reporting.store.put_runtime(at(5, "triton:2"))
    reporting.store.drop_runtime("u")

    reporting.store.put_runtime(at(3))

    assert [version for _, version in reporting.store.known()] == ["3"]


def test_a_runtime_is_reported_when_its_spec_changes_and_when_it_is_deleted(
    reporting: ReportingStore,
) -> None:
    reporting.store.put_runtime(runtime())
    first = reporting.store.current.by_name["triton"]
    reporting.store.put_runtime(runtime(status={"models": 3}))
    reporting.store.put_runtime(runtime(image="triton:2"))
    second = reporting.store.current.by_name["triton"]
    reporting.store.put_runtime(runtime("other", "o"))
    other = reporting.store.current.by_name["other"]
    reporting.store.drop_runtime("u")

    assert [each.content["runtime"]["image"] for each in (first, second)] == [
        "triton:1",
        "triton:2",
    ]
    assert reporting.runtimes == [(None, first), (first, second), (None, other), (second, None)]
    assert reporting.names == ["other"]


def test_the_status_of_a_runtime_is_kept_until_it_is_deleted(reporting: ReportingStore) -> None:
    reporting.store.put_runtime(runtime())
    assert reporting.store.statuses == {"triton": {}}

    reporting.store.put_runtime(runtime(status={"models": 3}))
    assert reporting.store.statuses == {"triton": {"models": 3}}

    reporting.store.drop_runtime("u")
    assert reporting.store.statuses == {}


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor(
    reporting: ReportingStore,
) -> None:
    reporting.store.put_runtime(runtime(uid="old"))
    reporting.store.put_runtime(runtime(uid="new"))

    reporting.store.drop_runtime("old")
    reporting.store.drop_runtime("never seen")
    assert reporting.names == ["triton"]
    assert reporting.store.statuses == {"triton": {}}

    reporting.store.drop_runtime("new")
    assert reporting.names == []


def test_only_changes_of_labels_are_reported(reporting: ReportingStore) -> None:
    reporting.store.put_namespace(namespace(labels=OPEN))
    reporting.store.put_namespace(namespace(labels=OPEN))
    reporting.store.put_namespace(namespace("bare", "b"))
    reporting.store.put_namespace(namespace(labels=CLOSED))

    assert reporting.namespaces == ["ns", "bare", "ns"]
    assert reporting.store.current.namespace_labels == {"ns": CLOSED, "bare": {}}


def test_the_labels_of_a_deleted_namespace_are_removed(reporting: ReportingStore) -> None:
    reporting.store.drop_namespace("never seen")
    assert reporting.store.current.namespace_labels is None

    reporting.store.put_namespace(namespace(labels=OPEN))
    reporting.store.put_namespace(namespace("other", "o", CLOSED))
    reporting.store.drop_namespace("n")
    reporting.store.drop_namespace("never seen")

    assert reporting.store.current.namespace_labels == {"other": CLOSED}


def test_the_deletion_of_a_namespace_does_not_remove_one_of_the_same_name(
    reporting: ReportingStore,
) -> None:
    reporting.store.put_namespace(namespace(uid="old", labels=OPEN))
    reporting.store.put_namespace(namespace(uid="new", labels=CLOSED))

    reporting.store.drop_namespace("old")

    assert reporting.store.current.namespace_labels == {"ns": CLOSED}


def test_labels_that_may_not_be_read_do_not_count(reporting: ReportingStore) -> None:
    reporting.store.put_labels_access(may_read=True)
    reporting.store.put_namespace(namespace(labels=OPEN))
    for _ in range(2):
        reporting.store.put_labels_access(may_read=False)
    reporting.store.put_namespace(namespace(labels=CLOSED))
    assert (reporting.store.current.namespace_labels, reporting.accesses) == (None, 1)

    for _ in range(2):
        reporting.store.put_labels_access(may_read=True)
    assert (reporting.store.current.namespace_labels, reporting.accesses) == ({"ns": CLOSED}, 2)


def test_access_to_labels_is_reported_only_once_there_are_labels(
    reporting: ReportingStore,
) -> None:
    reporting.store.put_labels_access(may_read=False)

    assert reporting.accesses == 0
    assert reporting.store.current.namespace_labels is None


def test_the_reason_for_unreadable_runtimes_is_reported_once(reporting: ReportingStore) -> None:
    for _ in range(2):
        reporting.store.put_unreadable("no right", is_forbidden=True)
    assert (reporting.store.current.unreadable, reporting.store.current.is_forbidden) == (
        "no right",
        True,
    )
    assert reporting.accesses == 1

    reporting.store.put_unreadable("no kind")
    assert (reporting.store.current.unreadable, reporting.store.current.is_forbidden) == (
        "no kind",
        False,
    )
    reporting.store.put_unreadable("")
    assert (reporting.store.current.unreadable, reporting.store.current.is_forbidden) == (
        "",
        False,
    )
    assert reporting.accesses == 3


def test_every_change_has_a_version_of_its_own(reporting: ReportingStore) -> None:
    versions = [reporting.store.current.version]
    reporting.store.put_runtime(runtime())
    versions.append(reporting.store.current.version)
    reporting.store.put_namespace(namespace(labels=OPEN))
    versions.append(reporting.store.current.version)
    reporting.store.put_unreadable("no right")
    versions.append(reporting.store.current.version)
    reporting.store.put_runtime(runtime(status={"models": 1}))

    assert len({*versions}) == 4
    assert reporting.store.current.version == versions[-1]
