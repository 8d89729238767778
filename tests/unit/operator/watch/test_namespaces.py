"""The served namespaces, as determined from their watches."""

from itertools import chain

import pytest

from moorage_operator.kube.liveness import BROKEN_SECONDS, Liveness
from moorage_operator.watch.namespaces import REFUSED_SECONDS, Namespaces, NamespaceWatch


class World:
    """Two watches per namespace, one of them of an optional kind, and the reported changes."""

    def __init__(self, *names: str) -> None:
        self.at = 0.0
        self.synced: set[str] = set()
        self.changes: list[tuple[str, bool]] = []
        self.required = {name: self._liveness("pods", name) for name in names or [""]}
        self.optional = {name: self._liveness("httproutes", name) for name in names or [""]}
        self.namespaces = Namespaces(names, self._watches, self._changed)

    def _liveness(self, resource: str, name: str) -> Liveness:
        return Liveness(resource, name, lambda: self.at)

    def _watches(self) -> list[NamespaceWatch]:
        required = (
            NamespaceWatch(each, lambda name=name: name in self.synced)
            for name, each in self.required.items()
        )
        optional = (
            NamespaceWatch(each, lambda: False, is_required=False)
            for each in self.optional.values()
        )
        return list(chain(required, optional))

    def _changed(self, name: str, is_served: bool) -> None:
        self.changes.append((name, is_served))

    def look(self, seconds: float = 0.0) -> None:
        self.at += seconds
        self.namespaces.look()


def test_all_namespaces_are_served_once_the_lists_are_complete() -> None:
    world = World()
    world.look()
    assert not world.namespaces.are_settled

    world.synced.add("")
    world.look()

    assert world.namespaces.are_settled
    assert world.namespaces.is_served("any")


def test_a_refused_namespace_does_not_delay_the_others() -> None:
    world = World("a", "b")
    world.synced.add("a")
    world.required["b"].fail("forbidden", refused=True)
    world.look()
    assert not world.namespaces.are_settled  # it may be refused for a moment

    world.look(REFUSED_SECONDS)

    assert world.namespaces.are_settled
    assert world.changes == [("a", True), ("b", False)]
    assert world.namespaces.troubles() == []


def test_a_short_refusal_is_ignored() -> None:
    world = World("a")
    world.synced.add("a")
    world.look()
    world.required["a"].fail("forbidden", refused=True)
    world.look(REFUSED_SECONDS - 1)
    world.required["a"].beat()
    world.look(REFUSED_SECONDS)

    assert world.changes == [("a", True)]


def test_a_namespace_is_served_again_once_all_its_watches_work() -> None:
    world = World("a", "b")
    world.synced |= {"a", "b"}
    world.look()
    world.required["b"].fail("forbidden", refused=True)
    world.look(REFUSED_SECONDS)
    assert not world.namespaces.is_served("b")
    assert world.namespaces.is_served("a")

    world.required["b"].beat()
    world.look(1)

    assert world.changes[-1] == ("b", True)


@pytest.mark.parametrize("served", [True, False])
def test_a_refusal_is_reported_if_no_other_namespace_is_served(*, served: bool) -> None:
    world = World("a", "b")
    world.required["a"].fail("forbidden", refused=True)
    if served:
        world.synced.add("b")
    else:
        world.required["b"].fail("forbidden", refused=True)
    world.look(BROKEN_SECONDS + 1)
    world.optional["b"].beat()
    world.optional["a"].beat()
    world.required["b"].beat() if served else None

    assert (world.namespaces.troubles() == []) is served


def test_a_broken_watch_is_reported_in_any_namespace() -> None:
    world = World("a", "b")
    world.synced |= {"a", "b"}
    world.look()
    world.look(BROKEN_SECONDS + 1)
    for each in (*world.required.values(), world.optional["a"]):
        each.beat()

    (said,) = world.namespaces.troubles()

    assert "httproutes in namespace b" in said
    assert world.namespaces.is_served("b")
