"""spec.scaling: validation, the autoscaler, and the condition in the status."""

from dataclasses import replace
from typing import Any

import pytest

from moorage_operator.store import parse_objects
from moorage_operator.values.objects import ChildObserved, DeploymentCondition
from moorage_operator.values.observed import Observed
from moorage_operator.values.plan import Plan
from support.operator_values import condition, model, planned, serving, verdict

HPA, SCALED_OBJECT = "HorizontalPodAutoscaler", "ScaledObject"
KEDA = frozenset({SCALED_OBJECT})
CPU = {"type": "CPU", "target": 70}
MEMORY = {"type": "Memory", "target": 80}
PODS = {"type": "Pods", "target": 3, "name": "asked_per_second"}
SERVER = {"serverAddress": "http://prometheus:9090", "query": "sum(rate(asked[1m]))"}
QUERY = {"type": "Prometheus", "target": 10, **SERVER}


def by(*metrics: dict[str, Any]) -> dict[str, Any]:
    return {"maxReplicas": 5, "metrics": list(metrics)}


BY_CPU, BY_QUERY = by(CPU), by(QUERY)


def child(plan: Plan, kind: str) -> dict[str, Any]:
    """The planned object of a kind, {} if there is none."""
    return next((each for each in plan.objects if each["kind"] == kind), {})


def seen(kind: str, *conditions: DeploymentCondition) -> dict[str, Any]:
    return {"children": {(kind, "digits"): ChildObserved("uid", conditions=conditions)}}


@pytest.mark.parametrize(
    ("scaling", "field", "said"),
    [
        ({"minReplicas": 1}, "maxReplicas", "required"),
        ({**BY_CPU, "minReplicas": 6}, "maxReplicas", "or equal to minReplicas"),
        ({**BY_CPU, "minReplicas": 0}, "minReplicas", "a metric of type Prometheus"),
        (by(), "metrics", "at least one metric"),
        (by(*[CPU] * 9), "metrics", "at most 8"),
        (by(QUERY, CPU, PODS), "metrics", "no trigger for Pods"),
        (by({"type": "CPU"}), "metrics[0].target", "required"),
        (by(CPU, {"target": 1}), "metrics[1].type", "one of CPU, Memory, Pods, Prometheus"),
        (by({"type": "GPU", "target": 1}), "metrics[0].type", "one of CPU, Memory, Pods"),
        (by({"type": "Pods", "target": 1}), "metrics[0].name", "with type Pods"),
        (by({**CPU, "name": "m"}), "metrics[0].name", "with type Pods"),
        (by({**PODS, "name": "asked/s"}), "metrics[0].name", "'asked/s'"),
        (by({**PODS, "name": "asked%2Fs"}), "metrics[0].name", "'asked%2Fs'"),
        (by(CPU, {**PODS, "name": ".."}), "metrics[1].name", "'..'"),
        (by({**QUERY, "query": ""}), "metrics[0].query", "with type Prometheus"),
        (by({**CPU, "query": "q"}), "metrics[0].query", "with type Prometheus"),
        (by({**QUERY, "serverAddress": None}), "metrics[0].serverAddress", "with type Prom"),
        (by({**CPU, "window": 1}), "metrics[0].window", "does not know this field"),
        ({**BY_CPU, "scaleDownAfterSeconds": 3601}, "scaleDownAfterSeconds", "0 to 3600"),
        ({**BY_CPU, "cooldown": 3}, "cooldown", "does not know this field"),
    ],
)
def test_invalid_scaling_is_reported_with_its_field(
    scaling: dict[str, Any], field: str, said: str
) -> None:
    (problem,) = model(scaling=scaling).problems

    assert problem.path == f"spec.scaling.{field}"
    assert said in problem.message


def usage(name: str, percent: int) -> dict[str, Any]:
    """A metric of the container's usage, as a HorizontalPodAutoscaler has it."""
    target = {"type": "Utilization", "averageUtilization": percent}
    resource = {"name": name, "container": "runtime", "target": target}
    return {"type": "ContainerResource", "containerResource": resource}


def test_an_autoscaler_of_kubernetes_scales_the_model_itself_by_every_metric() -> None:
    plan = planned(model(scaling={**by(CPU, MEMORY, PODS), "minReplicas": 2}), Observed())

    of_pods = {
        "metric": {"name": "asked_per_second"},
        "target": {"type": "AverageValue", "averageValue": "3"},
    }
    assert child(plan, HPA)["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "moorage.dev/v1alpha1",
            "kind": "InferenceModel",
            "name": "digits",
        },
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [usage("cpu", 70), usage("memory", 80), {"type": "Pods", "pods": of_pods}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 300}},
    }
    assert not child(plan, SCALED_OBJECT)


def test_scaling_without_metrics_is_by_cpu() -> None:
    plan = planned(model(scaling={"maxReplicas": 5}), Observed())

    assert child(plan, HPA)["spec"]["metrics"] == [usage("cpu", 80)]


def test_a_query_makes_a_scaled_object_and_no_autoscaler_of_kubernetes() -> None:
    scaling = {**by(CPU, QUERY, MEMORY), "minReplicas": 0}

    plan = planned(model(scaling=scaling), Observed(available_kinds=KEDA))

    assert not child(plan, HPA)
    spec = child(plan, SCALED_OBJECT)["spec"]
    assert spec["scaleTargetRef"]["kind"] == "InferenceModel"
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (0, 5)
    assert spec["triggers"] == [
        {
            "type": "cpu",
            "metricType": "Utilization",
            "metadata": {"value": "70", "containerName": "runtime"},
        },
        {"type": "prometheus", "metadata": {**SERVER, "threshold": "10"}},
        {
            "type": "memory",
            "metricType": "Utilization",
            "metadata": {"value": "80", "containerName": "runtime"},
        },
    ]


