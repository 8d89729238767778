"""Children that a real API server refuses or cannot write, together with accepted ones."""

from typing import Any

import pytest

from support.admission import MESSAGE, failing, hanging, refusing
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
    settle,
)

pytestmark = pytest.mark.integration

CLOSED = {"from": []}
OPEN = {"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]}


def iris(server: ModelServer, image: str = "example/server:1", **spec: Any) -> dict[str, Any]:
    return model("iris", runtime={"image": image, "ports": {"http": server.port}}, **spec)


def pods(kubelet: Kubelet, count: int) -> list[dict[str, Any]]:
    return eventually(
        f"{count} pods", lambda: len(found := kubelet.pods("iris")) == count and found
    )


def condition_of(api: Api, type_: str) -> dict[str, Any]:
    """A condition, {} if it is absent."""
    conditions = (api.get("InferenceModel", "iris").get("status") or {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == type_), {})


def test_a_hanging_webhook_does_not_stop_other_writes(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, replicas=2))
    for pod in pods(kubelet, 2):
        kubelet.run(pod)
    settle(api, "iris")

    with failing(api, "PodDisruptionBudget"):
        api.delete("PodDisruptionBudget", "iris")
        eventually("named", lambda: api.condition("iris", "Accepted") == ("False", "ApplyFailed"))
        message = condition_of(api, "Accepted")["message"]
        assert 'the PodDisruptionBudget "iris"' in message
        assert "failed calling webhook" in message
        assert api.condition("iris") == ("True", "Serving")

        # The status still reports changes of the pods.
        server.ready, server.error = False, "out of memory"
        for pod in pods(kubelet, 2):
            kubelet.run(pod, ready=False)
        eventually("reported", lambda: api.condition("iris")[0] == "False")
        # And the other children are still repaired.
        api.delete("Service", "iris")
        eventually("the Service is back", lambda: api.get("Service", "iris"))

    eventually("the budget is back", lambda: api.get("PodDisruptionBudget", "iris"), seconds=30)
    eventually("accepted", lambda: api.condition("iris", "Accepted") == ("True", "Valid"))


@pytest.mark.parametrize("fails", [refusing, failing])
def test_a_rollout_whose_service_cannot_be_switched_is_not_up_to_date(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, fails: Any
) -> None:
    def selected() -> str:
        return str(api.get("Service", "iris")["spec"]["selector"]["moorage.dev/revision"])

    rollout = {"strategy": "BlueGreen"}
    api.apply(iris(server, rollout=rollout))
    kubelet.run(*pods(kubelet, 1))
    settle(api, "iris")
    before = selected()

    with fails(api, "Service"):
        api.apply(iris(server, "example/server:2", rollout=rollout))
        for pod in pods(kubelet, 2):
            kubelet.run(pod)
        eventually("named", lambda: api.condition("iris", "Accepted")[0] == "False")

        assert selected() == before
        assert api.condition("iris", "UpToDate") == ("False", "RollingOut")
        assert api.condition("iris") == ("True", "ServingPreviousRevision")

    complete = ("True", "RolloutComplete")
    eventually("done", lambda: api.condition("iris", "UpToDate") == complete, seconds=40)
    assert selected() != before


@pytest.mark.parametrize(
    ("fails", "verb"), [(refusing, "refuses to delete"), (failing, "cannot delete")]
)
def test_a_child_that_may_not_be_deleted_is_named_until_it_is_gone(
    operator: OperatorProcess,
    api: Api,
    kubelet: Kubelet,
    server: ModelServer,
    fails: Any,
    verb: str,
) -> None:
    api.apply(iris(server, replicas=2))
    for pod in pods(kubelet, 2):
        kubelet.run(pod)
    settle(api, "iris")

    with fails(api, "PodDisruptionBudget", deletions=True):
        api.apply(iris(server, replicas=1))
        left = f'the API server {verb} the PodDisruptionBudget "iris"'
        eventually("named", lambda: left in condition_of(api, "UpToDate")["message"])

        complete = ("True", "RolloutComplete")
        eventually("up to date", lambda: api.condition("iris", "UpToDate") == complete)
        assert left in condition_of(api, "UpToDate")["message"]
        assert api.condition("iris") == ("True", "Serving")
        assert api.get("PodDisruptionBudget", "iris")

    eventually("deleted", lambda: not api.get("PodDisruptionBudget", "iris"), seconds=40)
    eventually("not named", lambda: left not in condition_of(api, "UpToDate")["message"])


def test_hanging_writes_of_a_namespace_do_not_delay_another(
    operator: OperatorProcess, api: Api
) -> None:
    other = Api(api.kubeconfig, f"{api.namespace}-other")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": other.namespace}}
    other.of("Namespace").create(body=namespace)
    with hanging(other, "Service"):
        for number in range(80):
            other.apply(model(f"hanging-{number}", runtime={"image": "example/server:1"}))
        eventually("they hang", lambda: operator.metric("moorage_queue_depth") == 0)

        api.apply(model("iris", runtime={"image": "example/server:1"}))

        eventually("the Deployment exists", lambda: api.get("Deployment", "iris"), seconds=10)
    other.of("Namespace").delete(name=other.namespace)


