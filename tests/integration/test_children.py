"""The children of a model on a real API server: unplanned ones are deleted."""

from typing import Any

import pytest

from support.operator_cluster import Api, OperatorProcess, eventually, model

pytestmark = pytest.mark.integration


def child(api: Api, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object like a child of the model iris from an earlier operator."""
    owner = api.get("InferenceModel", "iris")["metadata"]
    reference = {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "name": "iris",
        "uid": owner["uid"],
        "controller": True,
    }
    return {
        "apiVersion": {"Service": "v1", "NetworkPolicy": "networking.k8s.io/v1"}[kind],
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {
                "app.kubernetes.io/managed-by": "moorage",
                "moorage.dev/model": "iris",
            },
            "ownerReferences": [reference],
        },
        "spec": spec,
    }


def test_a_child_that_is_not_planned_is_deleted_and_the_others_stay(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))
    eventually("a Service", lambda: api.get("Service", "iris"))
    uid = api.get("Service", "iris")["metadata"]["uid"]

    api.apply(child(api, "Service", "old", {"ports": [{"port": 80}]}), manager="moorage")
    api.apply(child(api, "NetworkPolicy", "old", {"podSelector": {}}), manager="moorage")

    for kind in ("Service", "NetworkPolicy"):
        eventually(f"no {kind}", lambda kind=kind: not api.get(kind, "old"))
    assert api.get("Service", "iris")["metadata"]["uid"] == uid


def test_a_child_without_an_owner_that_is_not_planned_is_deleted(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))
    eventually("a Service", lambda: api.get("Service", "iris"))
    orphan = child(api, "Service", "old", {"ports": [{"port": 80}]})
    del orphan["metadata"]["ownerReferences"]

    api.apply(orphan, manager="moorage")

    eventually("the orphan is gone", lambda: not api.get("Service", "old"))


def test_objects_of_others_are_kept_regardless_of_their_labels(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris"))
    eventually("a Service", lambda: api.get("Service", "iris"))
    theirs = child(api, "Service", "theirs", {"ports": [{"port": 80}]})
    del theirs["metadata"]["ownerReferences"]
    api.apply(theirs)
    api.apply(child(api, "Service", "old", {"ports": [{"port": 80}]}), manager="moorage")

    eventually("the other is gone", lambda: not api.get("Service", "old"))
    assert api.get("Service", "theirs")


def test_a_disruption_budget_exists_with_two_or_more_replicas(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris", replicas=2, runtime={"image": "i:1"}))
    found = eventually("a budget", lambda: api.get("PodDisruptionBudget", "iris"))
    assert found["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"

    api.patch("PodDisruptionBudget", "iris", {"spec": {"maxUnavailable": 2}})

    def most() -> Any:
        return api.get("PodDisruptionBudget", "iris")["spec"]["maxUnavailable"]

    eventually("the budget is restored", lambda: most() == 1)
    api.patch("InferenceModel", "iris", {"spec": {"replicas": 1}})
    eventually("no budget", lambda: not api.get("PodDisruptionBudget", "iris"))


def test_a_network_policy_follows_the_spec(operator: OperatorProcess, api: Api) -> None:
    peer = {"podSelector": {"matchLabels": {"app": "shop"}}}
    api.apply(model("iris", networkPolicy={"from": [peer]}, runtime={"image": "i:1"}))
    found = eventually("a policy", lambda: api.get("NetworkPolicy", "iris"))
    operator_rule, clients = found["spec"]["ingress"]
    assert operator_rule["from"][0]["podSelector"]
    assert clients["from"] == [peer]

    api.apply(model("iris", networkPolicy={"from": []}, runtime={"image": "i:1"}))
    eventually(
        "the operator alone",
        lambda: len(api.get("NetworkPolicy", "iris")["spec"]["ingress"]) == 1,
    )
    api.apply(model("iris", runtime={"image": "i:1"}))
    eventually("no policy", lambda: not api.get("NetworkPolicy", "iris"))
