"""The Gateways in memory: what is kept of them, and which changes are reported."""

from typing import Any

import pytest

from moorage_operator.store.gateways import GatewayStore, gateway
from moorage_operator.store.plain_sink import PlainSink
from moorage_operator.values.gateways import GatewayKey, GatewayObserved, Listener
from support.operator_values import model

LISTENER = {"name": "web", "protocol": "HTTP", "port": 80}
OF = model(route={"parentRefs": [{"name": "web"}, {"name": "far", "namespace": "other"}]})


def body(uid: str = "u", name: str = "web", status: Any = None, **listener: Any) -> dict[str, Any]:
    spec = {"listeners": [{**LISTENER, **listener}]}
    metadata = {"namespace": "ns", "name": name, "uid": uid}
    return {"metadata": metadata, "spec": spec, "status": status or {}}


class Told:
    """A store with the changes that it reports."""

    def __init__(self) -> None:
        self.changes: list[GatewayKey | None] = []
        self.store = GatewayStore(changed=self.changes.append)
        self.sink = PlainSink(self.store.put, self.store.drop, self.store.end_list)

    def of(self) -> dict[GatewayKey, GatewayObserved | None]:
        return dict(self.store.of(OF, None).by_key)


def test_a_gateway_is_unknown_until_its_namespace_is_listed() -> None:
    told = Told()
    assert told.of() == {}

    told.sink.end_list("ns", "1")
    assert told.of() == {("ns", "web"): None}

    told.sink.end_list("", "1")
    assert told.of() == {("ns", "web"): None, ("other", "far"): None}
    told.store.forget()
    assert told.of() == {}
    assert told.changes == [None, None, None]


def test_a_gateway_that_may_no_longer_be_read_is_unknown_until_it_may() -> None:
    told = Told()
    told.sink.end_list("ns", "1")
    told.sink.put(body())
    told.changes.clear()

    for _ in range(2):
        told.store.put_unreadable("ns")
    assert told.of() == {}

    told.sink.put(body(port=81))  # the watch continues with what it missed
    for _ in range(2):
        told.store.end_list("ns")
    assert told.of()["ns", "web"] == GatewayObserved((Listener("web", "HTTP", 81),))
    assert told.changes == [None, ("ns", "web"), None]


def test_only_changes_that_matter_are_reported() -> None:
    told = Told()
    told.sink.end_list("", "1")
    told.sink.put(body())
    counted = {"listeners": [{"name": "web", "attachedRoutes": 3}]}
    told.sink.put(body(status=counted))
    assert told.changes == [None, ("ns", "web")]

    told.sink.put(body(port=81))
    found = told.of()["ns", "web"]
    assert found == GatewayObserved((Listener("web", "HTTP", 81),))
    told.sink.drop("u")
    assert told.of()["ns", "web"] is None
    assert told.changes == [None, *[("ns", "web")] * 3]


def test_the_deletion_of_a_predecessor_does_not_remove_its_successor() -> None:
    told = Told()
    told.sink.end_list("", "1")
    told.sink.put(body("old"))
    told.sink.put(body("new"))

    told.sink.drop("old")
    told.sink.drop("never seen")

    assert told.of()["ns", "web"] is not None


@pytest.mark.parametrize("labels", [None, {}, {"team": "risk"}])
def test_the_labels_of_the_namespace_are_passed_on(labels: dict[str, str] | None) -> None:
    assert Told().store.of(OF, labels).namespace_labels == labels


@pytest.mark.parametrize(
    ("type_", "status", "is_broken"),
    [
        ("Accepted", "False", True),
        ("Programmed", "False", True),
        ("Accepted", "True", False),
        ("Programmed", "Unknown", False),
        ("Conflicted", "False", False),
        ("Conflicted", "True", False),
    ],
)
def test_a_listener_is_broken_if_it_is_not_accepted_or_not_programmed(
    type_: str, status: str, is_broken: bool
) -> None:
    conditions = [{"type": type_, "status": status}]
    reported = {"listeners": [{"name": "web", "conditions": conditions}]}

    (found,) = gateway(body(status=reported)).listeners

    assert found.is_broken is is_broken


SELECTOR = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "risk"}}}}
BROKEN = [{"type": "Programmed", "status": "False"}]


@pytest.mark.parametrize(
    ("listener", "expected"),
    [
        ({}, Listener("web", "HTTP", 80)),
        ({"hostname": "a.example.com"}, Listener("web", "HTTP", 80, "a.example.com")),
        (
            {"allowedRoutes": {"namespaces": {"from": "All"}, "kinds": [{"kind": "GRPCRoute"}]}},
            Listener("web", "HTTP", 80, route_kinds=frozenset({"GRPCRoute"}), namespaces="All"),
        ),
    ],
)
def test_a_listener_is_parsed(listener: dict[str, Any], expected: Listener) -> None:
    assert gateway(body(**listener)) == GatewayObserved((expected,))


def test_a_selector_is_parsed_and_an_invalid_one_is_none() -> None:
    (found,) = gateway(body(allowedRoutes=SELECTOR)).listeners
    assert found.selector
    assert found.selector.matches({"team": "risk"})
    assert not found.selector.matches({})
    invalid = {"namespaces": {"from": "Selector", "selector": {"matchLabels": {"team": 1}}}}
    (found,) = gateway(body(allowedRoutes=invalid)).listeners
    assert (found.namespaces, found.selector) == ("Selector", None)


def test_the_status_gives_addresses_and_broken_listeners() -> None:
    status = {
        "addresses": [{"type": "IPAddress", "value": "192.0.2.7"}, {"value": ""}],
        "listeners": [{"name": "web", "conditions": BROKEN}],
    }

    found = gateway(body(status=status))

    assert found.addresses == ("192.0.2.7",)
    assert found.listeners[0].is_broken
