"""parse(): defaults, and a problem for each invalid field; never an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.v1alpha1 import Health, ModelUri, Ports, Scheme, Transport, parse
from support.operator_values import body, model


def problems(**spec) -> list[str]:
    return [str(problem) for problem in model(**spec).problems]


def test_the_smallest_resource_has_every_default():
    parsed = model("iris", model={"uri": "pvc://models/iris"})

    assert parsed.problems == ()
    assert parsed.model.name == "iris"
    assert parsed.model.version == ""
    assert parsed.model.uri == ModelUri(Scheme.PVC, "models", "iris", "pvc://models/iris")
    assert parsed.replicas == parsed.desired_replicas == 1
    assert parsed.transport is Transport.HTTP
    assert parsed.runtime.image == ""
    assert parsed.runtime.ports == Ports(8000, 8001)
    assert parsed.health == Health(600, 5, 2, 3, 30)


def test_a_suspended_model_runs_no_replicas_and_keeps_the_field():
    parsed = model(replicas=3, suspend=True)

    assert (parsed.replicas, parsed.desired_replicas) == (3, 0)


ROUTE = {"parentRefs": [{"name": "web"}]}


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        ({"replicas": -1}, "spec.replicas", "-1 is invalid: must be a whole number from 0"),
        ({"replicas": "two"}, "spec.replicas", "'two'"),
        ({"replicas": True}, "spec.replicas", "True"),
        ({"suspend": "yes"}, "spec.suspend", "true or false"),
        ({"protocol": "SOAP"}, "spec.protocol", "one of Auto, OpenInference"),
        ({"transport": "UDP"}, "spec.transport", "one of HTTP, GRPC"),
        ({"model": {"name": "a b"}}, "spec.model.name", "letters, digits"),
        ({"model": {"name": ".."}}, "spec.model.name", "with a letter or digit"),
        ({"model": {"name": "a/b"}}, "spec.model.name", "set protocol to OpenAI"),
        ({"model": {"name": "a:b"}, "protocol": "GRPS"}, "spec.model.name", "with protocol GRPS"),
        ({"model": {"name": "a/b"}, "protocol": "Auto"}, "spec.model.name", "set runtime.image"),
        ({"model": {"version": "a/b"}}, "spec.model.version", "letters, digits"),
        ({"model": {"version": "."}}, "spec.model.version", "not only dots"),
        ({"model": {"version": 3}}, "spec.model.version", "a string"),
        ({"health": "good"}, "spec.health", "an object"),
        ({"runtime": {"args": "a"}}, "spec.runtime.args", "a list"),
        ({"runtime": {"args": [1]}}, "spec.runtime.args", "a list of strings"),
        ({"runtime": {"env": ["A=1"]}}, "spec.runtime.env", "a list of objects"),
        ({"runtime": {"ports": {"http": 0}}}, "spec.runtime.ports.http", "from 1 to 65535"),
        ({"runtime": {"ports": {"http": 8001}}}, "spec.runtime.ports.grpc", "ports.http"),
        ({"paths": {"ready": "no slash"}}, "spec.paths.ready", "begins with '/'"),
        ({"paths": {"live": "/a b"}}, "spec.paths.live", "'/a b'"),
        ({"paths": {"modelReady": "/%zz"}}, "spec.paths.modelReady", "'/%zz'"),
        ({"rollout": {"strategy": "Canary"}}, "spec.route", "set route.parentRefs"),
        ({"rollout": {"canary": {"keepSeconds": 60}}}, "spec.route", "remove rollout.canary"),
        ({"route": {"hostnames": ["a.b"]}}, "spec.route.parentRefs", "required"),
        ({"route": {"parentRefs": [{}]}}, "spec.route.parentRefs[0].name", "required"),
        ({"route": {**ROUTE, "grpc": {}}}, "spec.route.grpc.hostnames", "is required"),
        (
            {"route": {**ROUTE, "grpc": {"hostnames": ["g.a"]}}},
            "spec.route.hostnames",
            "must be set with route.grpc",
        ),
        (
            {"route": {**ROUTE, "hostnames": ["*.a"], "grpc": {"hostnames": ["g.a"]}}},
            "spec.route.grpc.hostnames",
            "'*.a' does",
        ),
        (
            {"route": {"ingress": {}, "hostnames": ["a"], "grpc": {"hostnames": ["g.a"]}}},
            "spec.route.grpc",
            "set parentRefs or remove grpc",
        ),
        (
            {"route": {"ingress": {"annotations": {"a": 1}}}},
            "spec.route.ingress.annotations.a",
            "must be a string",
        ),
        (
            {"route": {"ingress": {"annotations": {"moorage.dev/applied-hash": "x"}}}},
            "spec.route.ingress.annotations.moorage.dev/applied-hash",
            "remove it",
        ),
        (
            {"route": {"ingress": {"className": "A"}}},
            "spec.route.ingress.className",
            "lowercase letters",
        ),
        (
            {"route": {"ingress": {}}, "rollout": {"strategy": "Canary"}},
            "spec.route",
            "set route.parentRefs",
        ),
        ({"route": {**ROUTE, "weight": 1}}, "spec.route.weight", "does not know this field"),
        ({"disruptionBudget": "None"}, "spec.disruptionBudget", "an object"),
        ({"disruptionBudget": {"policy": "Off"}}, "spec.disruptionBudget.policy", "Auto, None"),
        ({"smokeTests": []}, "spec.smokeTests", "an object"),
        ({"smokeTests": {"policy": "Ignore"}}, "spec.smokeTests.policy", "Warn, Enforce"),
        ({"health": {"periodSeconds": 0}}, "spec.health.periodSeconds", "from 1 to 300"),
        ({"health": {"readinessTarget": "Pod"}}, "spec.health.readinessTarget", "Model, Server"),
        ({"podTemplate": {"spec": []}}, "spec.podTemplate.spec", "an object"),
        ({"cannotBe": []}, "spec.cannotBe", "does not know this field"),
        ({"health": {"retries": 1}}, "spec.health.retries", "does not know this field"),
        ({"contract": {"policy": "Maybe"}}, "spec.contract.policy", "one of Ignore, Warn"),
        ({"contract": {"inputs": {}}}, "spec.contract.inputs", "a list"),
        ({"contract": {"inputs": [{}]}}, "spec.contract.inputs[0].name", "required"),
        (
            {"contract": {"outputs": [{"name": "a", "datatype": "float"}]}},
            "spec.contract.outputs[0].datatype",
            "one of BF16",
        ),
        (
            {"contract": {"inputs": [{"name": "a"}, {"name": "a"}]}},
            "spec.contract.inputs",
            "'a'",
        ),
        (
            {"contract": {"inputs": [{"name": "a", "shape": [-2]}]}},
            "spec.contract.inputs[0].shape",
            "[-2]",
        ),
        (
            {"contract": {"inputs": [{"name": "a", "shape": "4"}]}},
            "spec.contract.inputs[0].shape",
            "a list of at most 32",
        ),
        (
            {"contract": {"inputs": [{"name": "a", "size": 4}]}},
            "spec.contract.inputs[0].size",
            "does not know this field",
        ),
        (
            {"contract": {"inputs": [{"name": str(n)} for n in range(65)]}},
            "spec.contract.inputs",
            "at most 64",
        ),
        (
            {"protocol": "TensorFlowServing", "transport": "GRPC"},
            "spec.transport",
            "transport HTTP",
        ),
        (
            {"protocol": "TensorFlowServing", "model": {"version": "v3"}},
            "spec.model.version",
            "a whole number",
        ),
        (
            {"protocol": "TensorFlowServing", "health": {"readinessTarget": "Server"}},
            "spec.health.readinessTarget",
            "set paths.ready",
        ),
        (
            {"transport": "GRPC", "paths": {"metadata": "/m"}},
            "spec.paths.metadata",
            "no effect with transport GRPC",
        ),
    ],
)
def test_an_invalid_field_is_reported_with_its_value(spec, path, sentence):
    found = [problem for problem in model(**spec).problems if problem.path == path]

    assert len(found) == 1
    assert sentence in found[0].message


@pytest.mark.parametrize(
    "spec",
    [
        {"model": {"version": "3"}},
        {"health": {"readinessTarget": "Server"}, "paths": {"ready": "/healthz"}},
    ],
)
def test_tensorflow_serving_accepts_supported_settings(spec):
    assert model(protocol="TensorFlowServing", **spec).problems == ()


def test_neither_a_uri_nor_an_image_is_nothing_to_serve():
    parsed = parse({**body(), "spec": {"replicas": 1}})

    assert "runtime.image" in parsed.problems[0].message


def test_a_missing_spec_is_a_problem():
    parsed = parse({"metadata": body()["metadata"]})

    assert parsed.problems


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "replicas",
        "suspend",
        "model",
        "protocol",
        "transport",
        "runtime",
        "paths",
        "route",
        "scaling",
        "disruptionBudget",
        "smokeTests",
        "rollout",
        "health",
        "podTemplate",
        "nodeSelector",
        "tolerations",
        "affinity",
        "imagePullSecrets",
        "other",
    ]
)


@given(st.dictionaries(FIELDS, json_values) | json_values)
def test_parse_never_raises(spec):
    parsed = parse({**body(), "spec": spec})

    assert parsed.model.name
    assert all(problem.path.startswith("spec") for problem in parsed.problems)
