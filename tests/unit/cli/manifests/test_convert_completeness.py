"""No leaf of a generated manifest gets lost silently; a result that lint refuses raises an error.

Each leaf that is free has a value of its own: text such as `t17`, or a number. It must be in the
result, or in a note whose field holds it.
"""

import json
from itertools import count

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moorage_cli.manifests.convert.conversion import ConversionError
from moorage_cli.manifests.convert.fields import parse_path
from moorage_cli.manifests.convert.kserve import convert_kserve
from moorage_cli.manifests.convert.mlserver import convert_mlserver
from moorage_cli.manifests.convert.seldon import convert_seldon
from moorage_cli.manifests.convert.serving_runtimes import convert_serving_runtime
from moorage_cli.manifests.convert.triton import convert_triton
from moorage_cli.manifests.lint import schemas
from moorage_cli.manifests.rules import holds

SCHEMAS = schemas()
# The first rule imports celpy, which raises the recursion limit; in a test, Hypothesis refuses it.
holds("true", 1)
FREE, WHOLE = "<text>", "<number>"
# Leaves with a known meaning that the result has in another form.
IMPLIED = {
    ("apiVersion",),
    ("kind",),
    ("metadata", "annotations", "serving.kserve.io/stop"),
}
IMPLIED_ENDS = {("ports", "protocol"), ("supportedModelFormats", "autoSelect")}
SETTINGS = settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip


def some(required, **optional):
    """An object with the required fields and any of the optional ones."""
    return st.fixed_dictionaries(required, optional=optional)


def a(*values):
    return st.sampled_from(values)


def few(items):
    return st.lists(items, max_size=3)


