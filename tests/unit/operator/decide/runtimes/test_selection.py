"""Which InferenceRuntime a model gets, and what it is told if it gets none."""

import pytest

from moorage_operator.api.fields import Problem
from moorage_operator.decide.runtimes.selection import defaults_at_once, select
from moorage_operator.values.runtimes import Runtimes
from support.operator_runtimes import DEFAULT, LABELS, TRITON, runtime, runtimes

RISK = {"selector": {"matchLabels": {"team": "risk"}}}
OTHER = runtime("other", image="other:1", formats=[{"name": "onnx", "priority": 1}])
SAME = runtime("same", image="same:1", formats=[{"name": "onnx", "priority": 2}])
RISKY = runtime("risky", image="risky:1", allowedNamespaces=RISK, formats=[{"name": "pkl"}])
SECOND = runtime("second", default=True)
BROKEN = runtime("broken", image="x", protocol="REST", formats=[{"name": "bad"}])


@pytest.mark.parametrize(
    ("spec", "listed", "namespace", "expected"),
    [
        ({"runtime": {"name": "triton"}}, [TRITON, OTHER], "ns", "triton"),
        ({"model": {"format": "onnx"}}, [OTHER, TRITON], "ns", "triton"),
        ({"model": {"format": "onnx"}}, [OTHER, DEFAULT], "ns", "other"),
        (
            {"runtime": {"name": "other"}, "model": {"format": "onnx"}}, [OTHER, TRITON],
            "ns", "other",
        ),
        ({}, [TRITON, DEFAULT], "ns", "standard"),
        ({}, [TRITON], "ns", ""),
        ({}, [], "ns", ""),
        ({"runtime": {"image": "mine:1"}}, [DEFAULT], "ns", ""),
        ({"runtime": {"image": "mine:1"}, "model": {"format": "onnx"}}, [TRITON], "ns", ""),
        ({"runtime": {"image": "mine:1", "name": "triton"}}, [TRITON], "ns", "triton"),
        ({"runtime": {"name": "risky"}}, [RISKY], "ns", "risky"),
    ],
)  # fmt: skip
def test_a_model_gets_its_runtime(spec, listed, namespace, expected):
    found = select(spec, namespace, runtimes(*listed))

    assert not isinstance(found, Problem)
    assert (found.name if found else "") == expected


@pytest.mark.parametrize(
    ("spec", "listed", "namespace", "reason", "path", "words"),
    [
        (
            {"runtime": {"name": "tritn"}}, [TRITON, OTHER], "ns",
            "RuntimeNotFound", "spec.runtime.name", ["'tritn'", "other, triton"],
        ),
        (
            {"runtime": {"name": "a"}}, [], "ns",
            "RuntimeNotFound", "spec.runtime.name", ["'a'", "no InferenceRuntime exists"],
        ),
        (
            {"runtime": {"name": "risky"}}, [RISKY], "other",
            "RuntimeNotAllowed", "spec.runtime.name", ["'risky'", "'other'", "allowedNamespaces"],
        ),
        (
            {"model": {"format": "pkl"}}, [RISKY], "other",
            "RuntimeNotAllowed", "spec.model.format", ["'pkl'", "'risky'", "'other'"],
        ),
        (
            {"model": {"format": "gguf"}}, [TRITON, RISKY], "ns",
            "NoRuntimeForFormat", "spec.model.format", ["'gguf'", "onnx, pkl"],
        ),
        (
            {"runtime": {"name": "triton"}, "model": {"format": "gguf"}}, [TRITON], "ns",
            "NoRuntimeForFormat", "spec.model.format", ["'gguf'", "'triton'", "onnx"],
        ),
        (
            {"model": {"format": "onnx"}}, [TRITON, SAME, OTHER], "ns",
            "RuntimeAmbiguous", "spec.model.format", ["'same' and 'triton'", "2"],
        ),
        (
            {}, [DEFAULT, SECOND], "ns",
            "RuntimeAmbiguous", "spec.runtime.name", ["'second' and 'standard'"],
        ),
        (
            {"runtime": {"name": "broken"}}, [BROKEN], "ns",
            "RuntimeInvalid", "spec.runtime.name", ["'broken'", "spec.protocol: 'REST'"],
        ),
        (
            {"model": {"format": "bad"}}, [BROKEN], "ns",
            "RuntimeInvalid", "spec.model.format", ["'broken'", "spec.protocol: 'REST'"],
        ),
    ],
)  # fmt: skip
def test_a_model_is_told_why_it_gets_none(spec, listed, namespace, reason, path, words):
    found = select(spec, namespace, runtimes(*listed))

    assert isinstance(found, Problem)
    assert (found.reason, found.path) == (reason, path)
    assert [word for word in words if word not in found.message] == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"runtime": {"name": "triton"}}, "RuntimeNotFound"),
        ({"model": {"format": "onnx"}}, "RuntimeNotFound"),
        ({}, ""),
    ],
)
def test_without_the_right_to_read_runtimes_only_those_who_name_one_are_told(spec, expected):
    found = select(spec, "ns", Runtimes(unreadable="the kind is not installed"))

    assert (found.reason if isinstance(found, Problem) else "") == expected


