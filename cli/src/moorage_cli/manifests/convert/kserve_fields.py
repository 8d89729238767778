"""The fields of KServe's InferenceService, and where each one goes; data only.

In `spec.predictor.*`, the `*` is `model`, or the framework in the older shape.

Sources: KServe, "Control Plane API Reference" (serving.kserve.io/v1beta1), "Annotations".
"""

from .fields import Field
from .metadata import FIELDS as METADATA

__all__ = ["FIELDS", "FRAMEWORKS", "GIVEN", "STOP", "UNREAD"]

# Each is a field of the predictor in the older shape, and the name of a format.
FRAMEWORKS = (
    "sklearn", "xgboost", "lightgbm", "tensorflow", "pytorch", "onnx", "triton", "huggingface",
    "pmml", "paddle",
)  # fmt: skip
STOP = "serving.kserve.io/stop"
_KNATIVE = "Moorage uses Deployments, not Knative"

FIELDS: tuple[Field, ...] = (
    *METADATA,
    Field(f"metadata.annotations[{STOP}]", "spec.suspend"),
    Field(
        "metadata.annotations[serving.kserve.io/targetUtilizationPercentage]",
        "spec.scaling.metrics",
    ),
    Field("metadata.annotations[serving.kserve.io/metric]", "spec.scaling.metrics"),
    Field(
        "metadata.annotations[serving.kserve.io/enable-prometheus-scraping]",
        remark="see the reference of the runtime's metrics for a PodMonitor",
    ),
    Field(
        "spec.predictor.*.storageUri",
        "spec.model.uri",
        "Azure, oci:// and oci+fetch:// change; see stores",
    ),
    Field(
        "spec.predictor.*.storage",
        "spec.model.uri",
        "with a type and a bucket in its parameters",
    ),
    Field(
        "spec.predictor.*.storage.key",
        remark="create a Secret with the keys of the store and set spec.model.credentials",
    ),
    Field("spec.predictor.*.storage.schemaPath", remark="write the tensors into spec.contract"),
    Field(
        "spec.predictor.model.modelFormat.name",
        "spec.model.format",
        "not needed for the formats of the bundled runtime",
    ),
    Field(
        "spec.predictor.model.modelFormat.version",
        remark="a format has no version; make it part of the name of the format",
    ),
    Field("spec.predictor.model.runtime", "spec.runtime.name", "an InferenceRuntime"),
    Field("spec.predictor.*.protocolVersion", "spec.protocol, spec.transport"),
    Field(
        "spec.predictor.*.runtimeVersion",
        remark="set the tag in spec.runtime.image or in an InferenceRuntime",
    ),
    Field("spec.predictor.*.image", "spec.runtime.image"),
    Field("spec.predictor.*.command", "spec.runtime.command", "with an image or a runtime"),
    Field("spec.predictor.*.args", "spec.runtime.args", "with an image or a runtime"),
    Field("spec.predictor.*.env", "spec.runtime.env"),
    Field("spec.predictor.*.resources", "spec.runtime.resources"),
    Field("spec.predictor.*.ports", "spec.runtime.ports"),
    Field(
        "spec.predictor.containers",
        "spec.runtime, spec.podTemplate.spec.containers",
        "kserve-container, or the first one, is the server",
    ),
    Field("spec.predictor.minReplicas", "spec.replicas, spec.scaling.minReplicas"),
    Field("spec.predictor.maxReplicas", "spec.scaling.maxReplicas"),
    Field("spec.predictor.scaleMetric", "spec.scaling.metrics", "cpu, memory, concurrency"),
    Field("spec.predictor.scaleTarget", "spec.scaling.metrics"),
    Field(
        "spec.predictor.autoScaling", "spec.scaling.metrics", "CPU, memory and Prometheus queries"
    ),
    Field(
        "spec.predictor.canaryTrafficPercent",
        remark="a canary needs a Gateway; set spec.route.parentRefs, rollout.strategy Canary "
        "and rollout.canary.steps with this weight",
    ),
    Field("spec.predictor.deploymentStrategy.type", "spec.rollout.strategy"),
    Field("spec.predictor.deploymentStrategy.rollingUpdate.maxSurge", "spec.rollout.maxSurge"),
    Field(
        "spec.predictor.deploymentStrategy.rollingUpdate.maxUnavailable",
        "spec.rollout.maxUnavailable",
    ),
    Field(
        "spec.predictor.containerConcurrency",
        remark="the bundled runtime limits its queue with MOORAGE_QUEUE_SIZE in spec.runtime.env",
    ),
    Field(
        "spec.predictor.timeout",
        remark="set MOORAGE_REQUEST_TIMEOUT_SECONDS in spec.runtime.env, or the timeout of your "
        "gateway",
    ),
    Field("spec.predictor.labels", "spec.podTemplate.metadata.labels"),
    Field("spec.predictor.annotations", "spec.podTemplate.metadata.annotations"),
    Field(
        "spec.predictor.serviceAccountName",
        "spec.serviceAccountName",
        "its storage Secret goes to spec.model.credentials",
    ),
    Field("spec.predictor.nodeSelector", "spec.nodeSelector"),
    Field("spec.predictor.tolerations", "spec.tolerations"),
    Field("spec.predictor.affinity", "spec.affinity"),
    Field("spec.predictor.priorityClassName", "spec.priorityClassName"),
    Field("spec.predictor.imagePullSecrets", "spec.imagePullSecrets"),
    Field("spec.predictor.volumes", "spec.podTemplate.spec.volumes", "other pod fields likewise"),
    Field("spec.predictor.logger", remark="log requests at your gateway or in the client"),
    Field(
        "spec.predictor.batcher",
        remark="the bundled runtime batches by itself, and model.yaml sets the limits",
    ),
    Field("spec.predictor.workerSpec", remark="a model runs on one node"),
    Field(
        "spec.predictor.storageUris",
        "spec.model.uri",
        "one location, at /mnt/models; combine several in one folder",
    ),
    Field(
        "spec.transformer",
        remark="write a Python model that transforms and predicts, or serve the transformer as a "
        "model of its own",
    ),
    Field("spec.explainer", remark="serve the explainer as a model of its own"),
)

# Annotations and labels whose effect Moorage has anyway: values, and the reason.
GIVEN = {
    "serving.kserve.io/deploymentMode": (
        ("RawDeployment", "Standard"),
        "Moorage always uses Deployments",
    ),
    "serving.kserve.io/autoscalerClass": (
        ("hpa", "keda"),
        "the metrics decide between an HPA and KEDA",
    ),
    "networking.kserve.io/visibility": (
        ("cluster-local",),
        "models have no route outside the cluster unless spec.route is set",
    ),
}
# Annotations and labels that only KServe or Knative read, by their prefixes.
UNREAD = {
    "serving.kserve.io/": "only KServe reads it",
    "serving.kubeflow.org/": "only KServe reads it",
    "internal.serving.kserve.io/": "only KServe reads it",
    "autoscaling.knative.dev/": _KNATIVE,
    "serving.knative.dev/": _KNATIVE,
    "networking.knative.dev/": _KNATIVE,
    "autoscaling.internal.knative.dev/": _KNATIVE,
    "queue.sidecar.serving.knative.dev/": _KNATIVE,
    "networking.kserve.io/": "set spec.route",
}