TEXT, NUMBER = st.just(FREE), st.just(WHOLE)
LABELS = st.dictionaries(a("team", "app.kubernetes.io/name", "tier"), TEXT, max_size=2)
JUNK = st.recursive(
    st.one_of(TEXT, NUMBER, st.booleans(), st.none()),
    lambda below: st.one_of(st.lists(below, max_size=2), st.dictionaries(a("a", "b"), below)),
    max_leaves=4,
)
METADATA = some(
    {"name": TEXT},
    namespace=TEXT,
    labels=LABELS,
    annotations=st.dictionaries(
        a(
            "team",
            "serving.kserve.io/stop",
            "serving.kserve.io/deploymentMode",
            "autoscaling.knative.dev/target",
            "kubectl.kubernetes.io/last-applied-configuration",
        ),
        st.one_of(TEXT, a("true", "RawDeployment")),
        max_size=3,
    ),
    finalizers=few(TEXT),
    uid=TEXT,
    managedFields=JUNK,
)
PROBE = some(
    {},
    httpGet=some({}, path=TEXT, port=st.one_of(NUMBER, a("http1", "other"))),
    periodSeconds=NUMBER,
)
PORT = some({"containerPort": NUMBER}, name=a("http1", "h2c", "grpc"), protocol=a("TCP", "UDP"))
CONTAINER = {
    "name": a("kserve-container", "side", "runtime", "transformer-container", FREE),
    "image": TEXT,
    "command": few(TEXT),
    "args": few(st.one_of(TEXT, a("--dir=/mnt/models", "{{.Name}}", "{{.Labels.x}}"))),
    "env": few(some({"name": TEXT}, value=TEXT, valueFrom=JUNK)),
    "envFrom": few(some({}, secretRef=some({"name": TEXT}))),
    "ports": few(PORT),
    "resources": some(
        {},
        requests=st.dictionaries(a("cpu", "memory"), NUMBER),
        limits=st.dictionaries(a("cpu", "nvidia.com/gpu"), NUMBER),
        claims=few(some({"name": TEXT})),
    ),
    "readinessProbe": PROBE,
    "livenessProbe": PROBE,
    "volumeMounts": few(some({"name": TEXT, "mountPath": TEXT})),
    "workingDir": TEXT,
    "unknown": JUNK,
}
POD = {
    "serviceAccountName": TEXT,
    "nodeSelector": LABELS,
    "tolerations": few(some({}, key=TEXT, operator=a("Exists"))),
    "imagePullSecrets": few(some({"name": TEXT})),
    "priorityClassName": TEXT,
    "restartPolicy": a("Always", "Never"),
    "terminationGracePeriodSeconds": NUMBER,
    "volumes": few(some({"name": TEXT}, emptyDir=st.just({}))),
    "initContainers": few(some({"name": TEXT}, image=TEXT)),
    "securityContext": some({}, fsGroup=NUMBER),
    "unknownToo": JUNK,
}
LOCATION = a(
    FREE, "s3://b/<text>", "hf://o/n:<text>", "pvc://c/<text>", "hdfs://h/<text>",
    "oci://r.example/n:<text>", "oci+fetch://r.example/n:1", "https://acme.blob.core.windows.net/models/<text>",
)  # fmt: skip
EXTENSION = {
    **CONTAINER,
    "storageUri": LOCATION,
    "protocolVersion": a("v1", "v2", "grpc-v2", "grpc-v1", FREE),
    "runtimeVersion": TEXT,
    "storage": some(
        {},
        key=TEXT,
        path=TEXT,
        schemaPath=TEXT,
        parameters=st.dictionaries(a("type", "bucket", "region"), a("s3", "hdfs", FREE)),
    ),
}
METRIC = st.one_of(
    some(
        {"type": a("Resource")},
        resource=some(
            {"name": a("cpu", "memory")},
            target=some({"type": a("Utilization", "Value")}, averageUtilization=NUMBER),
        ),
    ),
    some(
        {"type": a("External")},
        external=some(
            {},
            metric=some({"backend": a("prometheus", "x")}, serverAddress=TEXT, query=TEXT),
            target=some({"type": a("Value")}, value=NUMBER, averageValue=NUMBER),
        ),
    ),
    JUNK,
)
SERVERS: dict = {
    "model": some(
        {
            "modelFormat": some(
                {"name": a("onnx", "sklearn", "triton", "huggingface", FREE)}, version=TEXT
            )
        },
        runtime=TEXT,
        **EXTENSION,
    ),
    "sklearn": some({}, **EXTENSION),
    "containers": few(some({}, **CONTAINER)),
}
COMPONENT = dict(
    minReplicas=st.one_of(st.integers(-1, 4), TEXT),
    maxReplicas=st.one_of(st.integers(-1, 4), NUMBER),
    scaleMetric=a("cpu", "memory", "concurrency", "rps", FREE),
    scaleTarget=NUMBER,
    scaleMetricType=a("Utilization", "AverageValue"),
    autoScaling=some({}, metrics=few(METRIC), behavior=JUNK),
    canaryTrafficPercent=NUMBER,
    containerConcurrency=NUMBER,
    timeout=NUMBER,
    logger=JUNK,
    batcher=JUNK,
    workerSpec=JUNK,
    storageUris=few(some({"uri": LOCATION}, mountPath=a("/mnt/models", FREE))),
    labels=LABELS,
    annotations=LABELS,
    deploymentStrategy=some(
        {},
        type=a("Recreate", "RollingUpdate", FREE),
        rollingUpdate=some({}, maxSurge=st.one_of(NUMBER, a("20%", FREE))),
    ),
    **POD,
)
PREDICTOR = st.one_of(
    some({}, **SERVERS, **COMPONENT),
    *(some({name: server}, **COMPONENT) for name, server in SERVERS.items()),
)
KSERVE = some(
    {
        "apiVersion": a("serving.kserve.io/v1beta1"),
        "kind": a("InferenceService"),
        "metadata": METADATA,
        "spec": some({"predictor": PREDICTOR}, transformer=JUNK, explainer=JUNK, other=JUNK),
    },
    status=JUNK,
)
RUNTIME = some({
    "apiVersion": a("serving.kserve.io/v1alpha1"),
    "kind": a("ServingRuntime", "ClusterServingRuntime"),
    "metadata": METADATA,
    "spec": some(
        {"containers": few(some({}, **CONTAINER))},
        supportedModelFormats=few(
            some({"name": a("ONNX", "onnx", FREE)}, version=TEXT, autoSelect=st.booleans(),
                 priority=NUMBER)
        ),
        protocolVersions=few(a("v1", "v2", "grpc-v2")),
        httpDataEndpoint=a("port:8008", FREE),
        grpcDataEndpoint=a("port:8085", "port:99999"),
        multiModel=st.booleans(),
        disabled=st.booleans(),
        builtInAdapter=JUNK,
        labels=LABELS,
        annotations=LABELS,
        **POD,
    ),
})  # fmt: skip
SELDON = some({
    "apiVersion": a("mlops.seldon.io/v1alpha1"),
    "kind": a("Model"),
    "metadata": METADATA,
    "spec": some(
        {},
        storageUri=LOCATION,
        secretName=TEXT,
        artifactVersion=NUMBER,
        requirements=few(a("sklearn", "python", "mlserver", FREE)),
        modelType=TEXT,
        server=TEXT,
        memory=st.one_of(NUMBER, a("100Ki", FREE)),
        replicas=st.one_of(st.integers(0, 3), TEXT),
        minReplicas=st.integers(0, 3),
        maxReplicas=st.integers(0, 3),
        parameters=few(some({}, name=TEXT, value=TEXT)),
        dedicated=st.booleans(),
        preloaded=st.booleans(),
        explainer=JUNK,
        logger=JUNK,
        unknown=JUNK,
    ),
})  # fmt: skip
TENSOR = some(
    {},
    name=st.one_of(TEXT, NUMBER),
    datatype=a("FP32", FREE),
    shape=few(st.one_of(NUMBER, TEXT, a(-1, -2))),
    parameters=JUNK,
)
MLSERVER = some(
    {"name": TEXT, "implementation": TEXT},
    inputs=few(TENSOR),
    outputs=few(TENSOR),
    parameters=some({}, uri=TEXT, version=st.one_of(TEXT, NUMBER), extra=JUNK),
    max_batch_size=NUMBER,
    unknown=JUNK,
)
TRITON_TENSOR = some(
    {},
    name=TEXT,
    data_type=a("TYPE_FP32", "TYPE_INVALID"),
    dims=few(st.one_of(NUMBER, a(-1, -2))),
    is_shape_tensor=st.booleans(),
    label_filename=TEXT,
)
TRITON = some(
    {"name": TEXT},
    max_batch_size=NUMBER,
    input=few(TRITON_TENSOR),
    output=few(TRITON_TENSOR),
    instance_group=few(some({}, kind=a("KIND_GPU", "KIND_CPU"), gpus=few(NUMBER))),
    parameters=few(some({"key": TEXT})),
)


