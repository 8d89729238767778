"""The children and the parts of a pod that protect replicas during changes."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.api.config import OperatorConfig
from moorage_operator.api.v1alpha1 import InferenceModel
from moorage_operator.resources.disruption import make_disruption_budget
from moorage_operator.resources.network_policy import make_network_policy
from moorage_operator.resources.pod_template import make_pod_template
from moorage_operator.values.objects import Scheduled
from moorage_operator.values.observed import Observed
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
    """The planned object of a kind, {} if there is none."""
    objects = planned(of, Observed()).objects
    return next((each for each in objects if each["kind"] == kind), {})


# ---------------------------------------------------------------------- disruption


@pytest.mark.parametrize(
    ("spec", "has_one"),
    [
        ({}, False),
        ({"replicas": 2}, True),
        ({"replicas": 2, "suspend": True}, False),
        ({"replicas": 2, "disruptionBudget": {"policy": "None"}}, False),
        ({"scaling": {"maxReplicas": 2}}, True),
        ({"scaling": {"maxReplicas": 1}}, False),
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


def test_a_budget_selects_one_revision_or_all_pods():
    of = model(replicas=2)
    of_all, of_one = (make_disruption_budget(of, each) for each in ("", "r1"))

    assert of_all is not None
    assert of_one is not None
    selected = of_all["spec"]["selector"]["matchLabels"]
    assert "moorage.dev/revision" not in selected
    assert of_one["spec"]["selector"]["matchLabels"] == {**selected, "moorage.dev/revision": "r1"}


# ---------------------------------------------------------------------- the network


def policy(config: OperatorConfig = CONFIG, **spec: Any) -> dict[str, Any]:
    made = make_network_policy(model(**spec), config)
    assert made is not None
    return made["spec"]


def test_a_model_without_the_field_has_no_network_policy() -> None:
    assert child(model(), "NetworkPolicy") == {}


def test_the_operator_and_the_peers_are_allowed() -> None:
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


def test_an_operator_with_another_name_label_is_allowed_by_it() -> None:
    (rule,) = policy(replace(CONFIG, name_label="serving"), networkPolicy={"from": []})["ingress"]

    own = {"matchLabels": {"app.kubernetes.io/name": "serving"}}
    assert rule["from"][0]["podSelector"] == own


def test_an_operator_in_an_unknown_namespace_is_allowed_from_any() -> None:
    (rule,) = policy(networkPolicy={"from": []})["ingress"]

    assert rule["from"][0]["namespaceSelector"] == {}


def test_an_empty_list_of_peers_allows_only_the_operator() -> None:
    rules = policy(networkPolicy={"from": []})["ingress"]

    assert len(rules) == 1  # a rule with an empty `from` would let everybody in


def test_a_network_policy_without_peers_is_reported() -> None:
    (problem,) = model(networkPolicy={}).problems

    assert problem.path == "spec.networkPolicy.from"
    assert "required" in problem.message
    assert "[]" in problem.message


# ---------------------------------------------------------------------- where and how pods end


def test_replicas_are_spread_over_zones_and_hosts_if_possible() -> None:
    constraints = pod_spec()["topologySpreadConstraints"]

    assert [each["topologyKey"] for each in constraints] == [
        "topology.kubernetes.io/zone",
        "kubernetes.io/hostname",
    ]
    assert {each["whenUnsatisfiable"] for each in constraints} == {"ScheduleAnyway"}


@pytest.mark.parametrize("written", [[], [{"maxSkew": 2, "topologyKey": "rack"}], None])
def test_a_pod_template_replaces_or_removes_the_spread(written: Any) -> None:
    spec = pod_spec(podTemplate={"spec": {"topologySpreadConstraints": written}})

    assert spec.get("topologySpreadConstraints") == written


def test_the_end_of_another_server_is_delayed_while_routes_change() -> None:
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


def test_a_gpu_is_requested_and_its_taint_tolerated() -> None:
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    resources = {"limits": {"nvidia.com/gpu": 1}}

    spec = pod_spec(
        runtime={"image": "triton:1", "resources": resources}, tolerations=[toleration]
    )

    assert spec["containers"][0]["resources"] == resources
    assert spec["tolerations"] == [toleration]


def test_a_missing_gpu_is_reported() -> None:
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
        {"scaling": {"maxReplicas": 3}},
        {"disruptionBudget": {"policy": "None"}},
        {"networkPolicy": {"from": []}},
        {"paused": True},
        {"rollout": {"promote": "4c1f0a9d2e/2", "abort": "4c1f0a9d2e"}},
    ],
)
def test_objects_other_than_pods_create_no_new_revision(spec: dict[str, Any]) -> None:
    assert model(**spec).written.hash == model().written.hash
    assert make_pod_template(model(**spec), CONFIG) == make_pod_template(model(), CONFIG)
