"""spec.scaling on a real API server with the HPA controller, and KEDA's kind without KEDA."""

from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from support.keda import kind as keda_kind
from support.operator_cluster import (
    Api,
    Kubelet,
    ModelServer,
    OperatorProcess,
    eventually,
    model,
)

pytestmark = pytest.mark.integration

CPU = {"type": "CPU", "target": 70}
MEMORY = {"type": "Memory", "target": 80}
PODS = {"type": "Pods", "target": 3, "name": "asked_per_second"}
QUERY = {
    "type": "Prometheus",
    "serverAddress": "http://prometheus:9090",
    "query": "sum(asked)",
    "target": 7,
}
BY_CPU = {"minReplicas": 2, "maxReplicas": 4, "metrics": [CPU, MEMORY, PODS]}
BY_QUERY = {"maxReplicas": 4, "metrics": [QUERY, CPU, MEMORY]}


def by(*metrics: dict[str, Any]) -> dict[str, Any]:
    return {"maxReplicas": 4, "metrics": list(metrics)}


def replicas(api: Api, name: str = "iris") -> int | None:
    return api.get("Deployment", name).get("spec", {}).get("replicas")


def test_an_autoscaler_scales_the_model_without_conflicts(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", replicas=2, runtime=runtime, scaling=BY_CPU))

    autoscaler = eventually("an HPA", lambda: api.get("HorizontalPodAutoscaler", "iris"))
    assert autoscaler["spec"]["scaleTargetRef"]["kind"] == "InferenceModel"
    sources = [each["type"] for each in autoscaler["spec"]["metrics"]]
    assert sources == ["ContainerResource", "ContainerResource", "Pods"]
    eventually("two pods", lambda: len(kubelet.pods("iris")) == 2)
    # The HPA controller finds the model's scale subresource; there is no metrics-server here.
    eventually(
        "the HPA's own words",
        lambda: api.condition("iris", "ScalingActive") == ("False", "AutoscalerFailing"),
        seconds=60,
    )

    # What the HPA does: write the scale subresource of its target.
    scale = api.of("InferenceModel").subresources["scale"]
    scale.patch(
        name="iris",
        namespace=api.namespace,
        body={"spec": {"replicas": 3}},
        content_type="application/merge-patch+json",
    )
    eventually("three", lambda: replicas(api) == 3)
    found = scale.get(name="iris", namespace=api.namespace).to_dict()
    assert "moorage.dev/model=iris" in found["status"]["selector"]

    api.apply(model("iris", runtime=runtime))
    eventually("no HPA", lambda: not api.get("HorizontalPodAutoscaler", "iris"))
    assert replicas(api) == 3


def test_a_suspended_model_has_no_autoscaler_and_keeps_its_replicas(
    operator: OperatorProcess, api: Api
) -> None:
    api.apply(model("iris", scaling=BY_CPU, runtime={"image": "i:1"}))
    eventually("an HPA", lambda: api.get("HorizontalPodAutoscaler", "iris"))
    eventually("the lower bound at once", lambda: replicas(api) == 2)

    api.patch("InferenceModel", "iris", {"spec": {"suspend": True}})
    eventually("no HPA", lambda: not api.get("HorizontalPodAutoscaler", "iris"))
    eventually("no replica", lambda: replicas(api) == 0)

    api.patch("InferenceModel", "iris", {"spec": {"suspend": False}})
    eventually("an HPA again", lambda: api.get("HorizontalPodAutoscaler", "iris"))
    eventually("its replicas", lambda: replicas(api) == 2)


def test_an_edited_autoscaler_is_repaired(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris", scaling=BY_CPU, runtime={"image": "i:1"}))
    eventually("an HPA", lambda: api.get("HorizontalPodAutoscaler", "iris"))

    api.patch("HorizontalPodAutoscaler", "iris", {"spec": {"maxReplicas": 99}})

    def bound() -> Any:
        return api.get("HorizontalPodAutoscaler", "iris")["spec"]["maxReplicas"]

    eventually("as planned", lambda: bound() == 4)


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({**BY_CPU, "minReplicas": 5}, "maxReplicas must be greater than or equal to minReplicas"),
        ({**BY_CPU, "minReplicas": 0}, "minReplicas 0 requires a metric of type Prometheus"),
        (by({"type": "Pods", "target": 1}), "name must be set with type Pods"),
        (by({**CPU, "name": "asked"}), "name must be set with type Pods"),
        (by({**PODS, "name": "asked/s"}), "must not contain / or %"),
        (by({"type": "Prometheus", "target": 1}), "query must be set with type Prometheus"),
        (by({**CPU, "serverAddress": "http://p"}), "serverAddress must be set with type Prom"),
        (by(QUERY, PODS), "Pods and Prometheus cannot be combined"),
        (by(*[CPU] * 9), "must have at most 8 items"),
        (by(), "should have at least 1 items"),
        (by({"type": "CPU"}), "spec.scaling.metrics[0].target"),
        ({"metrics": [CPU]}, "spec.scaling.maxReplicas"),
    ],
)
def test_invalid_scaling_is_rejected_with_the_rule(
    api: Api, scaling: dict[str, Any], said: str
) -> None:
    with pytest.raises(ApiException) as refused:
        api.apply(model("iris", scaling=scaling, runtime={"image": "i:1"}))

    assert said in str(refused.value.body)