def test_scale_down_delay_is_the_same_for_both_autoscalers() -> None:
    soon = {"scaleDownAfterSeconds": 15}
    seen_by = Observed(available_kinds=KEDA)

    hpa = child(planned(model(scaling={**BY_CPU, **soon}), seen_by), HPA)["spec"]
    keda = child(planned(model(scaling={**BY_QUERY, **soon}), seen_by), SCALED_OBJECT)["spec"]

    behavior = {"scaleDown": {"stabilizationWindowSeconds": 15}}
    assert hpa["behavior"] == behavior
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == behavior
    assert keda["cooldownPeriod"] == 15


@pytest.mark.parametrize("spec", [{}, {"scaling": BY_CPU, "suspend": True}])
def test_a_model_without_scaling_or_suspended_has_no_autoscaler(spec: dict[str, Any]) -> None:
    plan = planned(model(**spec), Observed(available_kinds=KEDA))

    assert not child(plan, HPA)
    assert not child(plan, SCALED_OBJECT)


@pytest.mark.parametrize(("replicas", "desired"), [(1, 2), (2, 2), (3, 3), (5, 5), (9, 5), (0, 0)])
def test_the_number_of_replicas_is_within_the_bounds(replicas: int, desired: int) -> None:
    of = model(replicas=replicas, scaling={**BY_CPU, "minReplicas": 2})

    assert of.desired_replicas == desired
    assert child(planned(of, Observed()), "Deployment")["spec"]["replicas"] == desired


def test_suspend_takes_precedence_and_keeps_the_replicas() -> None:
    of = model(replicas=3, suspend=True, scaling=BY_CPU)

    assert (of.desired_replicas, of.replicas) == (0, 3)
    plan = planned(of, Observed())
    assert verdict(plan, "ScalingActive") == ("False", "Suspended")
    message = condition(plan, "ScalingActive")["message"]
    assert message == "spec.suspend is true: there is nothing to scale"


def test_a_model_without_scaling_has_no_condition() -> None:
    plan = planned(model(), Observed())

    assert "ScalingActive" not in {each["type"] for each in plan.status["conditions"]}


@pytest.mark.parametrize("kinds", [frozenset(), frozenset({"ScaledObject"})])
def test_a_kind_that_may_not_be_read_is_not_called_missing(kinds: frozenset[str]) -> None:
    of = model(replicas=2, scaling=BY_QUERY)
    seen = replace(
        serving(of, 2), available_kinds=kinds, unreadable_kinds=frozenset({"ScaledObject"})
    )

    plan = planned(of, seen)

    assert verdict(plan, "ScalingActive") == ("Unknown", "ReadForbidden")
    said = condition(plan, "ScalingActive")["message"]
    assert "list and watch on scaledobjects.keda.sh in the namespace 'ns'" in said
    assert verdict(plan) == ("True", "Serving")


def test_a_missing_kind_is_reported_without_affecting_ready() -> None:
    of = model(replicas=2, scaling=BY_QUERY)

    plan = planned(of, serving(of, 2))

    assert verdict(plan, "ScalingActive") == ("False", "AutoscalerMissing")
    assert condition(plan, "ScalingActive")["message"] == (
        "a metric of type Prometheus requires KEDA, but the operator finds no ScaledObject "
        "(keda.sh/v1alpha1) in this cluster: install KEDA, or use only types CPU, Memory and Pods "
        "in spec.scaling.metrics; until then 2 replicas run"
    )
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
def test_the_condition_follows_the_autoscalers_conditions(
    kind: str, conditions: tuple[DeploymentCondition, ...], expected: tuple[str, str]
) -> None:
    of = model(scaling=BY_CPU if kind == HPA else BY_QUERY)

    plan = planned(of, replace(serving(of), available_kinds=KEDA, **seen(kind, *conditions)))

    assert verdict(plan, "ScalingActive") == expected
    message = condition(plan, "ScalingActive")["message"]
    assert ("FailedGet: no metrics known" in message) == (expected[0] == "False")
    assert verdict(plan) == ("True", "Serving")


@pytest.mark.parametrize(
    ("kind", "replicas", "advice"),
    [
        (HPA, 0, "; set spec.replicas to 2 or more: until then no replica runs"),
        (HPA, 1, ""),
        (SCALED_OBJECT, 0, ""),
    ],
)
def test_a_size_of_zero_that_turns_the_autoscaler_off_is_explained(
    kind: str, replicas: int, advice: str
) -> None:
    scaling = {**(BY_CPU if kind == HPA else BY_QUERY), "minReplicas": 2}
    of = model(replicas=replicas, scaling=scaling)
    off = said("Ready" if kind == SCALED_OBJECT else "ScalingActive", "False")

    plan = planned(of, replace(serving(of), available_kinds=KEDA, **seen(kind, off)))

    message = condition(plan, "ScalingActive")["message"]
    assert message == f"the {kind} cannot scale: FailedGet: no metrics known{advice}"


def test_a_model_scaled_to_zero_explains_what_starts_it() -> None:
    of = model(replicas=0, scaling={**BY_QUERY, "minReplicas": 0})

    plan = planned(of, Observed(available_kinds=KEDA))

    assert verdict(plan) == ("False", "ScaledToZero")
    assert "spec.scaling" in condition(plan, "Ready")["message"]
    assert "query" in condition(plan, "Ready")["message"]


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

    found = parse_objects.child(HPA, body).observed

    condition_ = DeploymentCondition("AbleToScale", status=True, reason="R")
    assert found == ChildObserved("u", "h", (condition_,))
