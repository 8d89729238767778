"""A real API server reads the CRD: what it refuses, and that it keeps whatever it takes."""

import json
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from moorage_operator import names
from moorage_operator.api.v1alpha1 import parse
from moorage_operator.state import Observed
from moorage_operator.watched import ContainerObserved
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
    """The API server's sentence."""
    with pytest.raises(ApiException) as refused:
        api.apply(resource(**spec))
    return json.loads(refused.value.body)["message"]


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        ({"replicas": 1}, "spec", "set model.uri, such as pvc://CLAIM/PATH or s3://BUCKET/PATH"),
        ({"model": {}}, "spec", "or runtime.image when the image holds the model"),
        ({"model": {"uri": "ftp://a/b"}}, "spec.model.uri", "'ftp://a/b' has no scheme"),
        ({"model": {"uri": "s3://B/key"}}, "spec.model.uri", "write s3://BUCKET/PATH, after it"),
        (
            {"model": {"uri": "s3://bucket/key?zone=a"}},
            "spec.model.uri",
            "after it ?region= and endpoint=",
        ),
        ({"model": {"uri": "https://u:p@host/a"}}, "spec.model.uri", "without a user"),
        (
            {"model": {**URI, "credentials": {"secretName": "s"}}},
            "spec.model",
            "credentials and download are for a model that is fetched",
        ),
        (
            {"model": {"uri": "s3://bucket/key", "download": {"sizeLimit": "lots"}}},
            "spec.model.download.sizeLimit",
            "should match",
        ),
        ({"model": {"uri": "configmap://a/b"}}, "spec.model.uri", "without a path"),
        ({"model": {"uri": "pvc://Claim/a"}}, "spec.model.uri", "PersistentVolumeClaim's name"),
        ({"model": {"uri": "pvc://claim/../a"}}, "spec.model.uri", "without '.' and '..'"),
        ({"model": URI, "rollout": {"maxSurge": "0%"}}, "spec.rollout", "write maxSurge 1"),
        (
            {"model": URI, "rollout": {"strategy": "Recreate", "maxUnavailable": 1}},
            "spec.rollout",
            "belong to strategy RollingUpdate",
        ),
        ({"model": {**URI, "version": 3}}, "spec.model.version", "expected string"),
        (
            {"model": URI, "endpoints": {"ready": "no slash"}},
            "spec.endpoints.ready",
            "begins with",
        ),
        ({"model": URI, "endpoints": {"live": "/a b"}}, "spec.endpoints.live", "without spaces"),
        (
            {"model": URI, "endpoints": {"modelReady": "/%zz"}},
            "spec.endpoints.modelReady",
            "like /v2/health/ready",
        ),
        (
            {"model": URI, "transport": "GRPC", "endpoints": {"metadata": "/m"}},
            "spec",
            "endpoints.metadata is an HTTP path",
        ),
        (
            {"model": URI, "protocol": "TensorFlowServing", "transport": "GRPC"},
            "spec",
            "set transport to HTTP",
        ),
        (
            {"model": {**URI, "version": "v1"}, "protocol": "TensorFlowServing"},
            "spec",
            "as a whole number",
        ),
        (
            {
                "model": URI,
                "protocol": "TensorFlowServing",
                "health": {"readinessTarget": "Server"},
            },
            "spec",
            "no readiness of a server",
        ),
        (
            {"model": {"uri": "s3://models/iris", "imageVolume": "Never"}},
            "spec.model",
            "write a uri oci://REGISTRY/NAME:TAG",
        ),
        (
            {
                "model": {
                    "uri": "oci://registry.example/iris:1",
                    "imageVolume": "Always",
                    "credentials": {"secretName": "reader"},
                }
            },
            "spec.model",
            "write imagePullSecrets in place of credentials",
        ),
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
            {"model": URI, "smokeTests": [{"name": "a", "inputs": []}]},
            "spec.smokeTests[0].inputs",
            "at least 1 items",
        ),
        (
            {"model": URI, "smokeTests": [{"name": "a", "inputs": [{"name": "x"}]}]},
            "spec.smokeTests[0].inputs[0].data",
            "Required value",
        ),
        ({"model": URI, "protocol": "SOAP"}, "spec.protocol", '"OpenInference"'),
        (
            {"model": URI, "runtime": {"ports": {"grpc": 8000}}},
            "spec.runtime.ports",
            "must differ",
        ),
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
        ({"model": URI, "replica": 2}, "", ".spec.replica: field not declared in schema"),
    ],
)
def test_a_wrong_spec_is_refused_with_what_to_write(api, spec, path, sentence):
    said = refusal(api, **spec)

    assert path in said
    assert sentence.lower() in said.lower()


FULL = {
    "replicas": 2,
    "suspend": False,
    "model": {
        "name": "Iris.v2",
        "version": "3",
        "uri": "pvc://models/a/b",
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
    "endpoints": {"live": "/l", "ready": "/r", "modelReady": "/m?x=%20", "metadata": "/d"},
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
    "smokeTests": [
        {
            "name": "mixed",
            "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [2, 2], "data": [[1, 0.5], [2, -3]]},
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
    "smokeTestPolicy": "Enforce",
    "scaling": {
        "minReplicas": 1,
        "maxReplicas": 4,
        "metric": "Pods",
        "target": 10,
        "scaleDownAfterSeconds": 60,
        "metricName": "asked_per_second",
    },
    "disruptionBudget": "Auto",
    "networkPolicy": {"from": [{"podSelector": {"matchLabels": {"app": "shop"}}}]},
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


def test_every_field_is_kept_as_it_was_written_and_means_something_to_the_operator(api):
    kept = api.apply(resource(**FULL))

    assert kept["spec"] == FULL
    assert parse(kept).problems == ()


@pytest.mark.parametrize(
    "spec",
    [{}, {"transport": "GRPC"}, {"model": {"uri": "pvc://models/a"}, "replicas": 0}, FULL],
    ids=["config map", "grpc", "volume claim", "every field"],
)
def test_the_api_server_takes_every_planned_child(api, spec):
    for child in planned(model(**spec), Observed()).objects:
        child["metadata"]["namespace"] = api.namespace

        taken = api.of(child["kind"]).server_side_apply(
            body=child, namespace=api.namespace, field_manager=names.FIELD_MANAGER, dry_run="All"
        )

        assert taken.to_dict()["metadata"]["annotations"] == child["metadata"]["annotations"]


def test_a_planned_status_is_kept_to_the_letter_and_a_second_write_changes_nothing(api, operator):
    # The operator of the other tests would write a status of its own.
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
