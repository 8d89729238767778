"""Problems of specs that the schema accepts: smoke tests, podTemplate and scaling."""

import pytest
import yaml

from moorage_cli.manifests.lint import lint, lint_text, schemas
from moorage_cli.printing.tables import Palette
from support.cli_manifests import manifest

SCHEMAS = schemas()
TEST = "spec.smokeTests.tests[0]"
DATA = f"{TEST}.inputs[0].data"
CPU = {"maxReplicas": 4, "metrics": [{"type": "CPU", "target": 70}]}
QUERY = {
    "type": "Prometheus",
    "serverAddress": "http://prometheus:9090",
    "query": "sum(up)",
    "target": 70,
}
BY_QUERY = {"maxReplicas": 4, "metrics": [QUERY]}


def findings(spec):
    text = yaml.safe_dump(manifest({"model": {"uri": "pvc://models/digits"}, **spec}))
    return {item.path: item.message for item in lint_text("file", text, SCHEMAS)}


def smoke_test(datatype, shape, data):
    tensor = {"name": "x", "datatype": datatype, "shape": shape, "data": data}
    return {"smokeTests": {"tests": [{"name": "zeros", "inputs": [tensor]}]}}


def json_test(body, *expect):
    test = {"name": "chat", "request": {"body": body}, "expect": list(expect)}
    return {"protocol": "OpenAI", "runtime": {"image": "vllm:1"}, "smokeTests": {"tests": [test]}}


@pytest.mark.parametrize(
    "spec",
    [
        json_test({"any": [1, {"thing": None}]}, {"jsonPath": "$.a[0].b", "value": 0.5}),
        json_test({}, {"jsonPath": "a", "pattern": r"(?i)^\pL+\z"}),
        json_test({}, {"jsonPath": "a", "pattern": "[[:alpha:]]"}),
        {
            "protocol": "None",
            "runtime": {"image": "bento:1"},
            "paths": {"ready": "/readyz"},
            "smokeTests": {"tests": [{"name": "t", "request": {"path": "/p", "method": "GET"}}]},
        },
    ],
)
def test_json_tests_of_servers_without_tensors_are_accepted(spec):
    assert findings(spec) == {}


@pytest.mark.parametrize(
    ("spec", "path", "fact"),
    [
        (
            json_test({"stream": True}),
            "spec.smokeTests.tests[0].request.body.stream",
            "true is invalid",
        ),
        (json_test({"a": "x" * 70_000}), f"{TEST}.request.body", "65536"),
        (
            json_test({}, {"jsonPath": "a", "value": [1]}),
            "spec.smokeTests.tests[0].expect[0].value",
            "a number, a boolean or a string",
        ),
        (smoke_test("FP32", [1, 3], [1, 2]), DATA, "2 elements"),
        (smoke_test("FP32", [1, 3], [[1, 2]]), DATA, "requires 3"),
        (smoke_test("INT8", [1], [300]), DATA, "300"),
        (smoke_test("INT64", [1], [1.5]), DATA, "INT64"),
        (smoke_test("BOOL", [1], [1]), DATA, "BOOL"),
        (smoke_test("BYTES", [1], [1]), DATA, "BYTES"),
        (smoke_test("FP32", [1], ["a"]), DATA, '"a"'),
        (
            {"podTemplate": {"spec": {"toleration": []}}},
            "spec.podTemplate.spec.toleration",
            "did you mean tolerations?",
        ),
        (
            {"podTemplate": {"spec": {"containers": [{"name": "runtime", "volumeMount": []}]}}},
            "spec.podTemplate.spec.containers[0].volumeMount",
            "unknown field",
        ),
        (
            {"podTemplate": {"spec": {"volumes": [{"name": "a", "emptyDir": {"size": 1}}]}}},
            "spec.podTemplate.spec.volumes[0].emptyDir.size",
            "did you mean sizeLimit?",
        ),
        (
            {"podTemplate": {"spec": {"restartPolicy": "Never"}}},
            "spec.podTemplate.spec.restartPolicy",
            "must be Always",
        ),
        (
            {"podTemplate": {"spec": {"restartPolicy": []}}},
            "spec.podTemplate.spec.restartPolicy",
            "must be Always",
        ),
        (
            {"podTemplate": {"spec": {"activeDeadlineSeconds": 60}}},
            "spec.podTemplate.spec.activeDeadlineSeconds",
            "not allowed in a Deployment",
        ),
        (
            {"podTemplate": {"spec": {"ephemeralContainers": [{"name": "a", "image": "b"}]}}},
            "spec.podTemplate.spec.ephemeralContainers",
            "not allowed in a Deployment",
        ),
        (
            {"podTemplate": {"spec": {"containers": [{"name": "runtime"}, {"name": "runtime"}]}}},
            "spec.podTemplate.spec.containers[1].name",
            "'runtime' occurs twice",
        ),
        ({"scaling": CPU}, "spec.scaling.metrics[0]", "spec.runtime.resources.requests.cpu"),
        (
            {"scaling": {"maxReplicas": 2}},
            "spec.scaling",
            "spec.runtime.resources.requests.cpu",
        ),
        (
            {"scaling": {"maxReplicas": 4, "metrics": [QUERY, {"type": "Memory", "target": 70}]}},
            "spec.scaling.metrics[1]",
            "spec.runtime.resources.requests.memory",
        ),
        (
            {"scaling": BY_QUERY, "replicas": 3},
            "spec.replicas",
            "remove spec.replicas",
        ),
    ],
)
def test_a_problem_is_reported_with_the_path_of_the_field(spec, path, fact):
    found = findings(spec)

    assert list(found) == [path]
    assert fact in found[path]