def numbered(value, numbers):
    """The value with a text or a number of its own in each free place."""
    if isinstance(value, dict):
        return {name: numbered(item, numbers) for name, item in value.items()}
    if isinstance(value, list):
        return [numbered(item, numbers) for item in value]
    if value == WHOLE:
        return 1000 + next(numbers)
    if isinstance(value, str) and FREE in value:
        return value.replace(FREE, f"t{1000 + next(numbers)}")
    return value


def leaves(value, path=()):
    if isinstance(value, dict | list) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            yield from leaves(item, (*path, name))
    elif value is not None and value not in ({}, []):
        yield path, value


def is_reported(path, value, notes):
    """Whether a note has the field or one above it, with the value."""
    for note in notes:
        at = parse_path(note.path)
        if note.path and path[: len(at)] == at:
            below = [item for _, item in leaves(note.value)]
            if note.value is None or value in below:
                return True
    return False


def is_carried(value, result):
    """Whether the result has the value, or a text with it."""
    text = str(value).rsplit("/", 1)[-1].rsplit(":", 1)[-1].lower()
    return any(text in str(item).lower() for _, item in leaves(result)) or any(
        text in str(name).lower() for path, _ in leaves(result) for name in path
    )


def check(source, conversion):
    (result,) = conversion.resources
    for path, value in leaves(source):
        ends = tuple(part for part in path if isinstance(part, str))[-2:]
        is_implied = path in IMPLIED or ends in IMPLIED_ENDS
        assert (
            is_implied or is_reported(path, value, conversion.notes) or is_carried(value, result)
        ), (path, value, yaml.safe_dump(result), [str(note) for note in conversion.notes])


def checked(source, convert):
    source = numbered(source, count())
    before = json.dumps(source)
    refusal = ""
    try:
        conversion = convert(source)
    except ConversionError as error:
        refusal = str(error)
    if refusal:
        # The whole resource is refused, and the message has a known reason.
        assert any(words in refusal for words in REFUSALS), refusal
        return
    assert json.dumps(source) == before
    check(source, conversion)


REFUSALS = (
    "spec.predictor has",
    "nothing to serve",
    "spec.containers is empty",
    "require runtime.image",
)


@SETTINGS
@given(KSERVE)
def test_every_leaf_of_an_inference_service_is_mapped_or_reported(source):
    checked(source, lambda each: convert_kserve(each, SCHEMAS))


@SETTINGS
@given(RUNTIME)
def test_every_leaf_of_a_serving_runtime_is_mapped_or_reported(source):
    checked(source, lambda each: convert_serving_runtime(each, SCHEMAS))


@SETTINGS
@given(SELDON)
def test_every_leaf_of_a_seldon_model_is_mapped_or_reported(source):
    checked(source, lambda each: convert_seldon(each, SCHEMAS))


@SETTINGS
@given(MLSERVER)
def test_every_leaf_of_the_settings_of_mlserver_is_mapped_or_reported(source):
    checked(source, lambda each: convert_mlserver(each, SCHEMAS))


def as_text(fields):
    """A message in the text format."""
    lines = []
    for name, items in fields.items():
        for item in items if isinstance(items, list) else [items]:
            if isinstance(item, dict):
                lines.append(f"{name} {{\n{as_text(item)}}}\n")
            else:
                is_symbol = name in {"data_type", "kind"}
                lines.append(f"{name}: {item if is_symbol else json.dumps(item)}\n")
    return "".join(lines)


@SETTINGS
@given(TRITON)
def test_every_leaf_of_a_triton_configuration_is_mapped_or_reported(source):
    source = numbered(source, count())

    conversion = convert_triton(as_text(source), SCHEMAS)

    check(source, conversion)