def test_all_refused_children_are_listed_in_the_plans_order(
    operator: OperatorProcess, api: Api
) -> None:
    with refusing(api, "Service", "PodDisruptionBudget"):
        api.apply(model("iris", replicas=2, runtime={"image": "example/server:1"}))
        eventually("named", lambda: api.condition("iris", "Accepted") == ("False", "ApplyRefused"))

        def both() -> bool:
            message = condition_of(api, "Accepted")["message"]
            return 0 <= message.find('the Service "iris"') < message.find("the PodDisruption")

        eventually("both children are listed", both)
        assert api.get("Deployment", "iris")
        assert condition_of(api, "Stalled")["reason"] == "ApplyRefused"


def test_no_pod_is_created_before_its_network_policy(operator: OperatorProcess, api: Api) -> None:
    body = model("iris", networkPolicy=CLOSED, runtime={"image": "example/server:1"})
    with refusing(api, "NetworkPolicy"):
        api.apply(body)
        eventually("named", lambda: condition_of(api, "Stalled").get("reason") == "ApplyRefused")
        assert 'NetworkPolicy "iris"' in condition_of(api, "Accepted")["message"]
        assert MESSAGE in condition_of(api, "Ready")["message"]
        assert not api.get("Deployment", "iris")

    eventually("a Deployment", lambda: api.get("Deployment", "iris"), seconds=40)
    policy, deployment = api.get("NetworkPolicy", "iris"), api.get("Deployment", "iris")
    assert int(policy["metadata"]["resourceVersion"]) < int(
        deployment["metadata"]["resourceVersion"]
    )


def test_no_rollout_starts_before_a_refused_network_policy(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    api.apply(iris(server, networkPolicy=OPEN))
    (pod,) = pods(kubelet, 1)
    kubelet.run(pod)
    settle(api, "iris")
    before = api.get("Deployment", "iris")["metadata"]["generation"]

    with refusing(api, "NetworkPolicy"):
        api.apply(iris(server, "example/server:2", networkPolicy=CLOSED, replicas=2))
        eventually("stalled", lambda: condition_of(api, "Stalled").get("reason") == "ApplyRefused")
        assert 'NetworkPolicy "iris"' in condition_of(api, "Stalled")["message"]
        assert not condition_of(api, "Reconciling")
        assert api.condition("iris") == ("True", "ServingPreviousRevision")
        assert api.get("Deployment", "iris")["metadata"]["generation"] == before
        assert not api.get("PodDisruptionBudget", "iris")

        api.patch("InferenceModel", "iris", {"spec": {"suspend": True}})
        eventually("the pods are deleted", lambda: not kubelet.pods("iris"))

    api.patch("InferenceModel", "iris", {"spec": {"suspend": False}})
    eventually("two pods", lambda: len(kubelet.pods("iris")) == 2, seconds=40)
    assert len(api.get("NetworkPolicy", "iris")["spec"]["ingress"]) == 1


def test_labels_that_a_policy_requires_are_added_by_the_spec_and_removed_with_it(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    kinds = ("Deployment", "Service", "PodDisruptionBudget")

    def labels_of(kind: str) -> dict[str, str]:
        return api.get(kind, "iris")["metadata"]["labels"]

    required = "object.metadata.?labels.?team.orValue('') == 'risk'"
    with refusing(api, *kinds, unless=required):
        api.apply(iris(server, replicas=2))
        refused = ("False", "ApplyRefused")
        eventually("refused", lambda: api.condition("iris", "Accepted") == refused)
        assert MESSAGE in condition_of(api, "Accepted")["message"]

        api.apply(iris(server, replicas=2, objectMetadata={"labels": {"team": "risk"}}))
        started = pods(kubelet, 2)
        for pod in started:
            kubelet.run(pod)
        settle(api, "iris")
        assert api.condition("iris") == ("True", "Serving")
        assert [labels_of(kind)["team"] for kind in kinds] == ["risk"] * 3

    annotations = {"example.com/contact": "risk team"}
    api.apply(iris(server, replicas=2, objectMetadata={"annotations": annotations}))

    def is_changed() -> bool:
        return all(
            "team" not in labels_of(kind)
            and annotations.items() <= api.get(kind, "iris")["metadata"]["annotations"].items()
            for kind in kinds
        )

    eventually("all children have what the spec has", is_changed)
    settle(api, "iris")
    names = [pod["metadata"]["name"] for pod in started]
    assert [pod["metadata"]["name"] for pod in kubelet.pods("iris")] == names