RUNTIME = {"name": "runtime", "resources": {"requests": {"cpu": 1}}}


@pytest.mark.parametrize(
    "spec",
    [
        smoke_test("FP32", [2, 2], [[1, 2], [3, 4.5]]),
        smoke_test("INT8", [2], [-128, 127]),
        smoke_test("BYTES", [], ["a"]),
        smoke_test("BF16", [0], []),
        {"podTemplate": {"spec": {"runtimeClassName": "nvidia", "hostname": None}}},
        {"podTemplate": {"spec": {"restartPolicy": "Always", "ephemeralContainers": None}}},
        {"podTemplate": {"spec": {"nodeSelector": {"any/label": "value"}}}},
        {"scaling": CPU, "runtime": {"resources": {"requests": {"cpu": "500m"}}}},
        {"scaling": CPU, "runtime": {"resources": {"limits": {"cpu": 2}}}},
        {"scaling": CPU, "podTemplate": {"spec": {"containers": [RUNTIME]}}},
        {"scaling": BY_QUERY},
        {"replicas": 3},
    ],
)
def test_a_valid_spec_has_no_problems(spec):
    assert findings(spec) == {}


SECURED = {"access": {"tokenSecretName": "tokens"}}
TLS = {"tls": {"secretName": "tls"}}
ROUTED = {**TLS, "route": {"parentRefs": [{"name": "web"}]}}
IN_PLAINTEXT = (
    "spec.access: without spec.tls, tokens cross the network in plaintext: set spec.tls, or "
    "encrypt the connections with a service mesh"
)
BY_GATEWAY = (
    "spec.route: with spec.tls, the gateway must speak TLS to the model: create a "
    "BackendTLSPolicy for its Service with the CA and the host name of the certificate"
)
NEEDS_A_TOKEN = (
    "spec.access: with protocol GRPS, the operator needs a token even for readiness: grant it get "
    "on Secret tokens, as docs/how-to/tls-and-tokens.md shows"
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (SECURED, IN_PLAINTEXT),
        (ROUTED, BY_GATEWAY),
        ({**SECURED, **TLS}, ""),
        ({**SECURED, **TLS, "protocol": "GRPS"}, NEEDS_A_TOKEN),
        ({"route": {"parentRefs": [{"name": "web"}]}}, ""),
    ],
)
def test_tls_and_tokens_have_notes_that_fail_nothing(spec, expected):
    text = yaml.safe_dump(manifest({"runtime": {"image": "server:1"}, **spec}))
    report = lint([("file", text)], Palette(coloured=False))

    assert report.ok
    assert list(report.notes) == ([f"file: checked: {expected}"] if expected else [])
