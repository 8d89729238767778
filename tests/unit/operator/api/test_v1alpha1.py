"""parse(): defaults, and a problem for each invalid field; never an exception."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.api.v1alpha1 import (
    Health,
    ModelUri,
    NetworkAccess,
    Ports,
    ReadinessTarget,
    RuntimeSpec,
    Scaling,
    Scheduling,
    Scheme,
    Tls,
    TokenAccess,
    Transport,
    is_parsed_from,
    parse,
)
from moorage_operator.api.written_spec import NOTHING_WRITTEN
from support.operator_values import body, model


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
    assert not parsed.paused
    assert parsed.network_policy is None
    assert (parsed.tls, parsed.access) == (Tls(), TokenAccess())
    assert parsed.scaling == Scaling()
    assert parsed.scheduling == Scheduling({}, (), {}, "", "", ())


def test_the_metadata_identifies_the_model():
    resource = body("iris", generation=7)

    parsed = parse(resource)

    assert (parsed.namespace, parsed.name, parsed.uid) == ("ns", "iris", "uid-iris")
    assert (parsed.generation, parsed.deleting) == (7, False)


def test_a_resource_that_is_being_deleted_is_recognized():
    resource = body()
    resource["metadata"]["deletionTimestamp"] = "2026-03-04T05:06:07Z"

    assert parse(resource).deleting


def test_a_resource_that_was_never_stored_has_generation_0():
    resource = body()
    del resource["metadata"]["generation"]

    assert parse(resource).generation == 0


@pytest.mark.parametrize(
    ("metadata", "is_current"),
    [
        ({}, True),
        ({"resourceVersion": "8", "labels": {"team": "web"}}, True),
        ({"generation": 2}, False),
        ({"uid": "uid-of-another"}, False),
        ({"deletionTimestamp": "2026-03-04T05:06:07Z"}, False),
    ],
)
def test_a_parsed_model_is_current_for_the_same_spec_of_the_same_object(metadata, is_current):
    resource = body()
    newer = {"metadata": {**resource["metadata"], **metadata}}

    assert is_parsed_from(parse(resource), newer) is is_current


def test_a_model_without_a_generation_is_current_for_generation_0():
    resource = body()
    del resource["metadata"]["generation"]
    parsed = parse(resource)

    assert is_parsed_from(parsed, resource)
    assert is_parsed_from(parsed, body(generation=0))
    assert not is_parsed_from(parsed, body(generation=1))


def test_every_field_of_the_runtime_is_read():
    written = {
        "name": "triton",
        "image": "registry.example/triton:25.07",
        "command": ["tritonserver"],
        "args": ["--model-repository=/mnt/models"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "2"}],
        "resources": {"limits": {"memory": "2Gi"}},
        "ports": {"http": 8080, "grpc": 9000},
    }

    parsed = model(runtime=written)

    assert parsed.problems == ()
    assert parsed.runtime == RuntimeSpec(
        image="registry.example/triton:25.07",
        command=("tritonserver",),
        args=("--model-repository=/mnt/models",),
        env=({"name": "OMP_NUM_THREADS", "value": "2"},),
        resources={"limits": {"memory": "2Gi"}},
        ports=Ports(8080, 9000),
        name="triton",
    )


def test_every_field_of_health_is_read():
    written = {
        "startupTimeoutSeconds": 1800,
        "periodSeconds": 7,
        "timeoutSeconds": 4,
        "failureThreshold": 6,
        "pollIntervalSeconds": 20,
        "terminationGracePeriodSeconds": 120,
        "readinessTarget": "Server",
    }

    parsed = model(health=written)

    assert parsed.problems == ()
    assert parsed.health == Health(1800, 7, 4, 6, 20, 120, ReadinessTarget.SERVER)


def test_every_field_of_the_pod_is_read():
    parsed = model(
        nodeSelector={"disk": "fast"},
        tolerations=[{"key": "gpu"}],
        affinity={"nodeAffinity": {}},
        priorityClassName="urgent",
        serviceAccountName="reader",
        imagePullSecrets=[{"name": "registry"}],
        podTemplate={"spec": {"dnsPolicy": "Default"}},
    )

    assert parsed.problems == ()
    assert parsed.scheduling == Scheduling(
        node_selector={"disk": "fast"},
        tolerations=({"key": "gpu"},),
        affinity={"nodeAffinity": {}},
        priority_class_name="urgent",
        service_account_name="reader",
        image_pull_secrets=({"name": "registry"},),
    )
    assert parsed.pod_template == {"spec": {"dnsPolicy": "Default"}}


def test_every_other_section_is_read():
    parsed = model(
        paused=True,
        scaling={"minReplicas": 2, "maxReplicas": 5},
        tls={"secretName": "iris-tls", "serverName": "iris.example.com"},
        access={"tokenSecretName": "iris-tokens"},
        smokeTests={"tests": [{"name": "zeros", "inputs": [ZEROS]}]},
        objectMetadata={"labels": {"team": "risk"}},
    )

    assert parsed.problems == ()
    assert parsed.paused
    assert (parsed.scaling.min_replicas, parsed.scaling.max_replicas) == (2, 5)
    assert parsed.tls == Tls("iris-tls", "iris.example.com")
    assert parsed.access == TokenAccess("iris-tokens")
    assert parsed.object_metadata.labels == {"team": "risk"}
    assert [each.name for each in parsed.smoke_tests.tests] == ["zeros"]


PEERS = [{"podSelector": {"matchLabels": {"app": "shop"}}}]


@pytest.mark.parametrize(
    ("written", "expected"), [({"from": []}, ()), ({"from": PEERS}, tuple(PEERS))]
)
def test_a_network_policy_has_the_peers_of_its_list(written, expected):
    parsed = model(networkPolicy=written)

    assert parsed.problems == ()
    assert parsed.network_policy == NetworkAccess(expected)


ZEROS = {"name": "x", "datatype": "FP32", "shape": [2], "data": [0, 0]}
ONES = {**ZEROS, "data": [1, 1]}


def test_the_digest_of_the_smoke_tests_changes_with_a_test_and_not_with_the_policy():
    def digest(tensor, policy="Warn"):
        tests = [{"name": "only", "inputs": [tensor]}]
        return model(smokeTests={"tests": tests, "policy": policy}).smoke_digest

    assert digest(ZEROS) == digest(ZEROS, "Enforce")
    assert digest(ZEROS) != digest(ONES)
    assert model().smoke_digest not in {digest(ZEROS), digest(ONES)}


# Documented limits: the field, and the smallest and the largest allowed value.
BOUNDS = [
    ("replicas", 0, 2**31 - 1),
    ("runtime.ports.http", 1, 65535),
    ("runtime.ports.grpc", 1, 65535),
    ("health.startupTimeoutSeconds", 1, 86400),
    ("health.periodSeconds", 1, 300),
    ("health.timeoutSeconds", 1, 60),
    ("health.failureThreshold", 1, 100),
    ("health.pollIntervalSeconds", 1, 3600),
    ("health.terminationGracePeriodSeconds", 10, 3600),
]


def spec_with(path: str, value: object) -> dict:
    """A spec with one field."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


