"""The children and the parts of a pod that keep replicas safe while they come and go."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.config import OperatorConfig
from moorage_operator.resources.network_policy import make_network_policy
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.revisions import spec_hash
from moorage_operator.state import Observed
from moorage_operator.watched import Scheduled
from support.operator_values import (
    CONFIG,
    condition,
    model,
    observed,
    pending,
    planned,
    verdict,
)

OTHER = {"runtime": {"image": "other:1"}}


def pod_spec(**spec: Any) -> dict[str, Any]:
    return make_pod_template(model(**spec), CONFIG)["spec"]


def container(**spec: Any) -> dict[str, Any]:
    return pod_spec(**spec)["containers"][0]


def environment(**spec: Any) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(**spec)["env"]}


def child(of: InferenceModel, kind: str) -> dict[str, Any]:
    """The planned object of a kind, {} where there is none."""
    objects = planned(of, Observed()).objects
    return next((each for each in objects if each["kind"] == kind), {})


# ---------------------------------------------------------------------- disruption


@pytest.mark.parametrize(
    ("spec", "has_one"),
    [
        ({}, False),
        ({"replicas": 2}, True),
        ({"replicas": 2, "suspend": True}, False),
        ({"replicas": 2, "disruptionBudget": "None"}, False),
        ({"scaling": {"maxReplicas": 2, "target": 1}}, True),
        ({"scaling": {"maxReplicas": 1, "target": 1}}, False),
    ],
)
def test_a_budget_is_for_models_that_may_have_several_replicas(
    spec: dict[str, Any], has_one: bool
) -> None:
    budget = child(model(**spec), "PodDisruptionBudget")

    assert bool(budget) == has_one
    if has_one:
        assert budget["spec"]["maxUnavailable"] == 1
        assert budget["spec"]["selector"]["matchLabels"]["moorage.dev/model"] == "digits"


# ---------------------------------------------------------------------- the network


def policy(config: OperatorConfig = CONFIG, **spec: Any) -> dict[str, Any]:
    made = make_network_policy(model(**spec), config)
    assert made is not None
    return made["spec"]


def test_a_model_without_a_word_of_it_has_no_network_policy() -> None:
    assert child(model(), "NetworkPolicy") == {}


def test_the_operator_comes_in_by_itself_and_the_peers_to_the_models_ports() -> None:
    peers = [{"podSelector": {"matchLabels": {"app": "shop"}}}]

    operator, clients = policy(
        replace(CONFIG, namespace="moorage-system"), networkPolicy={"from": peers}
    )["ingress"]

    (peer,) = operator["from"]
    assert peer["podSelector"]["matchLabels"] == {"app.kubernetes.io/name": "moorage"}
    name = {"kubernetes.io/metadata.name": "moorage-system"}
    assert peer["namespaceSelector"] == {"matchLabels": name}
    assert "ports" not in operator
    assert clients["from"] == peers
    assert [each["port"] for each in clients["ports"]] == [8000, 8001]


def test_an_operator_of_an_unknown_namespace_may_come_from_any() -> None:
    (rule,) = policy(networkPolicy={"from": []})["ingress"]

    assert rule["from"][0]["namespaceSelector"] == {}


def test_an_empty_list_of_peers_lets_nobody_else_in() -> None:
    rules = policy(networkPolicy={"from": []})["ingress"]

    assert len(rules) == 1  # a rule with an empty `from` would let everybody in


def test_a_network_policy_without_peers_is_a_problem_that_says_what_to_write() -> None:
    (problem,) = model(networkPolicy={}).problems

    assert problem.path == "spec.networkPolicy.from"
    assert "[] lets the operator alone in" in problem.message


# ---------------------------------------------------------------------- where and how pods end


def test_replicas_are_spread_over_zones_and_hosts_as_a_wish() -> None:
    constraints = pod_spec()["topologySpreadConstraints"]

    assert [each["topologyKey"] for each in constraints] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    assert {each["whenUnsatisfiable"] for each in constraints} == {"ScheduleAnyway"}


@pytest.mark.parametrize("written", [[], [{"maxSkew": 2, "topologyKey": "rack"}], None])
def test_a_pod_template_replaces_the_spread_or_takes_it_away(written: Any) -> None:
    spec = pod_spec(podTemplate={"spec": {"topologySpreadConstraints": written}})

    assert spec.get("topologySpreadConstraints") == written


def test_another_server_is_held_back_from_its_end_while_routes_change() -> None:
    assert container(**OTHER)["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}


def test_the_bundled_runtime_drains_by_itself_within_the_grace_period() -> None:
    grace = {"health": {"terminationGracePeriodSeconds": 60}}

    assert "lifecycle" not in container(**grace)
    assert pod_spec(**grace)["terminationGracePeriodSeconds"] == 60
    assert environment(**grace)["MOORAGE_DRAIN_SECONDS"] == "5"
    assert environment(**grace)["MOORAGE_SHUTDOWN_GRACE_SECONDS"] == "52"
    shortest = environment(health={"terminationGracePeriodSeconds": 10})
    assert shortest["MOORAGE_SHUTDOWN_GRACE_SECONDS"] == "2"
    assert "MOORAGE_DRAIN_SECONDS" not in environment(**OTHER)


def test_a_gpu_is_asked_for_and_its_taint_tolerated() -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    resources = {"limits": {"nvidia.com/gpu": 1}}

    spec = pod_spec(
        runtime={"image": "triton:1", "resources": resources}, tolerations=[toleration]
    )

    assert spec["containers"][0]["resources"] == resources
    assert spec["tolerations"] == [toleration]


def test_a_gpu_that_no_node_has_is_named() -> None:
    of = model()
    words = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    waits = pending(
        "p", of, scheduled=Scheduled(status=False, reason="Unschedulable", message=words)
    )

    plan = planned(of, observed(waits))

    assert verdict(plan) == ("False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in condition(plan, "Ready")["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 3},
        {"scaling": {"maxReplicas": 3, "target": 1}},
        {"disruptionBudget": "None"},
        {"networkPolicy": {"from": []}},
    ],
)
def test_what_stands_beside_the_pods_is_no_new_revision(spec: dict[str, Any]) -> None:
    assert spec_hash(model(**spec)) == spec_hash(model())
    assert make_pod_template(model(**spec), CONFIG) == make_pod_template(model(), CONFIG)