def test_scaling_without_metrics_is_by_cpu(api: Api) -> None:
    kept = api.apply(model("iris", scaling={"maxReplicas": 3}, runtime={"image": "i:1"}))

    assert kept["spec"]["scaling"]["metrics"] == [{"type": "CPU", "target": 80}]


@pytest.fixture
def keda(api: Api) -> Iterator[Api]:
    """KEDA's kind is installed; returns a new client, because clients cache API discovery."""
    api.of("CustomResourceDefinition").create(body=keda_kind("scaledobjects.keda.sh"))
    yield Api(api.kubeconfig, api.namespace)
    if api.get("CustomResourceDefinition", "scaledobjects.keda.sh"):
        api.delete("CustomResourceDefinition", "scaledobjects.keda.sh")


def test_an_optional_kind_is_used_while_it_is_installed(
    operator: OperatorProcess, api: Api, request: pytest.FixtureRequest
) -> None:
    api.apply(model("iris", replicas=2, scaling=BY_QUERY, runtime={"image": "i:1"}))
    missing = ("False", "AutoscalerMissing")
    eventually("AutoscalerMissing", lambda: api.condition("iris", "ScalingActive") == missing)
    eventually("two replicas", lambda: replicas(api) == 2)

    keda: Api = request.getfixturevalue("keda")
    awaited = ("Unknown", "AwaitingAutoscaler")
    eventually(
        "AwaitingAutoscaler",
        lambda: api.condition("iris", "ScalingActive") == awaited,
        seconds=80,
    )
    found = eventually("a ScaledObject", lambda: keda.get("ScaledObject", "iris"))
    assert found["spec"]["scaleTargetRef"]["name"] == "iris"
    cpu = {"value": "70", "containerName": "runtime"}
    assert [each["type"] for each in found["spec"]["triggers"]] == ["prometheus", "cpu", "memory"]
    assert found["spec"]["triggers"][1]["metadata"] == cpu
    assert found["spec"]["triggers"][1]["metricType"] == "Utilization"
    # KEDA's schema drops what it does not know.
    behavior = found["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300
    assert found["spec"]["cooldownPeriod"] == 300
    assert operator.metric("moorage_optional_kinds", 'kind="ScaledObject"') == 1

    keda.patch("ScaledObject", "iris", {"spec": {"maxReplicaCount": 99}})

    def bound() -> Any:
        return keda.get("ScaledObject", "iris")["spec"]["maxReplicaCount"]

    eventually("the bound is restored", lambda: bound() == 4)

    # What KEDA does once it has measured.
    measured = [{"type": each, "status": "True"} for each in ("Ready", "Active")]
    keda.patch_status("ScaledObject", "iris", {"conditions": measured})
    active = ("True", "AutoscalerActive")
    eventually("it works", lambda: api.condition("iris", "ScalingActive") == active)

    keda.delete("CustomResourceDefinition", "scaledobjects.keda.sh")
    eventually(
        "it is missed",
        lambda: api.condition("iris", "ScalingActive") == missing,
        seconds=80,
    )
    assert replicas(api) == 2
    assert operator.metric("moorage_optional_kinds", 'kind="ScaledObject"') == 0
