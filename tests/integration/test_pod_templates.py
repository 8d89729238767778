"""Edits of a pod template on a real API server, which keeps defaults that it once set."""

from typing import Any

import pytest

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


def iris(server: ModelServer, image: str = "example/server:1", **spec: Any) -> dict[str, Any]:
    return model("iris", runtime={"image": image, "ports": {"http": server.port}}, **spec)


def pod_spec(api: Api, name: str = "iris") -> dict[str, Any]:
    """The pod spec of the Deployment, {} if there is none."""
    return api.get("Deployment", name).get("spec", {}).get("template", {}).get("spec", {})


def newest(kubelet: Kubelet, image: str) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        pods = [
            each for each in kubelet.pods("iris") if "deletionTimestamp" not in each["metadata"]
        ]
        mine = [each for each in pods if each["spec"]["containers"][0]["image"] == image]
        return mine[0] if mine else None

    return eventually(f"a pod of {image}", found)


def serve(api: Api, kubelet: Kubelet, body: dict[str, Any]) -> dict[str, Any]:
    """Wait until the model is up to date and return its pod."""
    api.apply(body)
    pod = newest(kubelet, body["spec"]["runtime"]["image"])
    kubelet.run(pod)
    settle(api, "iris")
    return pod


@pytest.fixture
def account(api: Api) -> str:
    """A service account other than the default one."""
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "models"}}
    api.apply(body)
    return "models"


def test_a_removed_service_account_is_removed_from_the_pods(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, account: str
) -> None:
    pod = serve(api, kubelet, iris(server, serviceAccountName=account))
    assert pod["spec"]["serviceAccountName"] == account

    api.apply(iris(server, "example/server:2"))

    assert newest(kubelet, "example/server:2")["spec"]["serviceAccountName"] == "default"
    found = pod_spec(api)
    assert (found["serviceAccountName"], found["serviceAccount"]) == ("default", "default")


@pytest.mark.parametrize("strategy", ["RollingUpdate", "Recreate"])
def test_a_missing_service_account_is_rolled_back(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer, strategy: str
) -> None:
    rollout = {"strategy": strategy, "progressDeadlineSeconds": 2}
    serve(api, kubelet, iris(server, rollout=rollout))
    template = api.get("Deployment", "iris")["spec"]["template"]

    api.apply(iris(server, serviceAccountName="misspelt", rollout=rollout))
    rolled_back = ("False", "RolledBack")
    eventually("rolled back", lambda: api.condition("iris", "UpToDate") == rolled_back)

    eventually(
        "the same template", lambda: api.get("Deployment", "iris")["spec"]["template"] == template
    )

    def restored() -> dict[str, Any] | None:
        pods = [
            each for each in kubelet.pods("iris") if "deletionTimestamp" not in each["metadata"]
        ]
        accounts = {each["spec"]["serviceAccountName"] for each in pods}
        return pods[0] if accounts == {"default"} else None

    kubelet.run(eventually("only pods of the first revision", restored))
    eventually("it serves", lambda: api.condition("iris")[0] == "True")
    assert len(api.list("ReplicaSet")) == 2


def test_the_pull_policy_follows_the_image(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris", runtime={"image": "example/server:latest"}))
    eventually("a Deployment", lambda: pod_spec(api))
    assert pod_spec(api)["containers"][0]["imagePullPolicy"] == "Always"

    api.apply(model("iris", runtime={"image": "example/server:2"}))

    eventually(
        "the new image",
        lambda: pod_spec(api)["containers"][0]["image"] == "example/server:2",
    )
    assert pod_spec(api)["containers"][0]["imagePullPolicy"] == "IfNotPresent"


def test_the_users_readiness_gate_is_kept(operator: OperatorProcess, api: Api) -> None:
    tensor = {"name": "x", "datatype": "FP32", "shape": [-1, 4]}
    gates = [{"conditionType": "shop.example/routed"}]
    body = model(
        "iris",
        runtime={"image": "example/server:1"},
        contract={"policy": "Enforce", "inputs": [tensor]},
        podTemplate={"spec": {"readinessGates": gates}},
    )
    api.apply(body)

    found = eventually("a Deployment", lambda: pod_spec(api))["readinessGates"]
    assert [each["conditionType"] for each in found] == [
        "moorage.dev/model-ready",
        "shop.example/routed",
    ]


def test_a_name_like_a_shortened_name_has_its_own_pods(
    operator: OperatorProcess, api: Api
) -> None:
    long = "m" * 70
    api.apply(model(long, runtime={"image": "example/server:1"}))
    (first,) = eventually("a Deployment", lambda: api.list("Deployment"))
    taken = first["metadata"]["labels"]["moorage.dev/model"]
    assert taken == first["metadata"]["name"] != long

    api.apply(model(taken, runtime={"image": "example/server:2"}))

    both = eventually(
        "two Deployments", lambda: len(found := api.list("Deployment")) == 2 and found
    )
    selectors = [each["spec"]["selector"]["matchLabels"]["moorage.dev/model"] for each in both]
    assert len(set(selectors)) == 2
    for name, deployment in zip(
        (taken, long), sorted(both, key=lambda each: -image(each)), strict=True
    ):
        found_status = eventually(
            "a status", lambda name=name: api.get("InferenceModel", name).get("status")
        )
        selector = deployment["spec"]["selector"]["matchLabels"]["moorage.dev/model"]
        assert selector in found_status["selector"]


def image(deployment: dict[str, Any]) -> int:
    return int(deployment["spec"]["template"]["spec"]["containers"][0]["image"][-1])
