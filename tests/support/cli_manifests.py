"""Specs that the API server and `moorage lint` refuse, with the path of the field."""

from typing import Any

URI = {"uri": "configmap://files"}
TENSORFLOW = {"model": URI, "protocol": "TensorFlowServing"}
OPENAI: dict[str, Any] = {"protocol": "OpenAI", "runtime": {"image": "vllm:1"}}
PLAIN: dict[str, Any] = {
    "protocol": "None", "runtime": {"image": "bento:1"}, "paths": {"ready": "/readyz"},
}  # fmt: skip
WEB = {"parentRefs": [{"name": "web"}]}
TENSOR = {"name": "x", "datatype": "FP32", "shape": [1], "data": [0]}


def tested(spec: dict[str, Any], test: dict[str, Any]) -> dict[str, Any]:
    """The spec with one smoke test."""
    return {**spec, "smokeTests": {"tests": [{"name": "t", **test}]}}


def expecting(expectation: dict[str, Any]) -> dict[str, Any]:
    """A spec with a smoke test in JSON that expects this."""
    return tested(OPENAI, {"request": {"body": {}}, "expect": [expectation]})


WITHOUT_QUERY = {"type": "Prometheus", "serverAddress": "http://p", "target": 1}
QUERY = {**WITHOUT_QUERY, "query": "q"}


def by(*metrics: dict[str, Any]) -> dict[str, Any]:
    """`spec.scaling` with these metrics."""
    return {"maxReplicas": 2, "metrics": list(metrics)}