def test_a_missing_right_is_told_from_a_missing_runtime():
    sentence = "the operator may not read the kind InferenceRuntime"
    forbidden = Runtimes(unreadable=sentence, is_forbidden=True)

    found = select({"runtime": {"name": "triton"}}, "ns", forbidden)

    assert isinstance(found, Problem)
    assert found.reason == "ReadForbidden"
    assert sentence in found.message


def test_a_selector_without_the_labels_of_namespaces_admits_nobody():
    found = select({"runtime": {"name": "risky"}}, "ns", runtimes(RISKY, namespace_labels=None))

    assert isinstance(found, Problem)
    assert found.reason == "RuntimeNotAllowed"
    assert "labels of namespaces" in found.message


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (runtime("b", default=True), ["b"]),
        (runtime("b", default=False), []),
        (runtime("b", default=True, allowedNamespaces=RISK), ["b"]),
        (
            runtime(
                "b", default=True, allowedNamespaces={"selector": {"matchLabels": {"team": "x"}}}
            ),
            [],
        ),
    ],
)
def test_defaults_of_the_same_namespaces_are_found(other, expected):
    one = runtime("a", default=True)

    assert defaults_at_once(one, runtimes(one, other)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ({"key": "team", "operator": "In", "values": ["risk"]}, True),
        ({"key": "team", "operator": "In", "values": ["shop"]}, False),
        ({"key": "team", "operator": "NotIn", "values": ["shop"]}, True),
        ({"key": "none", "operator": "NotIn", "values": ["shop"]}, True),
        ({"key": "team", "operator": "Exists"}, True),
        ({"key": "none", "operator": "Exists"}, False),
        ({"key": "none", "operator": "DoesNotExist"}, True),
        ({"key": "team", "operator": "DoesNotExist"}, False),
    ],
)
def test_an_expression_selects_namespaces(expression, expected):
    one = runtime("a", allowedNamespaces={"selector": {"matchExpressions": [expression]}})

    assert one.problems == ()
    assert one.allows(LABELS["ns"]) == expected


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"image": 3}, "spec.image"),
        ({"ports": {"http": 0}}, "spec.ports.http"),
        ({"health": {"periodSeconds": 0}}, "spec.health.periodSeconds"),
        ({"paths": {"live": "no slash"}}, "spec.paths.live"),
        ({"formats": [{"name": "A"}]}, "spec.formats[0].name"),
        ({"formats": [{"name": "a"}, {"name": "a"}]}, "spec.formats[1].name"),
        ({"formats": [{"name": "a", "priority": -1}]}, "spec.formats[0].priority"),
        ({"maxConcurrentRollouts": 2}, "spec.maxConcurrentRollouts"),
        ({"updatePolicy": "Never"}, "spec.updatePolicy"),
        ({"allowedNamespaces": {}}, "spec.allowedNamespaces.selector"),
        (
            {"allowedNamespaces": {"selector": {"matchExpressions": [{"key": "a"}]}}},
            "spec.allowedNamespaces.selector.matchExpressions[0].operator",
        ),
        (
            {
                "allowedNamespaces": {
                    "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}
                }
            },
            "spec.allowedNamespaces.selector.matchExpressions[0].values",
        ),
        ({"adapters": []}, "spec.adapters"),
    ],
)
def test_an_invalid_field_of_a_runtime_is_named(spec, path):
    assert path in [problem.path for problem in runtime("a", **spec).problems]
