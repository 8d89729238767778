"""The CRD on a real API server: it rejects invalid specs and stores valid ones unchanged."""

import json
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from moorage_operator.api import names
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.values.objects import ContainerObserved
from moorage_operator.values.observed import Observed
from support.cli_manifests import BREAKS_A_RULE
from support.operator_cluster import GROUP, Api
from support.operator_values import NOW, model, observed, planned, serving, unready

pytestmark = pytest.mark.integration

URI = {"uri": "configmap://files"}


def resource(name: str = "checked", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": "InferenceModel",
        "metadata": {"name": name},
        "spec": spec,
    }


def refusal(api: Api, **spec: Any) -> str:
    """The API server's message."""
    with pytest.raises(ApiException) as refused:
        api.apply(resource(**spec))
    return json.loads(refused.value.body)["message"]


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        *BREAKS_A_RULE,
        # The message is the API server's.
        (
            {"model": {"uri": "hf://o/n", "files": {"exclude": ["/a"]}}},
            "spec.model.files.exclude[0]",
            "should match",
        ),
        (
            {"model": {"uri": "s3://bucket/key", "download": {"sizeLimit": "lots"}}},
            "spec.model.download.sizeLimit",
            "should match",
        ),
        ({"model": {**URI, "version": 3}}, "spec.model.version", "expected string"),
        ({"model": {**URI, "trusted": "yes"}}, "spec.model.trusted", "expected boolean"),
        (
            {"model": URI, "contract": {"inputs": [{"name": ""}]}},
            "spec.contract.inputs[0].name",
            "at least 1 chars",
        ),
        (
            {"model": URI, "contract": {"inputs": [{"name": "a", "datatype": "float"}]}},
            "spec.contract.inputs[0].datatype",
            '"float"',
        ),
        (
            {"model": URI, "contract": {"outputs": [{"name": "a", "shape": [-2]}]}},
            "spec.contract.outputs[0].shape[0]",
            "equal to -1",
        ),
        (
            {"model": URI, "smokeTests": {"tests": [{"name": "a", "inputs": []}]}},
            "spec.smokeTests.tests[0].inputs",
            "at least 1 items",
        ),
        (
            {"model": URI, "smokeTests": {"tests": [{"name": "a", "inputs": [{"name": "x"}]}]}},
            "spec.smokeTests.tests[0].inputs[0].data",
            "Required value",
        ),
        ({"model": URI, "protocol": "SOAP"}, "spec.protocol", '"OpenInference"'),
        (
            {"model": URI, "health": {"periodSeconds": 0}},
            "spec.health.periodSeconds",
            "equal to 1",
        ),
        (
            {"model": URI, "runtime": {"resources": {"limits": {"memory": "1GB"}}}},
            "spec.runtime.resources.limits.memory",
            '"1GB"',
        ),
        (
            {"model": URI, "runtime": {"env": [{"name": "A"}, {"name": "A"}]}},
            "",
            "duplicate",
        ),
        (
            {"model": URI, "rollout": {"promote": "4c1f0a9d2e-2"}},
            "spec.rollout.promote",
            "should match",
        ),
        ({"model": URI, "rollout": {"abort": "a/1"}}, "spec.rollout.abort", "should match"),
        (
            {"model": URI, "rollout": {"restartedAt": "2026-02-30T05:06:07Z"}},
            "spec.rollout.restartedAt",
            "date-time",
        ),
        (
            {
                "protocol": "OpenAI",
                "runtime": {"image": "vllm:1"},
                "smokeTests": {
                    "tests": [
                        {
                            "name": "a",
                            "request": {"body": {}},
                            "expect": [{"jsonPath": "a", "pattern": "(?=a)"}],
                        }
                    ]
                },
            },
            "spec.smokeTests.tests[0].expect[0].pattern",
            "error parsing regexp",
        ),
        ({"model": URI, "replica": 2}, "", ".spec.replica: field not declared in schema"),
    ],
)
def test_the_api_server_rejects_an_invalid_spec_with_the_field(api, spec, path, sentence):
    said = refusal(api, **spec)

    assert path in said
    assert sentence.lower() in said.lower()


