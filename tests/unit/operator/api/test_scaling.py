"""spec.scaling: bounds and metrics, and a sentence for each invalid value."""

from typing import Any

import pytest

from moorage_operator.api.fields import Fields, Problem
from moorage_operator.api.scaling import MetricType, Scaling, ScalingMetric, parse_scaling
from support.spec_sentences import UNKNOWN

PODS = {"type": "Pods", "target": 10, "name": "queue"}
QUERY = {"type": "Prometheus", "target": 1, "serverAddress": "http://p:9090", "query": "up"}


def read(scaling: Any) -> tuple[Scaling, list[str], Any]:
    """The scaling, its problems, and what is written of it."""
    found: list[Problem] = []
    fields = Fields(scaling, "spec.scaling", found)
    parsed = parse_scaling(fields)
    return parsed, [str(problem) for problem in found], fields.written()


def test_without_the_section_nothing_scales():
    parsed, problems, written = read(None)

    assert (parsed, problems, written) == (Scaling(), [], {})
    assert not parsed.is_on
    assert [parsed.within(count) for count in (0, 3)] == [0, 3]


def test_a_maximum_is_enough():
    parsed, problems, _ = read({"maxReplicas": 4})

    assert problems == []
    assert parsed == Scaling(1, 4, 300, (ScalingMetric(MetricType.CPU, 80),))
    assert parsed.is_on


def test_one_replica_is_scaled_too():
    parsed, problems, _ = read({"maxReplicas": 1})

    assert problems == []
    assert parsed.is_on


def test_every_field_is_read():
    metrics = [QUERY, {"type": "Memory", "target": 2**31 - 1}]
    scaling = {
        "minReplicas": 0,
        "maxReplicas": 10_000,
        "scaleDownAfterSeconds": 3600,
        "metrics": metrics,
    }
    parsed, problems, written = read(scaling)

    assert problems == []
    assert parsed == Scaling(
        0,
        10_000,
        3600,
        (
            ScalingMetric(MetricType.PROMETHEUS, 1, server_address="http://p:9090", query="up"),
            ScalingMetric(MetricType.MEMORY, 2**31 - 1),
        ),
    )
    assert written["minReplicas"] == 0
    assert read({"maxReplicas": 2, "minReplicas": 1, "scaleDownAfterSeconds": 300})[2] == {
        "maxReplicas": 2
    }


def test_a_metric_of_pods_has_a_name():
    parsed, problems, _ = read({"maxReplicas": 2, "metrics": [{**PODS, "name": "..."}]})

    assert problems == []
    assert parsed.metrics == (ScalingMetric(MetricType.PODS, 10, "..."),)
    assert parsed.has(MetricType.PODS)
    assert not parsed.has(MetricType.CPU)


