"""Gateways that the operator may no longer read, as its watches show."""

from typing import Any, cast

import pytest

from moorage_operator.kube import kinds
from moorage_operator.kube.kinds import Kind
from moorage_operator.kube.reflector import Reflector
from moorage_operator.store.gateways import GatewayStore
from moorage_operator.values.gateways import GatewayKey
from moorage_operator.watch.gateways import GatewayAccess
from moorage_operator.watch.namespaces import REFUSED_SECONDS
from support.operator_values import model

OF = model(route={"parentRefs": [{"name": "web"}]})
WEB = {
    "metadata": {"namespace": "ns", "name": "web", "uid": "u"},
    "spec": {"listeners": [{"name": "web", "protocol": "HTTP", "port": 80}]},
}


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
        self.access = GatewayAccess(self.store, lambda: [self.watch])

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


def test_an_outage_leaves_gateways_known() -> None:
    world = World()

    world.watch.liveness.fail("connection refused")

    assert world.look(1000.0)
    assert world.changes == []


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