FULL = {
    "replicas": 2,
    "suspend": False,
    "paused": False,
    "model": {
        "name": "Iris.v2",
        "version": "3",
        "uri": "pvc://models/a/b",
        "trusted": True,
        "imageVolume": "Auto",
    },
    "protocol": "OpenInference",
    "transport": "HTTP",
    "runtime": {
        "image": "registry.example/server:1",
        "command": ["serve"],
        "args": ["--fast"],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        ],
        "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "ports": {"http": 8080, "grpc": 9000},
    },
    "paths": {"live": "/l", "ready": "/r", "modelReady": "/m?x=%20", "metadata": "/d"},
    "health": {
        "startupTimeoutSeconds": 60,
        "periodSeconds": 1,
        "timeoutSeconds": 1,
        "failureThreshold": 2,
        "pollIntervalSeconds": 3,
        "readinessTarget": "Server",
        "terminationGracePeriodSeconds": 60,
    },
    "contract": {
        "policy": "Enforce",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 3]}],
    },
    "smokeTests": {
        "policy": "Enforce",
        "tests": [
            {
                "name": "mixed",
                "inputs": [
                    {
                        "name": "x",
                        "datatype": "FP32",
                        "shape": [2, 2],
                        "data": [[1, 0.5], [2, -3]],
                    },
                    {"name": "t", "datatype": "BYTES", "shape": [1], "data": ["a"]},
                    {"name": "b", "datatype": "BOOL", "shape": [], "data": [True]},
                ],
                "outputs": [
                    {
                        "name": "y",
                        "data": [[1], [2.5]],
                        "absoluteTolerance": 0,
                        "relativeTolerance": 0.01,
                    }
                ],
                "maxLatencyMilliseconds": 250,
            }
        ],
    },
    "scaling": {
        "minReplicas": 1,
        "maxReplicas": 4,
        "scaleDownAfterSeconds": 60,
        "metrics": [
            {"type": "CPU", "target": 70},
            {"type": "Pods", "target": 10, "name": "asked_per_second"},
        ],
    },
    "disruptionBudget": {"policy": "Auto"},
    "route": {
        "parentRefs": [{"name": "web", "namespace": "gateways", "sectionName": "https"}],
        "hostnames": ["iris.example.com"],
    },
    "networkPolicy": {"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]},
    "objectMetadata": {
        "labels": {"team": "risk", "example.com/empty": ""},
        "annotations": {"example.com/contact": "Risk team, 3rd floor"},
    },
    "tls": {"secretName": "iris-tls", "serverName": "iris.example.com"},
    "access": {"tokenSecretName": "iris-tokens"},
    "podTemplate": {
        "metadata": {"labels": {"team": "risk"}, "annotations": {"scrape": "true"}},
        "spec": {
            "runtimeClassName": "nvidia",
            "containers": [{"name": "runtime", "livenessProbe": None}],
        },
    },
    "nodeSelector": {"accelerator": "l4"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "serviceAccountName": "models",
    "imagePullSecrets": [{"name": "registry"}],
}


CHAT = {
    "replicas": 1,
    "suspend": False,
    "paused": False,
    "disruptionBudget": {"policy": "Auto"},
    "protocol": "OpenAI",
    "transport": "HTTP",
    "runtime": {"image": "vllm:1"},
    "contract": {"policy": "Warn", "inputs": [], "outputs": []},
    "smokeTests": {
        "policy": "Warn",
        "tests": [
            {
                "name": "chat",
                "request": {
                    "path": "/v1/chat/completions",
                    "method": "POST",
                    "body": {"messages": [{"content": "Hi", "n": [1, 2.5, True, None, {}]}]},
                },
                "expect": [
                    {"jsonPath": "$.choices[0].message.content", "pattern": "(?i)\\bhello\\z"},
                    {"jsonPath": "a", "value": 0.5},
                    {"jsonPath": "b", "value": "text"},
                    {"jsonPath": "c", "value": False},
                    {"jsonPath": "d", "exists": False},
                ],
            },
            {"name": "list", "request": {"path": "/v1/models", "method": "GET"}},
        ],
    },
}


def test_smoke_tests_in_json_are_stored_unchanged_and_read_by_the_operator(api):
    kept = api.apply(resource("chat", **CHAT))

    assert kept["spec"] == CHAT
    assert parse(kept).problems == ()


def test_every_field_is_stored_unchanged_and_read_by_the_operator(api):
    kept = api.apply(resource(**FULL))

    assert kept["spec"] == FULL
    assert parse(kept).problems == ()


@pytest.mark.parametrize(
    ("filled", "emptied"),
    [
        ({"route": {"ingress": {"className": "nginx"}}}, {"route": {"ingress": {}}}),
        ({"nodeSelector": {"disk": "ssd"}}, {"nodeSelector": {}}),
    ],
)
def test_an_object_can_be_emptied_with_server_side_apply(api, filled, emptied):
    api.apply(resource(model=URI, **filled))

    kept = api.apply(resource(model=URI, **emptied))

    assert {key: kept["spec"][key] for key in emptied} == emptied


@pytest.mark.parametrize(
    "spec",
    [{}, {"transport": "GRPC"}, {"model": {"uri": "pvc://models/a"}, "replicas": 0}, FULL],
    ids=["config map", "grpc", "volume claim", "every field"],
)
def test_the_api_server_accepts_every_planned_child(api, spec):
    for child in planned(model(**spec), Observed()).objects:
        child["metadata"]["namespace"] = api.namespace

        taken = api.of(child["kind"]).server_side_apply(
            body=child, namespace=api.namespace, field_manager=names.FIELD_MANAGER, dry_run="All"
        )

        assert taken.to_dict()["metadata"]["annotations"] == child["metadata"]["annotations"]


def test_a_planned_status_is_stored_unchanged(api, operator):
    # The operator of the other tests would write its own status.
    with operator.held():
        kept_to_the_letter(api)


def kept_to_the_letter(api):
    of = api.apply(resource("digits", model=URI))
    container = ContainerObserved(
        "runtime",
        waiting_reason="CrashLoopBackOff",
        last_terminated_exit_code=3,
        last_terminated_at=NOW,
    )
    crashed = planned(model(), observed(unready("p", model(), runtime=container))).status
    status = planned(model(), serving(model(), status=crashed)).status
    body = {**resource("digits"), "status": status}
    del body["spec"]

    def write() -> dict[str, Any]:
        return (
            api.of("InferenceModel")
            .status.server_side_apply(
                body=body,
                name="digits",
                namespace=api.namespace,
                field_manager=names.STATUS_FIELD_MANAGER,
            )
            .to_dict()
        )

    first, second = write(), write()

    assert first["status"] == status
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert second["metadata"]["generation"] == of["metadata"]["generation"]
