"""spec.scaling: what is accepted, which autoscaler is made, and what the status says of it."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator import observe
from moorage_operator.planned import Plan
from moorage_operator.state import Observed
from moorage_operator.watched import ChildObserved, DeploymentCondition
from support.operator_values import condition, model, planned, serving, verdict

HPA, SCALED_OBJECT = "HorizontalPodAutoscaler", "ScaledObject"
KEDA = frozenset({SCALED_OBJECT})
BY_CPU = {"maxReplicas": 5, "target": 70}
BY_PODS = {**BY_CPU, "metric": "Pods"}
QUERY = {"serverAddress": "http://prometheus:9090", "query": "sum(rate(asked[1m]))"}
BY_QUERY = {"maxReplicas": 5, "target": 10, "metric": "Prometheus", "prometheus": QUERY}


def child(plan: Plan, kind: str) -> dict[str, Any]:
    """The planned object of a kind, {} where there is none."""
    return next((each for each in plan.objects if each["kind"] == kind), {})


def seen(kind: str, *conditions: DeploymentCondition) -> dict[str, Any]:
    return {"children": {(kind, "digits"): ChildObserved("uid", conditions=conditions)}}


@pytest.mark.parametrize(
    ("scaling", "field", "said"),
    [
        ({"target": 70}, "maxReplicas", "required"),
        ({"maxReplicas": 3}, "target", "required"),
        ({**BY_CPU, "minReplicas": 6}, "maxReplicas", "at least minReplicas"),
        ({**BY_CPU, "minReplicas": 0}, "minReplicas", "only metric Prometheus can wake"),
        (BY_PODS, "metricName", "with metric Pods"),
        ({**BY_CPU, "metricName": "m"}, "metricName", "none with another"),
        ({**BY_PODS, "metricName": "asked/s"}, "metricName", "without / and %"),
        ({**BY_PODS, "metricName": "asked%2Fs"}, "metricName", "without / and %"),
        ({**BY_PODS, "metricName": ".."}, "metricName", "without / and %"),
        ({**BY_CPU, "metric": "Prometheus"}, "prometheus", "serverAddress and query"),
        ({**BY_CPU, "prometheus": QUERY}, "prometheus", "neither with another"),
        ({**BY_QUERY, "prometheus": {"query": "q"}}, "prometheus.serverAddress", "required"),
        ({**BY_CPU, "metric": "GPU"}, "metric", "one of CPU, Memory, Pods, Prometheus"),
        ({**BY_CPU, "scaleDownAfterSeconds": 3601}, "scaleDownAfterSeconds", "0 to 3600"),
        ({**BY_CPU, "cooldown": 3}, "cooldown", "does not know this field"),
    ],
)
def test_a_scaling_that_cannot_be_is_a_problem_that_names_its_field(
    scaling: dict[str, Any], field: str, said: str
) -> None:
    (problem,) = model(scaling=scaling).problems

    assert problem.path == f"spec.scaling.{field}"
    assert said in problem.message


@pytest.mark.parametrize(
    ("scaling", "metric"),
    [
        (
            BY_CPU,
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "cpu",
                    "container": "runtime",
                    "target": {"type": "Utilization", "averageUtilization": 70},
                },
            },
        ),
        (
            {**BY_CPU, "metric": "Memory"},
            {
                "type": "ContainerResource",
                "containerResource": {
                    "name": "memory",
                    "container": "runtime",
                    "target": {"type": "Utilization", "averageUtilization": 70},
                },
            },
        ),
        (
            {**BY_PODS, "metricName": "asked_per_second"},
            {
                "type": "Pods",
                "pods": {
                    "metric": {"name": "asked_per_second"},
                    "target": {"type": "AverageValue", "averageValue": "70"},
                },
            },
        ),
    ],
)
def test_an_autoscaler_of_kubernetes_scales_the_model_itself(
    scaling: dict[str, Any], metric: dict[str, Any]
) -> None:
    plan = planned(model(scaling={**scaling, "minReplicas": 2}), Observed())

    assert child(plan, HPA)["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "name": "digits",
        },
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [metric],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
    }
    assert not child(plan, SCALED_OBJECT)


def test_a_query_makes_a_scaled_object_and_no_autoscaler_of_kubernetes() -> None:
    plan = planned(model(scaling={**BY_QUERY, "minReplicas": 0}), Observed(available_kinds=KEDA))

    assert not child(plan, HPA)
    spec = child(plan, SCALED_OBJECT)["spec"]
    assert spec["scaleTargetRef"]["kind"] == "InferenceModel"
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 5)
    (trigger,) = spec["triggers"]
    assert trigger["metadata"] == {**QUERY, "threshold": "10"}


def test_how_soon_replicas_go_is_the_same_for_both_autoscalers_and_for_the_last_replica() -> None:
    soon = {"scaleDownAfterSeconds": 15}
    seen_by = Observed(available_kinds=KEDA)

    hpa = child(planned(model(scaling={**BY_CPU, **soon}), seen_by), HPA)["spec"]
    keda = child(planned(model(scaling={**BY_QUERY, **soon}), seen_by), SCALED_OBJECT)["spec"]

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 15}}
    assert hpa["behavior"] == behavior
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == behavior
    assert keda["cooldownPeriod"] == 15


@pytest.mark.parametrize("spec", [{}, {"scaling": BY_CPU, "suspend": True}])
def test_nothing_scales_a_model_that_does_not_ask_or_is_suspended(spec: dict[str, Any]) -> None:
    plan = planned(model(**spec), Observed(available_kinds=KEDA))

    assert not child(plan, HPA)
    assert not child(plan, SCALED_OBJECT)


@pytest.mark.parametrize(("replicas", "desired"), [(1, 2), (2, 2), (3, 3), (5, 5), (9, 5), (0, 0)])
def test_the_number_that_runs_is_the_one_asked_for_within_the_bounds(
    replicas: int, desired: int
) -> None:
    of = model(replicas=replicas, scaling={**BY_CPU, "minReplicas": 2})

    assert of.desired_replicas == desired
    assert child(planned(of, Observed()), "Deployment")["spec"]["replicas"] == desired


def test_suspend_wins_and_keeps_the_number() -> None:
    of = model(replicas=3, suspend=True, scaling=BY_CPU)

    assert (of.desired_replicas, of.replicas) == (0, 3)
    assert verdict(planned(of, Observed()), "ScalingActive") == ("False", "Suspended")


def test_a_model_without_scaling_has_no_word_of_it() -> None:
    plan = planned(model(), Observed())

    assert "ScalingActive" not in {each["type"] for each in plan.status["conditions"]}


def test_a_missing_kind_is_named_and_takes_no_readiness_away() -> None:
    of = model(replicas=2, scaling=BY_QUERY)

    plan = planned(of, serving(of, 2))

    assert verdict(plan, "ScalingActive") == ("False", "AutoscalerMissing")
    assert "install KEDA" in condition(plan, "ScalingActive")["message"]
    assert not child(plan, SCALED_OBJECT)
    assert verdict(plan) == ("True", "Serving")


def said(type_: str, status: str) -> DeploymentCondition:
    verdict_ = {"True": True, "False": False}.get(status)
    return DeploymentCondition(type_, verdict_, "FailedGet", "no metrics known")


@pytest.mark.parametrize(
    ("kind", "conditions", "expected"),
    [
        (HPA, (), ("Unknown", "AwaitingAutoscaler")),
        (HPA, (said("AbleToScale", "True"),), ("Unknown", "AwaitingAutoscaler")),
        (
            HPA,
            (said("AbleToScale", "True"), said("ScalingActive", "False")),
            ("False", "AutoscalerFailing"),
        ),
        (
            HPA,
            (said("AbleToScale", "False"), said("ScalingActive", "True")),
            ("False", "AutoscalerFailing"),
        ),
        (
            HPA,
            (
                said("AbleToScale", "True"),
                said("ScalingActive", "True"),
                said("ScalingLimited", "True"),
            ),
            ("True", "AutoscalerActive"),
        ),
        (SCALED_OBJECT, (said("Ready", "Unknown"),), ("Unknown", "AwaitingAutoscaler")),
        (SCALED_OBJECT, (said("Ready", "False"),), ("False", "AutoscalerFailing")),
        (
            SCALED_OBJECT,
            (said("Ready", "True"), said("Active", "False")),
            ("True", "AutoscalerActive"),
        ),
    ],
)
def test_the_condition_follows_what_the_autoscaler_says_of_itself(
    kind: str, conditions: tuple[DeploymentCondition, ...], expected: tuple[str, str]
) -> None:
    of = model(scaling=BY_CPU if kind == HPA else BY_QUERY)

    plan = planned(of, replace(serving(of), available_kinds=KEDA, **seen(kind, *conditions)))

    assert verdict(plan, "ScalingActive") == expected
    message = condition(plan, "ScalingActive")["message"]
    assert ("FailedGet: no metrics known" in message) == (expected[0] == "False")
    assert verdict(plan) == ("True", "Serving")


def test_a_model_at_zero_says_what_will_start_it() -> None:
    of = model(replicas=0, scaling={**BY_QUERY, "minReplicas": 0})

    plan = planned(of, Observed(available_kinds=KEDA))

    assert verdict(plan) == ("False", "ScaledToZero")
    assert "when its query asks" in condition(plan, "Ready")["message"]


def test_an_autoscaler_is_observed_with_its_conditions() -> None:
    body = {
        "metadata": {
            "name": "iris",
            "uid": "u",
            "resourceVersion": "1",
            "annotations": {"moorage.dev/applied-hash": "h"},
        },
        "status": {"conditions": [{"type": "AbleToScale", "status": "True", "reason": "R"}]},
    }

    found = observe.child(HPA, body).observed

    condition_ = DeploymentCondition("AbleToScale", status=True, reason="R")
    assert found == ChildObserved("u", "h", (condition_,))
