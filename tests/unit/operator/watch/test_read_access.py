"""Objects that the operator may no longer read, as its watches show."""

from typing import Any, cast

import pytest

from moorage_operator.kube import kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.kube.reflector import Reflector
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.store.store import Store
from moorage_operator.values.gateways import GatewayKey
from moorage_operator.values.observed import ObjectKey
from moorage_operator.watch.namespaces import REFUSED_SECONDS
from moorage_operator.watch.read_access import ReadAccess, reports
from support.operator_values import body, model

ROUTES = {"HTTPRoute", "GRPCRoute", "Ingress"}
AUTOSCALERS = {"HorizontalPodAutoscaler", "ScaledObject"}
OF = model(route={"parentRefs": [{"name": "web"}]})
WEB = {
    "metadata": {"namespace": "ns", "name": "web", "uid": "u"},
    "spec": {"listeners": [{"name": "web", "protocol": "HTTP", "port": 80}]},
}


def of_namespace(namespace: str) -> dict[str, Any]:
    found = body()
    found["metadata"] |= {"namespace": namespace, "uid": namespace, "resourceVersion": "1"}
    return found


class World:
    """A watch of Gateways that has listed one, and the changes that the store reports."""

    def __init__(self, kind: Kind = kinds.GATEWAYS) -> None:
        self.at = 0.0
        self.changes: list[GatewayKey | None] = []
        self.store = GatewayStore(changed=self.changes.append)
        none = cast("Any", None)  # nothing is requested or received here
        self.watch = Reflector(none, kind, none, namespace="ns", clock=lambda: self.at)
        self.watch.synced.set()
        self.store.put(WEB)
        self.store.end_list("ns")
        self.changes.clear()
        self.reconciled: list[str] = []
        self.children = Store(
            changed=lambda key, _: self.reconciled.append(key.namespace),
            pod_moved=lambda _: None,
            child_gone=lambda _: None,
        )
        for namespace in ("ns", "other"):
            self.children.put_model(of_namespace(namespace))
        self.reconciled.clear()
        self.watches = [self.watch]
        self.access = ReadAccess(self.store, self.children, lambda: self.watches)

    def unreadable(self, seconds: float = 0.0, namespace: str = "ns") -> frozenset[str]:
        """The kinds of children that may not be read after this time."""
        self.at += seconds
        self.access.look()
        return self.children.observed(ObjectKey(namespace, "digits")).unreadable_kinds

    def look(self, seconds: float = 0.0) -> bool:
        """Whether the Gateway is known after this time."""
        self.at += seconds
        self.access.look()
        return ("ns", "web") in self.store.of(OF, None).by_key


def test_a_lasting_refusal_makes_gateways_unknown_until_access_is_restored() -> None:
    world = World()
    assert world.look(100.0)

    world.watch.liveness.fail("forbidden", refused=True)
    assert world.look(REFUSED_SECONDS - 0.1)
    assert not world.look(0.2)
    assert not world.look(100.0)
    assert world.changes == [None]

    world.watch.liveness.beat()
    assert world.look()
    assert world.changes == [None, None]


def test_a_gateway_stays_unknown_until_a_request_succeeds() -> None:
    world = World()
    world.watch.liveness.fail("forbidden", refused=True)
    assert not world.look(REFUSED_SECONDS)

    world.watch.liveness.fail("connection refused")

    assert not world.look(100.0)


def test_an_outage_leaves_gateways_known() -> None:
    world = World()

    world.watch.liveness.fail("connection refused")

    assert world.look(1000.0)
    assert world.changes == []


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        *[(name, name in ROUTES | AUTOSCALERS) for name in kinds.CHILDREN],
        ("Gateway", False),
        ("Pod", False),
    ],
)
def test_a_lost_right_counts_for_kinds_whose_status_is_reported(
    name: str, *, reported: bool
) -> None:
    kind = {**kinds.CHILDREN, "Gateway": kinds.GATEWAYS, "Pod": kinds.PODS}[name]
    world = World(kind)
    expected = frozenset({name} if reported else ())
    assert reports(world.watch) is reported
    assert world.unreadable(100.0) == frozenset()

    world.watch.liveness.fail("forbidden", refused=True)
    assert world.unreadable(REFUSED_SECONDS - 0.1) == frozenset()
    assert world.unreadable(0.2) == expected
    assert world.unreadable(namespace="other") == frozenset()
    assert world.reconciled == (["ns"] if reported else [])

    world.watch.liveness.fail("connection refused")  # which proves nothing
    assert world.unreadable(100.0) == expected
    world.watch.liveness.beat()
    assert world.unreadable() == frozenset()
    assert world.reconciled == (["ns", "ns"] if reported else [])


@pytest.mark.parametrize("name", sorted(ROUTES | AUTOSCALERS))
def test_a_kind_that_was_never_listed_counts_until_its_first_list(name: str) -> None:
    world = World(kinds.CHILDREN[name])
    world.watch.synced.clear()
    assert world.unreadable() == frozenset()

    world.watch.liveness.fail("forbidden", refused=True)
    assert world.unreadable(REFUSED_SECONDS) == {name}

    world.watch.synced.set()
    world.watch.liveness.beat()
    assert world.unreadable() == frozenset()


def test_a_kind_that_was_uninstalled_is_not_forbidden() -> None:
    world = World(kinds.HTTP_ROUTES)
    world.watch.liveness.fail("forbidden", refused=True)
    assert world.unreadable(REFUSED_SECONDS) == {"HTTPRoute"}

    world.watches.clear()

    assert world.unreadable() == frozenset()


@pytest.mark.parametrize("kind", [kinds.HTTP_ROUTES, kinds.SCALED_OBJECTS])
def test_the_watches_of_other_kinds_do_not_matter(kind: Kind) -> None:
    world = World(kind)

    world.watch.liveness.fail("forbidden", refused=True)

    assert world.look(1000.0)


def test_gateways_that_were_never_listed_stay_unknown() -> None:
    world = World()
    world.store.forget()
    world.watch.synced.clear()

    assert not world.look(1.0)