# A spec, the path of the field, and a part of the message, which is the rule's.
BREAKS_A_RULE: list[tuple[dict[str, Any], str, str]] = [
    ({"replicas": 1}, "spec", "nothing to serve"),
    ({"model": {}}, "spec", "or set runtime.image if the image contains the model"),
    ({"model": {"uri": "ftp://bucket/key"}}, "spec.model.uri", "must be pvc://CLAIM/PATH"),
    ({"model": {"uri": "s3://Bucket/key"}}, "spec.model.uri", "must be s3://BUCKET/PATH"),
    ({"model": {"uri": "https://host/"}}, "spec.model.uri", "must be https://HOST/PATH/FILE"),
    ({"model": {**URI, "download": {}}}, "spec.model", "only to a downloaded model"),
    ({"model": {"uri": "configmap://a/b"}}, "spec.model.uri", "without a path"),
    ({"model": {"uri": "s3://bucket/key?zone=a"}}, "spec.model.uri", "?region=REGION&endpoint="),
    ({"model": {"uri": "gs://Bucket/key"}}, "spec.model.uri", "must be gs://BUCKET/PATH"),
    ({"model": {"uri": "hf://iris"}}, "spec.model.uri", "must be hf://OWNER/NAME"),
    ({"model": {"uri": "oci://ghcr.io/a/b"}}, "spec.model.uri", "must be oci://REGISTRY/NAME:TAG"),
    ({"model": {"uri": "https://u:p@host/a"}}, "spec.model.uri", "without a user name"),
    ({"model": {"uri": "oci://r/a:1?path=../b"}}, "spec.model.uri", "'.' or '..' segments"),
    (
        {"model": {**URI, "credentials": {"secretName": "s"}}},
        "spec.model",
        "credentials, download and files apply only to a downloaded model",
    ),
    (
        {"model": {**URI, "files": {"include": ["*.onnx"]}}},
        "spec.model",
        "credentials, download and files apply only to a downloaded model",
    ),
    (
        {"model": URI, "objectMetadata": {"labels": {"app.kubernetes.io/name": "iris"}}},
        "spec.objectMetadata.labels",
        "the operator itself sets app.kubernetes.io/managed-by",
    ),
    (
        {"model": URI, "objectMetadata": {"annotations": {"moorage.dev/spec": "1"}}},
        "spec.objectMetadata.annotations",
        "the operator and Kubernetes itself set the annotations",
    ),
    ({"model": {"uri": "azblob://Big/a"}}, "spec.model.uri", "must be azblob://ACCOUNT"),
    ({"model": {"uri": "configmap://a\n"}}, "spec.model.uri", "valid ConfigMap name"),
    ({"model": {"uri": "pvc://Claim/a"}}, "spec.model.uri", "valid PersistentVolumeClaim name"),
    ({"model": {"uri": "pvc://claim/../a"}}, "spec.model.uri", "must not contain '.' or '..'"),
    ({"model": {"uri": "pvc://claim/a/."}}, "spec.model.uri", "must not contain '.' or '..'"),
    ({"model": {**URI, "name": "o/m"}}, "spec", "set protocol to OpenAI if"),
    ({"model": {**URI, "name": "m:8b"}, "protocol": "Auto"}, "spec", "in URL paths"),
    (
        {"model": {"name": "o/m"}, "runtime": {"name": "r"}, "protocol": "OpenInference"},
        "spec",
        "model.name must have only letters",
    ),
    ({"model": URI, "paths": {"ready": "no slash"}}, "spec.paths.ready", "begins with"),
    ({"model": URI, "paths": {"live": "/a b"}}, "spec.paths.live", "no spaces"),
    (
        {"model": URI, "paths": {"modelReady": "/%zz"}},
        "spec.paths.modelReady",
        "such as /v2/health/ready",
    ),
    (
        {"model": URI, "transport": "GRPC", "paths": {"metadata": "/m"}},
        "spec",
        "paths.metadata is an HTTP path",
    ),
    ({**TENSORFLOW, "transport": "GRPC"}, "spec", "set transport to HTTP"),
    (
        {**TENSORFLOW, "model": {**URI, "version": "v1"}},
        "spec",
        "model.version must be a whole number",
    ),
    (
        {**TENSORFLOW, "health": {"readinessTarget": "Server"}},
        "spec",
        "no server readiness endpoint",
    ),
    ({"model": URI, "rollout": {"maxSurge": 0}}, "spec.rollout", "cannot replace a pod"),
    (
        {"model": URI, "rollout": {"maxSurge": 0, "maxUnavailable": "0%"}},
        "spec.rollout",
        "set maxSurge to 1",
    ),
    (
        {"model": URI, "rollout": {"strategy": "Recreate", "maxSurge": 1}},
        "spec.rollout",
        "apply only to strategy RollingUpdate",
    ),
    ({"model": URI, "rollout": {"maxSurge": "0%"}}, "spec.rollout", "set maxSurge to 1"),
    (
        {"model": URI, "rollout": {"strategy": "Recreate", "maxUnavailable": 1}},
        "spec.rollout",
        "apply only to strategy RollingUpdate",
    ),
    (
        {"model": URI, "rollout": {"blueGreen": {"keepSeconds": 60}}},
        "spec.rollout",
        "set strategy to BlueGreen",
    ),
    (
        {"model": URI, "rollout": {"strategy": "Canary"}},
        "spec",
        "set route.parentRefs",
    ),
    (
        {"model": URI, "rollout": {"canary": {"keepSeconds": 60}}},
        "spec",
        "remove rollout.canary",
    ),
    ({"model": URI, "route": {"hostnames": ["a"]}}, "spec.route", "set parentRefs"),
    (
        {"model": URI, "route": {**WEB, "hostnames": ["192.0.2.7"]}},
        "spec.route.hostnames[0]",
        "must be a DNS name, not an IP address",
    ),
    (
        {"model": URI, "route": {"ingress": {}}, "rollout": {"strategy": "Canary"}},
        "spec",
        "set route.parentRefs",
    ),
    (
        {"model": URI, "route": {**WEB, "grpc": {"hostnames": ["g.a"]}}},
        "spec.route",
        "set hostnames together with grpc",
    ),
    (
        {"model": URI, "route": {**WEB, "hostnames": ["*.a"], "grpc": {"hostnames": ["g.a"]}}},
        "spec.route",
        "must have no host in common",
    ),
    (
        {"model": URI, "route": {**WEB, "hostnames": ["b.a"], "grpc": {"hostnames": ["*.a"]}}},
        "spec.route",
        "must have no host in common",
    ),
    (
        {
            "model": URI,
            "route": {"ingress": {}, "hostnames": ["a"], "grpc": {"hostnames": ["g.a"]}},
        },
        "spec.route",
        "an Ingress carries only HTTP",
    ),
    (
        {
            "model": URI,
            "route": {"parentRefs": [{"name": "web"}]},
            "rollout": {
                "strategy": "Canary",
                "canary": {"steps": [{"weight": 50}, {"weight": 50}]},
            },
        },
        "spec.rollout.canary.steps",
        "weights of steps must increase",
    ),
    (
        {"model": URI, "runtime": {"ports": {"http": 8000, "grpc": 8000}}},
        "spec.runtime.ports",
        "must differ",
    ),
    (
        {"model": URI, "runtime": {"ports": {"grpc": 8000}}},
        "spec",
        "runtime.ports.http and runtime.ports.grpc must differ",
    ),
    (
        {"model": URI, "scaling": {"minReplicas": 3, "maxReplicas": 2}},
        "spec.scaling",
        "maxReplicas must be greater than or equal to minReplicas",
    ),
    (
        {"model": URI, "scaling": {"minReplicas": 0, "maxReplicas": 2}},
        "spec.scaling",
        "minReplicas 0 requires a metric of type Prometheus",
    ),
    (
        {"model": URI, "scaling": by({"type": "Pods", "target": 1})},
        "spec.scaling.metrics[0]",
        "name must be set with type Pods",
    ),
    *(
        (
            {"model": URI, "scaling": by({"type": "Pods", "target": 1, "name": name})},
            "spec.scaling.metrics[0].name",
            "must not contain / or %",
        )
        for name in ("asked/s", "asked%", "..")
    ),
    (
        {"model": URI, "scaling": by(WITHOUT_QUERY)},
        "spec.scaling.metrics[0]",
        "query must be set with type Prometheus",
    ),
    (
        {"model": URI, "scaling": by({**WITHOUT_QUERY, "type": "CPU"})},
        "spec.scaling.metrics[0]",
        "serverAddress must be set with type Prometheus",
    ),
    (
        {"model": URI, "scaling": by(QUERY, {"type": "Pods", "target": 1, "name": "asked"})},
        "spec.scaling",
        "Pods and Prometheus cannot be combined",
    ),
    (
        {"model": {"uri": "s3://models/iris", "imageVolume": "Never"}},
        "spec.model",
        "set uri to oci://REGISTRY/NAME:TAG",
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
        "remove credentials, download and files and set imagePullSecrets",
    ),
    ({**OPENAI, "transport": "GRPC"}, "spec", "require transport HTTP"),
    (
        {"model": URI, "protocol": "OpenAI"},
        "spec",
        "set runtime.image, runtime.name or model.format",
    ),
    ({**OPENAI, "model": {"version": "1"}}, "spec", "model.version has no effect"),
    ({**OPENAI, "paths": {"metadata": "/m"}}, "spec", "paths.metadata has no effect"),
    ({**OPENAI, "contract": {"inputs": [{"name": "x"}]}}, "spec", "contract cannot be compared"),
    (tested(OPENAI, {"inputs": [TENSOR]}), "spec", "smokeTests cannot send inputs"),
    ({**PLAIN, "paths": {}}, "spec", "paths.ready is required with protocol None"),
    (
        {**PLAIN, "paths": {"ready": "/r", "modelReady": "/m"}},
        "spec",
        "paths.modelReady has no effect with protocol None",
    ),
    (
        tested(PLAIN, {"request": {"body": {}}}),
        "spec",
        "must have a path unless protocol is OpenAI",
    ),
    (
        {**tested({"model": URI}, {"request": {"path": "/p", "body": {}}}), "transport": "GRPC"},
        "spec",
        "requires transport HTTP",
    ),
    (
        tested(OPENAI, {}),
        "spec.smokeTests.tests[0]",
        "either inputs for tensors, or request for JSON",
    ),
    (
        tested({"model": URI}, {"inputs": [TENSOR], "request": {"path": "/p", "body": {}}}),
        "spec.smokeTests.tests[0]",
        "either inputs for tensors, or request for JSON",
    ),
    (
        tested(OPENAI, {"request": {"body": {}}, "outputs": [{"name": "y", "data": [1]}]}),
        "spec.smokeTests.tests[0]",
        "outputs must go with inputs",
    ),
    (
        tested({"model": URI}, {"inputs": [TENSOR], "expect": [{"jsonPath": "a", "value": 1}]}),
        "spec.smokeTests.tests[0]",
        "expect must go with request",
    ),
    (tested(OPENAI, {"request": {}}), "spec.smokeTests.tests[0].request", "body is required"),
    (
        tested(OPENAI, {"request": {"method": "GET", "body": {}}}),
        "spec.smokeTests.tests[0].request",
        "must be absent with method GET",
    ),
    (
        expecting({"jsonPath": "a", "pattern": "(?=a)"}),
        "spec.smokeTests.tests[0].expect[0].pattern",
        "RE2's syntax",
    ),
    (
        expecting({"jsonPath": "a", "pattern": "("}),
        "spec.smokeTests.tests[0].expect[0].pattern",
        "RE2's syntax",
    ),
]
# The message is the tool's; the API server's differs.
BREAKS_THE_SCHEMA: list[tuple[dict[str, Any], str, str]] = [
    ({"model": {"uri": None}}, "spec", "nothing to serve"),
    ({"model": {**URI, "version": 3}}, "spec.model.version", "must be of type string"),
    ({"model": {**URI, "name": "a b"}}, "spec.model.name", "must match"),
    ({"model": {**URI, "version": "a/b"}}, "spec.model.version", "must match"),
    ({"model": {**URI, "name": "a\n"}}, "spec.model.name", "must match"),
    (
        {"model": URI, "contract": {"inputs": [{"name": "a", "datatype": "float"}]}},
        "spec.contract.inputs[0].datatype",
        "'float' is invalid",
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
    (
        {"model": URI, "rollout": {"maxUnavailable": "half"}},
        "spec.rollout.maxUnavailable",
        "'half' is invalid",
    ),
    ({"model": URI, "protocol": "SOAP"}, "spec.protocol", "must be one of Auto, OpenInference"),
    ({"model": URI, "health": {"periodSeconds": 0}}, "spec.health.periodSeconds", "minimum of 1"),
    ({"model": URI, "replicas": True}, "spec.replicas", "True is invalid"),
    (
        {"model": URI, "runtime": {"resources": {"limits": {"memory": "1GB"}}}},
        "spec.runtime.resources.limits.memory",
        "'1GB' is invalid",
    ),
    (
        expecting({"jsonPath": "a"}),
        "spec.smokeTests.tests[0].expect[0]",
        "exactly one of value, pattern",
    ),
    (
        expecting({"jsonPath": "a", "value": 1, "exists": True}),
        "spec.smokeTests.tests[0].expect[0]",
        "exactly one of value, pattern",
    ),
    (
        expecting({"jsonPath": "a[*]", "value": 1}),
        "spec.smokeTests.tests[0].expect[0].jsonPath",
        "'a[*]' is invalid",
    ),
    (
        {"model": URI, "scaling": by({"type": "GPU", "target": 1})},
        "spec.scaling.metrics[0].type",
        "must be one of CPU, Memory, Pods, Prometheus",
    ),
    ({"model": URI, "replica": 2}, "spec.replica", "did you mean replicas?"),
    ({"model": {**URI, "url": "x"}}, "spec.model.url", "did you mean uri?"),
]
REFUSED = [*BREAKS_A_RULE, *BREAKS_THE_SCHEMA]


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    """An InferenceModel with the spec."""
    return {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "checked"},
        "spec": spec,
    }
