"""What the tests' agent for NetworkPolicies makes of them."""

from typing import Any

import pytest

from support.policy_rules import Cluster, Pod, matches, parse_cluster, ruleset

MODEL = Pod("a", {"app": "model"}, "10.0.0.1", {"http": 8000})
SHOP = Pod("a", {"app": "shop"}, "10.0.0.2", {})
FAR_SHOP = Pod("b", {"app": "shop"}, "10.0.0.3", {})
CLUSTER = Cluster([MODEL, SHOP, FAR_SHOP], {"a": {"name": "a"}, "b": {"name": "b", "team": "web"}})
OF_SHOP = {"podSelector": {"matchLabels": {"app": "shop"}}}
OF_WEB = {"namespaceSelector": {"matchLabels": {"team": "web"}}}


def policy(**spec: Any) -> dict[str, Any]:
    types = [each.title() for each in ("ingress", "egress") if each in spec]
    chosen = {"podSelector": {"matchLabels": {"app": "model"}}, "policyTypes": types}
    return {"metadata": {"namespace": "a"}, "spec": {**chosen, **spec}}


def chain(text: str, name: str) -> list[str]:
    """The rules of a chain."""
    return text.split(f"chain {name} {{")[1].split("}\n", maxsplit=1)[0].split("\n")[1:-1]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ([], []),
        ([{}], ["return"]),
        ([{"from": [OF_SHOP]}], ["ip saddr { 10.0.0.2 } return"]),
        ([{"from": [OF_WEB]}], ["ip saddr { 10.0.0.3 } return"]),
        (
            [{"from": [OF_SHOP | {"namespaceSelector": {}}]}],
            ["ip saddr { 10.0.0.2, 10.0.0.3 } return"],
        ),
        ([{"from": [{"podSelector": {"matchLabels": {"app": "none"}}}]}], []),
        ([{"ports": [{"port": "none"}, {"port": 1}]}], ["tcp dport 1 return"]),
        (
            [{"from": [OF_SHOP], "ports": [{"port": "http"}, {"port": 53, "protocol": "UDP"}]}],
            [
                "ip saddr { 10.0.0.2 } tcp dport 8000 return",
                "ip saddr { 10.0.0.2 } udp dport 53 return",
            ],
        ),
    ],
)
def test_a_selected_pod_is_closed_but_for_what_is_opened(
    rules: list[dict[str, Any]], expected: list[str]
) -> None:
    text = ruleset([policy(ingress=rules)], CLUSTER)

    lines = [line.strip() for line in chain(text, "ingress-10-0-0-1")]
    assert lines == [*expected, "drop"]
    assert text.count("ip daddr 10.0.0.1 jump ingress-10-0-0-1") == 2  # forward and input
    assert "jump egress" not in text


def test_a_direction_that_no_policy_selects_stays_open() -> None:
    text = ruleset([policy(egress=[{"ports": [{"port": 443}]}])], CLUSTER)

    assert "jump ingress" not in text
    assert [line.strip() for line in chain(text, "egress-10-0-0-1")] == [
        "tcp dport 443 return",
        "drop",
    ]
    assert "jump" not in ruleset([], CLUSTER)


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": {"app": "shop"}}, True),
        ({"matchLabels": {"app": "model"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop"]}]}, False),
    ],
)
def test_selectors_choose_by_labels_and_expressions(
    selector: dict[str, Any], chosen: bool
) -> None:
    assert matches(selector, {"app": "shop"}) is chosen


def test_what_is_not_enforced_is_refused_instead_of_ignored() -> None:
    blocked = policy(ingress=[{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}])

    with pytest.raises(ValueError, match="ipBlock"):
        ruleset([blocked], CLUSTER)


def test_pods_of_the_host_and_without_an_address_are_left_out() -> None:
    def pod(**status: str) -> dict[str, Any]:
        return {"metadata": {"namespace": "a"}, "spec": {"containers": [{}]}, "status": status}

    of_host = pod(podIP="10.0.0.9")
    of_host["spec"]["hostNetwork"] = True
    namespaces = [{"metadata": {"name": "a", "labels": {}}}]

    found = parse_cluster([pod(), pod(podIP="10.0.0.4"), of_host], namespaces)

    assert [each.address for each in found.pods] == ["10.0.0.4"]