@pytest.mark.parametrize(("path", "lowest", "highest"), BOUNDS)
def test_a_number_within_its_bounds_is_accepted_and_one_beyond_is_not(path, lowest, highest):
    for allowed in (lowest, highest):
        assert model(**spec_with(path, allowed)).problems == ()
    for refused in (lowest - 1, highest + 1):
        assert [str(each) for each in model(**spec_with(path, refused)).problems] == [
            f"spec.{path}: {refused} is invalid: must be a whole number from {lowest} to {highest}"
        ]


PVC, S3 = {"uri": "pvc://models/iris"}, {"uri": "s3://models/iris"}
IN_IMAGE = {"runtime": {"image": "example/server:1"}}


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"model": PVC}, 600 + 300),
        ({"model": S3}, 600 + 300 + 1800),
        (IN_IMAGE, 600 + 300),
        ({"model": PVC, "health": {"startupTimeoutSeconds": 60}}, 60 + 300),
        ({"model": S3, "health": {"startupTimeoutSeconds": 60}}, 60 + 300 + 1800),
        ({"model": S3, "rollout": {"progressDeadlineSeconds": 20}}, 20),
    ],
)
def test_the_progress_deadline_leaves_time_to_start_and_to_download(spec, seconds):
    assert model(**spec).progress_deadline_seconds == seconds


ONE_TEST = [{"name": "zeros", "inputs": [ZEROS]}]


@pytest.mark.parametrize(
    ("contract", "tests", "expected"),
    [
        ("Warn", "Warn", False),
        ("Enforce", "Warn", True),
        ("Warn", "Enforce", True),
        ("Enforce", "Enforce", True),
    ],
)
def test_an_enforced_contract_or_smoke_test_decides_about_traffic(contract, tests, expected):
    parsed = model(
        contract={"policy": contract, "inputs": [{"name": "x"}]},
        smokeTests={"policy": tests, "tests": ONE_TEST},
    )

    assert parsed.enforces is expected


