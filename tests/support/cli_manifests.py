"""Specs that the API server refuses, and where: one table for it and for `moorage lint`."""

from typing import Any

URI = {"uri": "configmap://files"}
TENSORFLOW = {"model": URI, "protocol": "TensorFlowServing"}

# A spec, the field's path, and words of lint's sentence.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"replicas": 1}, "spec", "nothing to serve"),
    ({"model": {}}, "spec", "or runtime.image when the image holds the model"),
    ({"model": {"uri": None}}, "spec", "nothing to serve"),
    ({"model": {"uri": "ftp://bucket/key"}}, "spec.model.uri", "write pvc://CLAIM/PATH"),
    ({"model": {"uri": "s3://Bucket/key"}}, "spec.model.uri", "write s3://BUCKET/PATH"),
    ({"model": {"uri": "https://host/"}}, "spec.model.uri", "write https://HOST/PATH/FILE"),
    ({"model": {**URI, "download": {}}}, "spec.model", "for a model that is fetched"),
    ({"model": {"uri": "configmap://a/b"}}, "spec.model.uri", "without a path"),
    ({"model": {"uri": "configmap://a\n"}}, "spec.model.uri", "ConfigMap's name"),
    ({"model": {"uri": "pvc://Claim/a"}}, "spec.model.uri", "PersistentVolumeClaim's name"),
    ({"model": {"uri": "pvc://claim/../a"}}, "spec.model.uri", "without '.' and '..'"),
    ({"model": {"uri": "pvc://claim/a/."}}, "spec.model.uri", "without '.' and '..'"),
    ({"model": {**URI, "version": 3}}, "spec.model.version", "expected type string, got 3"),
    ({"model": {**URI, "name": "a/b"}}, "spec.model.name", "does not match"),
    ({"model": {**URI, "name": "a\n"}}, "spec.model.name", "does not match"),
    ({"model": URI, "endpoints": {"ready": "no slash"}}, "spec.endpoints.ready", "begins with"),
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
    ({**TENSORFLOW, "transport": "GRPC"}, "spec", "set transport to HTTP"),
    ({**TENSORFLOW, "model": {**URI, "version": "v1"}}, "spec", "model.version as a whole number"),
    ({**TENSORFLOW, "health": {"readinessTarget": "Server"}}, "spec", "no readiness of a server"),
    (
        {"model": URI, "contract": {"inputs": [{"name": "a", "datatype": "float"}]}},
        "spec.contract.inputs[0].datatype",
        "got 'float'",
    ),
    (
        {"model": URI, "contract": {"inputs": [{"datatype": "FP32"}]}},
        "spec.contract.inputs[0]",
        "'name' is a required property",
    ),
    (
        {"model": URI, "contract": {"inputs": [{"name": "a"}, {"name": "a"}]}},
        "spec.contract.inputs[1]",
        "duplicate name",
    ),
    ({"model": URI, "rollout": {"maxSurge": 0}}, "spec.rollout", "no pod could be replaced"),
    (
        {"model": URI, "rollout": {"maxSurge": 0, "maxUnavailable": "0%"}},
        "spec.rollout",
        "write maxSurge 1",
    ),
    (
        {"model": URI, "rollout": {"strategy": "Recreate", "maxSurge": 1}},
        "spec.rollout",
        "belong to strategy RollingUpdate",
    ),
    (
        {"model": URI, "rollout": {"blueGreen": {"keepSeconds": 60}}},
        "spec.rollout",
        "set strategy to BlueGreen",
    ),
    (
        {"model": URI, "rollout": {"strategy": "Canary"}},
        "spec.rollout",
        "set canary.parentRefs",
    ),
    (
        {
            "model": URI,
            "rollout": {
                "strategy": "Canary",
                "canary": {
                    "parentRefs": [{"name": "web"}],
                    "steps": [{"weight": 50}, {"weight": 50}],
                },
            },
        },
        "spec.rollout.canary.steps",
        "write steps of growing weight",
    ),
    (
        {"model": URI, "rollout": {"maxUnavailable": "half"}},
        "spec.rollout.maxUnavailable",
        "'half' does not match",
    ),
    ({"model": URI, "protocol": "SOAP"}, "spec.protocol", "expected one of Auto, OpenInference"),
    ({"model": URI, "runtime": {"ports": {"grpc": 8000}}}, "spec.runtime.ports", "must differ"),
    ({"model": URI, "health": {"periodSeconds": 0}}, "spec.health.periodSeconds", "minimum of 1"),
    ({"model": URI, "replicas": True}, "spec.replicas", "expected type integer, got True"),
    (
        {"model": URI, "runtime": {"resources": {"limits": {"memory": "1GB"}}}},
        "spec.runtime.resources.limits.memory",
        "'1GB' does not match",
    ),
    (
        {"model": URI, "scaling": {"minReplicas": 3, "maxReplicas": 2, "target": 1}},
        "spec.scaling",
        "set maxReplicas to at least minReplicas",
    ),
    (
        {"model": URI, "scaling": {"minReplicas": 0, "maxReplicas": 2, "target": 1}},
        "spec.scaling",
        "only metric Prometheus can wake",
    ),
    (
        {"model": URI, "scaling": {"maxReplicas": 2, "target": 1, "metric": "Pods"}},
        "spec.scaling",
        "set metricName with metric Pods",
    ),
    *(
        (
            {
                "model": URI,
                "scaling": {"maxReplicas": 2, "target": 1, "metric": "Pods", "metricName": name},
            },
            "spec.scaling.metricName",
            "without / and %",
        )
        for name in ("asked/s", "asked%", "..")
    ),
    (
        {"model": URI, "scaling": {"maxReplicas": 2, "target": 1, "metric": "Prometheus"}},
        "spec.scaling",
        "set prometheus.serverAddress",
    ),
    ({"model": URI, "replica": 2}, "spec.replica", "did you mean replicas?"),
    ({"model": {**URI, "url": "x"}}, "spec.model.url", "did you mean uri?"),
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
]


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    """An InferenceModel with the spec."""
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "checked"},
        "spec": spec,
    }