@pytest.mark.parametrize(("replicas", "within"), [(0, 0), (1, 2), (2, 2), (3, 3), (4, 4), (5, 4)])
def test_replicas_stay_within_the_bounds_unless_there_are_none(replicas: int, within: int):
    assert Scaling(2, 4).within(replicas) == within


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        (
            {"minReplicas": 2},
            "maxReplicas: is required and must be a whole number of 1 or greater",
        ),
        (
            {"maxReplicas": 0},
            "maxReplicas: 0 is invalid: must be a whole number from 1 to 10000",
        ),
        (
            {"maxReplicas": 10_001},
            "maxReplicas: 10001 is invalid: must be a whole number from 1 to 10000",
        ),
        (
            {"maxReplicas": 2, "minReplicas": -1},
            "minReplicas: -1 is invalid: must be a whole number from 0 to 10000",
        ),
        (
            {"maxReplicas": 2, "minReplicas": 10_001},
            "minReplicas: 10001 is invalid: must be a whole number from 0 to 10000",
        ),
        (
            {"maxReplicas": 2, "scaleDownAfterSeconds": -1},
            "scaleDownAfterSeconds: -1 is invalid: must be a whole number from 0 to 3600",
        ),
        (
            {"maxReplicas": 2, "scaleDownAfterSeconds": 3601},
            "scaleDownAfterSeconds: 3601 is invalid: must be a whole number from 0 to 3600",
        ),
        ({"maxReplicas": 2, "replicas": 1}, f"replicas: {UNKNOWN}"),
        (
            {"maxReplicas": 2, "minReplicas": 3},
            "maxReplicas: 2 is invalid: must be greater than or equal to minReplicas",
        ),
        (
            {"maxReplicas": 2, "minReplicas": 0},
            (
                "minReplicas: 0 requires a metric of type Prometheus, the only one that can scale "
                "a model up from zero; set minReplicas to 1 or more, or add such a metric"
            ),
        ),
        (
            {"maxReplicas": 2, "metrics": [PODS, QUERY]},
            (
                "metrics: types Pods and Prometheus cannot be combined, because KEDA has no "
                "trigger for Pods; set type Prometheus with a query for the same metric, or "
                "remove one of them"
            ),
        ),
        (
            {"maxReplicas": 2, "metrics": []},
            (
                "metrics: [] is invalid: must be a list of at least one metric, such as [{type: "
                "CPU, target: 80}]"
            ),
        ),
        ({"maxReplicas": 2, "metrics": {}}, "metrics: {} is invalid: must be a list"),
        (
            {"maxReplicas": 2, "metrics": [{"type": "CPU", "target": 1}] * 9},
            "metrics: has 9 metrics: must have at most 8",
        ),
    ],
)
def test_an_invalid_field_is_reported(scaling: Any, expected: str):
    parsed, problems, _ = read(scaling)

    assert problems == [f"spec.scaling.{expected}"]
    assert parsed.is_on


def test_the_bounds_may_be_equal_and_the_metrics_eight():
    parsed, problems, _ = read({"maxReplicas": 2, "minReplicas": 2, "metrics": [PODS] * 8})

    assert problems == []
    assert len(parsed.metrics) == 8


def only_with(type_: str) -> str:
    return f"must be set with type {type_} and must be absent with any other type"


NAME = "the name in the custom metrics adapter: it must not contain / or % and must not be . or .."


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ({"target": 1}, ["type: is required and must be one of CPU, Memory, Pods, Prometheus"]),
        (
            {"type": "GPU", "target": 1},
            ["type: 'GPU' is invalid: must be one of CPU, Memory, Pods, Prometheus"],
        ),
        (
            {"type": "CPU"},
            ["target: is required and must be a whole number of 1 or greater"],
        ),
        (
            {"type": "CPU", "target": 0},
            ["target: 0 is invalid: must be a whole number from 1 to 2147483647"],
        ),
        (
            {"type": "CPU", "target": 2**31},
            ["target: 2147483648 is invalid: must be a whole number from 1 to 2147483647"],
        ),
        ({"type": "CPU", "target": 1, "name": "a"}, [f"name: {only_with('Pods')}"]),
        ({"type": "Pods", "target": 1}, [f"name: {only_with('Pods')}"]),
        ({"type": "CPU", "target": 1, "query": "a"}, [f"query: {only_with('Prometheus')}"]),
        (
            {"type": "Prometheus", "target": 1},
            [
                f"serverAddress: {only_with('Prometheus')}",
                f"query: {only_with('Prometheus')}",
            ],
        ),
        (
            {**PODS, "serverAddress": "http://p"},
            [f"serverAddress: {only_with('Prometheus')}"],
        ),
        ({**PODS, "name": "a/b"}, [f"name: 'a/b' is invalid: must be {NAME}"]),
        ({**PODS, "name": "a%"}, [f"name: 'a%' is invalid: must be {NAME}"]),
        ({**PODS, "name": "."}, [f"name: '.' is invalid: must be {NAME}"]),
        ({**PODS, "name": ".."}, [f"name: '..' is invalid: must be {NAME}"]),
        ({**PODS, "average": 1}, [f"average: {UNKNOWN}"]),
    ],
)
def test_an_invalid_metric_is_reported(metric: Any, expected: list[str]):
    good = {"type": "CPU", "target": 1}

    found = read({"maxReplicas": 2, "metrics": [good, metric]})[1]

    assert found == [f"spec.scaling.metrics[1].{each}" for each in expected]