def test_only_an_accepted_spec_is_written():
    valid, invalid = model(), model(replicas=-1)

    assert valid.written.hash.startswith("v1:")
    assert invalid.written == NOTHING_WRITTEN


def test_the_written_spec_belongs_to_one_object():
    resource = body()
    again = body()
    again["metadata"]["uid"] = "uid-of-another"

    assert parse(resource).written.hash != parse(again).written.hash
    assert parse(resource).written.kept == parse(again).written.kept


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
            {"contract": {"inputs": [{"name": str(n)} for n in range(257)]}},
            "spec.contract.inputs",
            "at most 256",
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
    ("spec", "message"),
    [
        (
            {"runtime": {"ports": {"http": 8001}}},
            (
                "spec.runtime.ports.grpc: 8001 is invalid: ports.http and ports.grpc must differ; "
                "the defaults are 8000 and 8001. Write both ports"
            ),
        ),
        (
            {"runtime": {"name": "Not A Name"}},
            (
                "spec.runtime.name: 'Not A Name' is invalid: must be a valid name of an "
                "InferenceRuntime"
            ),
        ),
        (
            {"networkPolicy": {}},
            (
                "spec.networkPolicy.from: is required and must be a list of peers; [] admits only "
                "the operator"
            ),
        ),
        (
            {"networkPolicy": {"from": [], "to": []}},
            (
                "spec.networkPolicy.to: this version of the operator does not know this field: "
                "remove it or upgrade the operator"
            ),
        ),
        (
            {"podTemplate": {"spec": ["a"]}},
            "spec.podTemplate.spec: ['a'] is invalid: must be an object",
        ),
        (
            {"transport": "GRPC", "paths": {"metadata": "/m"}},
            (
                "spec.paths.metadata: is an HTTP path and has no effect with transport GRPC; "
                "remove it or set transport to HTTP"
            ),
        ),
        (
            {"rollout": {"strategy": "Canary"}},
            (
                "spec.route: a canary splits requests at a gateway; set route.parentRefs, such as "
                "[{name: web, namespace: gateways}], or remove rollout.canary and set "
                "rollout.strategy to RollingUpdate"
            ),
        ),
        (
            {"protocol": "TensorFlowServing", "transport": "GRPC"},
            (
                "spec.transport: protocol TensorFlowServing requires transport HTTP, because the "
                "operator uses its REST API; set transport to HTTP. Clients can still use the "
                "gRPC port"
            ),
        ),
        (
            {"protocol": "TensorFlowServing", "model": {"version": "v3"}},
            (
                "spec.model.version: 'v3' is invalid: must be a whole number with protocol "
                "TensorFlowServing, such as '3'"
            ),
        ),
        (
            {"protocol": "TensorFlowServing", "health": {"readinessTarget": "Server"}},
            (
                "spec.health.readinessTarget: TensorFlow Serving has no server readiness "
                "endpoint; set health.readinessTarget to Model, or set paths.ready to a path"
            ),
        ),
        (
            {"protocol": "OpenAI"},
            (
                "spec.runtime.image: is required with protocol OpenAI, because the bundled "
                "runtime speaks others; set it, or set runtime.name to an InferenceRuntime with "
                "an image"
            ),
        ),
    ],
)
def test_a_message_says_what_is_wrong_and_what_is_allowed(spec, message):
    assert [str(each) for each in model(**spec).problems] == [message]


def test_only_an_invalid_pod_template_has_a_reason_of_its_own():
    problems = model(replicas=-1, podTemplate={"spec": []}).problems

    assert [(each.path, each.reason) for each in problems] == [
        ("spec.replicas", "InvalidSpec"),
        ("spec.podTemplate.spec", "InvalidPodTemplate"),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        {"transport": "GRPC"},
        {"paths": {"metadata": "/v2/models/iris"}},
        {"protocol": "OpenAI", **IN_IMAGE},
        {"protocol": "Auto", "model": {"name": "org/model"}, **IN_IMAGE},
    ],
)
def test_a_setting_that_another_one_could_forbid_is_accepted(spec):
    assert model(**spec).problems == ()


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

    (problem,) = parsed.problems
    assert str(problem) == (
        "spec: nothing to serve: set model.uri, such as pvc://CLAIM/PATH or s3://BUCKET/PATH, or "
        "set runtime.image if the image contains the model"
    )


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
        "objectMetadata",
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
