"""Manifests of other projects, which together have every field that `moorage convert` declares."""

from typing import Any

KSERVE, RUNTIMES = "serving.kserve.io/v1beta1", "serving.kserve.io/v1alpha1"
SELDON = "mlops.seldon.io/v1alpha1"


def kserve(predictor: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """An InferenceService with the predictor."""
    return {
        "apiVersion": KSERVE,
        "kind": "InferenceService",
        "metadata": {"name": "iris"},
        "spec": {"predictor": predictor, **spec},
    }


def marked(resource: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """The resource with more metadata."""
    return {**resource, "metadata": {**resource["metadata"], **metadata}}


def serving_runtime(kind: str = "ClusterServingRuntime", **spec: Any) -> dict[str, Any]:
    """A runtime of KServe."""
    container = {"name": "kserve-container", "image": "registry.example/server:1"}
    whole = {"containers": [container], **spec}
    metadata = {"name": "own-server"}
    return {"apiVersion": RUNTIMES, "kind": kind, "metadata": metadata, "spec": whole}


def seldon(**spec: Any) -> dict[str, Any]:
    """A Model of Seldon Core 2."""
    return {
        "apiVersion": SELDON,
        "kind": "Model",
        "metadata": {"name": "iris"},
        "spec": {"storageUri": "gs://models/iris", **spec},
    }


SIDE = {"name": "side", "image": "registry.example/side:1"}
MODEL = {"modelFormat": {"name": "onnx"}, "storageUri": "s3://models/iris"}
HEAD = {
    "namespace": "models",
    "labels": {"team": "risk"},
    "annotations": {"owner": "risk"},
    "ownerReferences": [{"kind": "Team", "name": "risk"}],
    "finalizers": ["example.com/hold"],
}
FOREIGN: list[dict[str, Any]] = [
    marked(
        kserve(
            {
                "model": {
                    **MODEL,
                    "modelFormat": {"name": "detector", "version": "2"},
                    "protocolVersion": "grpc-v2",
                    "runtimeVersion": "v0.15",
                    "env": [{"name": "THREADS", "value": "2"}],
                    "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "2Gi"}},
                },
                "minReplicas": 1,
                "maxReplicas": 4,
                "scaleMetric": "memory",
                "scaleTarget": 70,
                "canaryTrafficPercent": 10,
                "containerConcurrency": 4,
                "timeout": 30,
                "logger": {"mode": "all"},
                "batcher": {"maxBatchSize": 8},
                "workerSpec": {"pipelineParallelSize": 2},
                "labels": {"tier": "web"},
                "annotations": {"scrape": "no"},
                "deploymentStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxSurge": 1, "maxUnavailable": "25%"},
                },
                "serviceAccountName": "reader",
                "nodeSelector": {"pool": "gpu"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "priorityClassName": "high",
                "imagePullSecrets": [{"name": "registry"}],
                "volumes": [{"name": "cache", "emptyDir": {}}],
            },
            transformer={"containers": [SIDE]},
            explainer={"containers": [SIDE]},
        ),
        **HEAD,
    ),
    marked(
        kserve({"model": {**MODEL, "runtime": "triton"}, "minReplicas": 2}),
        annotations={
            "serving.kserve.io/stop": "true",
            "serving.kserve.io/enable-prometheus-scraping": "true",
        },
    ),
    marked(
        kserve({"sklearn": {"storageUri": "pvc://models/iris"}, "maxReplicas": 3}),
        annotations={
            "serving.kserve.io/metric": "memory",
            "serving.kserve.io/targetUtilizationPercentage": "60",
        },
    ),
    kserve(
        {
            "model": {
                "modelFormat": {"name": "onnx"},
                "storage": {
                    "key": "minio",
                    "path": "iris",
                    "schemaPath": "schema.json",
                    "parameters": {"type": "s3", "bucket": "models"},
                },
            },
            "minReplicas": 0,
            "maxReplicas": 4,
            "autoScaling": {
                "metrics": [
                    {
                        "type": "External",
                        "external": {
                            "metric": {
                                "backend": "prometheus",
                                "serverAddress": "http://prometheus:9090",
                                "query": "sum(rate(requests[1m]))",
                            },
                            "target": {"type": "Value", "value": "5"},
                        },
                    }
                ],
            },
        }
    ),
    kserve(
        {
            "containers": [
                SIDE,
                {
                    "name": "kserve-container",
                    "image": "registry.example/own:1",
                    "command": ["serve"],
                    "args": ["--dir=/mnt/models"],
                    "env": [{"name": "STORAGE_URI", "value": "s3://models/own"}],
                    "ports": [{"name": "http1", "containerPort": 9000}],
                    "readinessProbe": {"httpGet": {"path": "/ready", "port": "http1"}},
                    "workingDir": "/srv",
                },
            ],
        }
    ),
    kserve(
        {
            "model": {
                "modelFormat": {"name": "own"},
                "image": "registry.example/own:1",
                "command": ["serve"],
                "args": ["--dir=/mnt/models"],
                "ports": [{"containerPort": 9000}],
            },
            "storageUris": [{"uri": "s3://models/own", "mountPath": "/mnt/models"}],
        }
    ),
    marked(
        serving_runtime(
            "ServingRuntime",
            supportedModelFormats=[
                {"name": "sklearn", "version": "1", "autoSelect": True, "priority": 2},
                {"name": "sklearn", "version": "2", "priority": 3},
            ],
            protocolVersions=["v1", "grpc-v2"],
            nodeSelector={"pool": "gpu"},
            labels={"tier": "web"},
            annotations={"scrape": "no"},
            disabled=True,
            multiModel=True,
            grpcEndpoint="port:8085",
            builtInAdapter={"serverType": "mlserver"},
            replicas=2,
            storageHelper={"disabled": True},
            workerSpec={"pipelineParallelSize": 2},
        ),
        **HEAD,
    ),
    serving_runtime(
        containers=[
            {
                "name": "kserve-container",
                "image": "registry.example/server:1",
                "command": ["serve"],
                "args": ["--name={{.Name}}"],
                "env": [{"name": "DIR", "value": "/mnt/models"}],
                "resources": {"requests": {"cpu": "1"}},
                "ports": [{"containerPort": 9000}, {"name": "grpc", "containerPort": 9001}],
            }
        ],
    ),
    serving_runtime(httpDataEndpoint="port:9000", grpcDataEndpoint="port:9001"),
    marked(
        seldon(
            secretName="store",
            artifactVersion=3,
            requirements=["python"],
            memory="1Gi",
            replicas=2,
            schemaUri="gs://models/schema",
            parameters=[{"name": "depth", "value": "3"}],
            logger={"percent": 10},
            explainer={"type": "anchor", "modelRef": "iris"},
            llm={"modelRef": "iris"},
            dataflow={"cleanTopicsOnDelete": True},
            preloaded=True,
            dedicated=False,
        ),
        **HEAD,
    ),
    seldon(modelType="mlserver", replicas=0),
    seldon(server="triton", requirements=["onnx"], minReplicas=1, maxReplicas=3),
    seldon(minReplicas=2),
]
CONFIG_PBTXT = """\
# A detector for two GPUs.
name: "Detector"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "image", data_type: TYPE_FP32, format: FORMAT_NCHW, dims: [ 3, -1, 32 ] },
  { name: "label" data_type: TYPE_STRING dims: 1 }
]
output { name: 'boxes' data_type: TYPE_INT64 dims: [ 0x10, 4 ] label_filename: "la" "bels.txt" }
instance_group [ { kind: KIND_GPU; count: 2; gpus: [ 0, 1 ] } ]
dynamic_batching < preferred_batch_size: [ 4, 8 ] >
parameters { key: "threshold" value { string_value: "0.5" } }
"""
MODEL_SETTINGS: dict[str, Any] = {
    "name": "Iris",
    "implementation": "mlserver_sklearn.SKLearnModel",
    "max_batch_size": 8,
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4], "parameters": {"tag": "a"}}],
    "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1]}],
    "parameters": {"uri": "./model.joblib", "version": "v1", "content_type": "np"},
}
