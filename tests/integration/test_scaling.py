"""spec.scaling on a real API server with the HPA controller, and KEDA's own kind without KEDA."""

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

BY_CPU = {"minReplicas": 2, "maxReplicas": 4, "target": 70}
QUERY = {"serverAddress": "http://prometheus:9090", "query": "sum(asked)"}
BY_QUERY = {"maxReplicas": 4, "target": 7, "metric": "Prometheus", "prometheus": QUERY}


def replicas(api: Api, name: str = "iris") -> int | None:
    return api.get("Deployment", name).get("spec", {}).get("replicas")


def test_an_autoscaler_scales_the_model_and_nobody_fights_it(
    operator: OperatorProcess, api: Api, kubelet: Kubelet, server: ModelServer
) -> None:
    runtime = {"image": "example/server:1", "ports": {"http": server.port}}
    api.apply(model("iris", replicas=2, runtime=runtime, scaling=BY_CPU))

    autoscaler = eventually("an HPA", lambda: api.get("HorizontalPodAutoscaler", "iris"))
    assert autoscaler["spec"]["scaleTargetRef"]["kind"] == "InferenceModel"
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


def test_a_suspended_model_has_no_autoscaler_and_keeps_its_number(
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


def test_an_edited_autoscaler_is_mended(operator: OperatorProcess, api: Api) -> None:
    api.apply(model("iris", scaling=BY_CPU, runtime={"image": "i:1"}))
    eventually("an HPA", lambda: api.get("HorizontalPodAutoscaler", "iris"))

    api.patch("HorizontalPodAutoscaler", "iris", {"spec": {"maxReplicas": 99}})

    def bound() -> Any:
        return api.get("HorizontalPodAutoscaler", "iris")["spec"]["maxReplicas"]

    eventually("as planned", lambda: bound() == 4)


@pytest.mark.parametrize(
    ("scaling", "said"),
    [
        ({**BY_CPU, "minReplicas": 5}, "set maxReplicas to at least minReplicas"),
        ({**BY_CPU, "minReplicas": 0}, "only metric Prometheus can wake"),
        ({**BY_CPU, "metric": "Pods"}, "set metricName with metric Pods"),
        ({**BY_CPU, "metric": "Pods", "metricName": "asked/s"}, "without / and %"),
        ({**BY_CPU, "metric": "Prometheus"}, "set prometheus.serverAddress"),
        ({"maxReplicas": 3}, "spec.scaling.target"),
    ],
)
def test_a_scaling_that_cannot_be_is_refused_with_what_to_write(
    api: Api, scaling: dict[str, Any], said: str
) -> None:
    with pytest.raises(ApiException) as refused:
        api.apply(model("iris", scaling=scaling, runtime={"image": "i:1"}))

    assert said in str(refused.value.body)


@pytest.fixture
def keda(api: Api) -> Iterator[Api]:
    """KEDA's kind is installed; the API anew, because a client keeps what it has discovered."""
    api.of("CustomResourceDefinition").create(body=keda_kind("scaledobjects.keda.sh"))
    yield Api(api.kubeconfig, api.namespace)
    if api.get("CustomResourceDefinition", "scaledobjects.keda.sh"):
        api.delete("CustomResourceDefinition", "scaledobjects.keda.sh")


def test_a_kind_that_is_installed_later_is_used_and_left_when_it_goes(
    operator: OperatorProcess, api: Api, request: pytest.FixtureRequest
) -> None:
    api.apply(model("iris", replicas=2, scaling=BY_QUERY, runtime={"image": "i:1"}))
    missing = ("False", "AutoscalerMissing")
    eventually("it says so", lambda: api.condition("iris", "ScalingActive") == missing)
    eventually("what it asks for runs", lambda: replicas(api) == 2)

    keda: Api = request.getfixturevalue("keda")
    awaited = ("Unknown", "AwaitingAutoscaler")
    eventually(
        "it is noticed",
        lambda: api.condition("iris", "ScalingActive") == awaited,
        seconds=80,
    )
    found = eventually("a ScaledObject", lambda: keda.get("ScaledObject", "iris"))
    assert found["spec"]["scaleTargetRef"]["name"] == "iris"
    # KEDA's schema drops what it does not know.
    behavior = found["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300
    assert found["spec"]["cooldownPeriod"] == 300
    assert operator.metric("moorage_optional_kinds", 'kind="ScaledObject"') == 1

    keda.patch("ScaledObject", "iris", {"spec": {"maxReplicaCount": 99}})

    def bound() -> Any:
        return keda.get("ScaledObject", "iris")["spec"]["maxReplicaCount"]

    eventually("mended", lambda: bound() == 4)

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
