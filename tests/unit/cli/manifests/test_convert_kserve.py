"""InferenceServices and ServingRuntimes of KServe: what they mean in the fields of Moorage."""

import pytest

from moorage_cli.manifests.convert.conversion import ConversionError, Fate
from moorage_cli.manifests.convert.kserve import convert_kserve
from moorage_cli.manifests.convert.locations import LocationError, kserve_location
from moorage_cli.manifests.convert.serving_runtimes import convert_serving_runtime
from moorage_cli.manifests.lint import schemas
from support.foreign_manifests import MODEL, kserve, marked, serving_runtime

SCHEMAS = schemas()
IMAGE = {"name": "kserve-container", "image": "registry.example/own:1"}


def spec_of(predictor, **metadata):
    return convert_kserve(marked(kserve(predictor), **metadata), SCHEMAS).resources[0]["spec"]


def notes_of(predictor, fate=Fate.LOST):
    notes = convert_kserve(kserve(predictor), SCHEMAS).notes
    return {note.path: note.sentence for note in notes if note.fate is fate}


def model(**fields):
    return {"model": {**MODEL, **fields}}


@pytest.mark.parametrize(
    ("given", "uri"),
    [
        ("s3://models/iris", "s3://models/iris"),
        ("pvc://claim/iris", "pvc://claim/iris"),
        ("https://example.com/model.onnx", "https://example.com/model.onnx"),
        ("hf://owner/name", "hf://owner/name"),
        ("hf://owner/name:refs/pr/1", "hf://owner/name:refs/pr/1"),
        ("hf://owner/name:v1.2", "hf://owner/name@v1.2"),
        (
            "oci://registry.example:5000/iris",
            "oci://registry.example:5000/iris:latest?path=models",
        ),
        ("oci://registry.example/iris:3", "oci://registry.example/iris:3?path=models"),
        (
            "https://acme.blob.core.windows.net/models/iris/1",
            "azblob://acme/models/iris/1",
        ),
        ("https://acme.blob.core.windows.net/models", "azblob://acme/models"),
    ],
)
def test_a_storage_uri_becomes_the_uri_of_the_same_store(given, uri):
    assert kserve_location(given).uri == uri


@pytest.mark.parametrize(
    ("scheme", "secrets", "more"),
    [
        ("oci", ["pull"], {}),
        ("oci+modelcar", ["pull"], {}),
        ("oci+native", ["pull"], {"imageVolume": "Always"}),
        ("oci+fetch", [], {"imageVolume": "Never"}),
        (
            "oci+fetch",
            ["pull", "other"],
            {"imageVolume": "Never", "credentials": {"secretName": "pull"}},
        ),
    ],
)
def test_the_way_of_an_image_to_the_pod_is_carried_over(scheme, secrets, more):
    predictor = model(storageUri=f"{scheme}://registry.example/iris:3")
    predictor["imagePullSecrets"] = [{"name": each} for each in secrets]

    spec = spec_of(predictor)

    assert spec["model"] == {"uri": "oci://registry.example/iris:3?path=models", **more}
    assert spec.get("imagePullSecrets", []) == predictor["imagePullSecrets"]
    moved = convert_kserve(kserve(predictor), SCHEMAS, "s3://bucket/c").resources[0]["spec"]
    assert moved["model"] == {"uri": "s3://bucket/c"}


def test_a_quantity_with_a_fraction_becomes_a_text_and_the_others_stay():
    resources = {"requests": {"cpu": 0.1, "memory": "1Gi"}, "limits": {"cpu": 1}}

    spec = spec_of(model(resources=resources))

    assert spec["runtime"]["resources"] == {
        "requests": {"cpu": "0.1", "memory": "1Gi"}, "limits": {"cpu": 1}
    }  # fmt: skip
    notes = convert_kserve(kserve(model(resources=resources)), SCHEMAS).notes
    assert any('requests.cpu is "0.1"' in note.sentence for note in notes)


@pytest.mark.parametrize("given", ["hdfs://a/b", "file:///mnt", "http://a/b", "/mnt/models", ""])
def test_an_unsupported_store_is_refused_with_the_supported_ones(given):
    with pytest.raises(LocationError, match=r"azblob://.*--uri"):
        kserve_location(given)


def test_a_location_that_is_lost_is_named_when_nothing_is_left_to_serve():
    with pytest.raises(ConversionError, match=r"storageUri.*hdfs.*--uri") as refused:
        convert_kserve(kserve(model(storageUri="hdfs://a/b")), SCHEMAS)

    assert "nothing to serve" in str(refused.value)


def test_a_second_location_replaces_the_first_one_and_is_reported():
    storage = {"path": "c", "parameters": {"type": "s3", "bucket": "bucket"}}
    lost = notes_of(model(storage=storage))

    assert spec_of(model(storage=storage))["model"] == {"uri": "s3://bucket/c"}
    assert "parameters.bucket" in lost["spec.predictor.model.storageUri"]


def test_the_given_location_replaces_the_one_of_the_manifest():
    made = convert_kserve(kserve(model(storageUri="hdfs://a/b")), SCHEMAS, "s3://bucket/c")

    assert made.resources[0]["spec"]["model"] == {"uri": "s3://bucket/c"}


@pytest.mark.parametrize(
    ("predictor", "expected"),
    [
        (model(protocolVersion="v2"), {"protocol": "OpenInference"}),
        (model(protocolVersion="grpc-v2"), {"protocol": "OpenInference", "transport": "GRPC"}),
        (model(protocolVersion="v1"), {"protocol": "TensorFlowServing"}),
        (model(), {}),
        (model(runtime="triton"), {}),
        (
            {"model": {**MODEL, "modelFormat": {"name": "huggingface"}}},
            {"protocol": "OpenAI"},
        ),
        (model(image="own:1"), {"protocol": "Auto"}),
        (
            model(image="own:1", protocolVersion="v1"),
            {"protocol": "None", "paths": {"ready": "/v1/models/iris", "live": "/"}},
        ),
        (
            {
                "tensorflow": {
                    "storageUri": "s3://bucket/c",
                    "image": "tf:2",
                    "protocolVersion": "v1",
                }
            },
            {"protocol": "TensorFlowServing"},
        ),
        ({"containers": [IMAGE]}, {"protocol": "Auto"}),
    ],
)
def test_the_protocol_is_the_one_that_the_server_speaks(predictor, expected):
    spec = spec_of(predictor)

    assert {name: spec[name] for name in ("protocol", "transport", "paths") if name in spec} == (
        expected
    )


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ([], {"http": 8080}),
        ([{"containerPort": 9000}], {"http": 9000}),
        ([{"containerPort": 9001, "name": "h2c"}], {"grpc": 9001}),
        ([{"containerPort": 8080, "name": "grpc"}], {"grpc": 8080}),
        ([{"containerPort": 8001}], {"http": 8001, "grpc": 8000}),
        ([{"containerPort": 8000, "name": "grpc"}], {"http": 8001, "grpc": 8000}),
        (
            [{"containerPort": 1, "name": "grpc-a"}, {"containerPort": 2}, {"containerPort": 3}],
            {"grpc": 1, "http": 2},
        ),
    ],
)
def test_the_first_port_of_each_transport_is_the_servers(ports, expected):
    spec = spec_of({"containers": [{**IMAGE, "ports": ports}]})

    assert spec["runtime"]["ports"] == expected
    others = spec.get("podTemplate", {}).get("spec", {}).get("containers", [{}])[0]
    assert others.get("ports", []) == ports[2:]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, {}),
        ({"minReplicas": 3}, {"replicas": 3}),
        ({"minReplicas": 2, "maxReplicas": 2}, {"replicas": 2}),
        ({"maxReplicas": 1}, {"replicas": 1}),
        ({"minReplicas": 0}, {}),
        (
            {"minReplicas": 1, "maxReplicas": 3},
            {"scaling": {"minReplicas": 1, "maxReplicas": 3}},
        ),
        ({"maxReplicas": 3}, {"scaling": {"maxReplicas": 3}}),
        (
            {"minReplicas": 0, "maxReplicas": 3},
            {"scaling": {"minReplicas": 1, "maxReplicas": 3}},
        ),
        (
            {"maxReplicas": 3, "scaleMetric": "concurrency", "scaleTarget": 8},
            {
                "scaling": {
                    "maxReplicas": 3,
                    "metrics": [
                        {"type": "Pods", "name": "moorage_inferences_in_flight", "target": 8}
                    ],
                }
            },
        ),
        ({"minReplicas": 5, "maxReplicas": 3}, {}),
    ],
)
def test_bounds_become_replicas_or_an_autoscaler(bounds, expected):
    spec = spec_of({**model(), **bounds})

    assert {name: spec[name] for name in ("replicas", "scaling") if name in spec} == expected


def test_an_invalid_pair_of_bounds_is_lost():
    assert {"spec.predictor.minReplicas", "spec.predictor.maxReplicas"} <= set(
        notes_of({**model(), "minReplicas": 5, "maxReplicas": 3})
    )


def test_a_metric_of_the_cpu_gets_a_request_if_nobody_sets_one():
    bounds = {"maxReplicas": 3, "scaleMetric": "cpu", "scaleTarget": 60}
    requests = {"requests": {"cpu": "2"}}

    assert spec_of({**model(), **bounds})["runtime"]["resources"] == {"requests": {"cpu": "1"}}
    assert spec_of({**model(resources=requests), **bounds})["runtime"]["resources"] == requests
    assert "resources" not in spec_of({**model(runtime="own"), **bounds})["runtime"]


def test_requests_per_second_are_lost_with_their_target():
    lost = notes_of({**model(), "maxReplicas": 3, "scaleMetric": "rps", "scaleTarget": 9})

    assert "Prometheus" in lost["spec.predictor.scaleMetric"]
    assert "rps" in lost["spec.predictor.scaleTarget"]


def test_flags_of_another_server_are_lost_and_those_of_the_same_one_are_kept():
    args = {"args": ["--model_name=iris"]}

    assert "spec.predictor.model.args" in notes_of(model(**args))
    for fields in ({"runtime": "own"}, {"image": "own:1"}):
        assert spec_of(model(**args, **fields))["runtime"]["args"] == args["args"]
    triton = {"triton": {"storageUri": "s3://bucket/c", "args": ["--log-verbose=1"]}}
    assert spec_of(triton)["runtime"]["args"] == ["--log-verbose=1"]


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"args": ["--model_name=rose"]}, "rose"),
        ({"runtime": "own", "args": ["--model_name", "rose"]}, "rose"),
        ({"args": ["--model_name=iris"]}, None),
        ({"args": ["--model_name={{.Name}}"]}, None),
        ({"args": ["--model_name=o/m"]}, None),
        ({"args": ["--model_name"]}, None),
        ({"modelFormat": {"name": "huggingface"}, "args": ["--model_name=o/m"]}, "o/m"),
    ],
)
def test_the_name_in_the_flags_of_a_server_remains_the_name_that_clients_use(fields, name):
    made = convert_kserve(kserve(model(**fields)), SCHEMAS).resources[0]["spec"]

    assert made["model"].get("name") == name


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("--dir=/mnt/models", "--dir=$(MOORAGE_MODEL_PATH)"),
        ("/mnt/models/1/x", "$(MOORAGE_MODEL_PATH)/1/x"),
        ("/mnt/models-b", "/mnt/models-b"),
        ("--name={{.Name}}", "--name=$(MOORAGE_MODEL_NAME)"),
        ("{{ .Name }}", "$(MOORAGE_MODEL_NAME)"),
    ],
)
def test_words_of_a_runtime_get_the_variables_of_the_operator(word, expected):
    container = {**IMAGE, "args": [word], "env": [{"name": "A", "value": word}]}
    made = convert_serving_runtime(serving_runtime(containers=[container]), SCHEMAS)

    spec = made.resources[0]["spec"]
    assert spec["args"] == [expected]
    assert spec["env"] == [{"name": "A", "value": expected}]


def test_a_template_without_a_variable_is_lost():
    container = {**IMAGE, "args": ["--a={{.Labels.b}}", "--c"]}
    made = convert_serving_runtime(serving_runtime(containers=[container]), SCHEMAS)

    assert made.resources[0]["spec"]["args"] == ["--c"]
    assert "spec.containers[0].args[0]" in {
        note.path for note in made.notes if note.fate is Fate.LOST
    }


def test_a_probe_gets_the_number_of_the_port_that_it_names():
    ports = [{"name": "http1", "containerPort": 9000}]
    probe = {"httpGet": {"path": "/ready", "port": "http1"}, "periodSeconds": 3}
    spec = spec_of({"containers": [{**IMAGE, "ports": ports, "readinessProbe": probe}]})

    (container,) = spec["podTemplate"]["spec"]["containers"]
    assert container["readinessProbe"] == {
        "httpGet": {"path": "/ready", "port": 9000},
        "periodSeconds": 3,
    }


@pytest.mark.parametrize(
    ("field", "value"), [("restartPolicy", "Never"), ("activeDeadlineSeconds", 60)]
)
def test_a_pod_field_that_no_deployment_has_is_lost(field, value):
    predictor = {**model(), field: value}

    assert list(notes_of(predictor)) == [f"spec.predictor.{field}"]
    assert "podTemplate" not in spec_of(predictor)


@pytest.mark.parametrize("name", [[1], {"a": 1}])
def test_a_port_whose_name_is_not_a_text_keeps_its_number(name):
    ports = [{"name": name, "containerPort": 9000}]

    spec = spec_of({"containers": [{**IMAGE, "ports": ports}]})

    assert spec["runtime"]["ports"] == {"http": 9000}


@pytest.mark.parametrize(
    ("server", "is_kept"),
    [
        ({}, False),
        ({"modelFormat": {"name": "triton"}}, False),
        ({"image": "a/b:1"}, True),
        ({"runtime": "c"}, True),
    ],
)
def test_a_probe_stays_with_the_server_that_it_checks(server, is_kept):
    probe = {"httpGet": {"path": "/", "port": 8080}}
    predictor = model(**server, livenessProbe=probe)

    assert ("podTemplate" in spec_of(predictor)) is is_kept
    assert ("spec.predictor.model.livenessProbe" not in notes_of(predictor)) is is_kept


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        ({}, "no server"),
        ({**model(), "sklearn": {"storageUri": "s3://bucket/c"}}, "model and sklearn"),
    ],
)
def test_a_predictor_without_one_server_is_refused(predictor, sentence):
    with pytest.raises(ConversionError, match=sentence):
        convert_kserve(kserve(predictor), SCHEMAS)


def test_a_model_without_a_name_is_refused():
    unnamed = {**kserve(model()), "metadata": {}}

    with pytest.raises(ConversionError, match=r"metadata\.name is absent"):
        convert_kserve(unnamed, SCHEMAS)


def test_what_the_old_cluster_wrote_is_not_needed_and_not_repeated():
    written = {
        "uid": "u",
        "resourceVersion": "1",
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    }
    resource = {**marked(kserve(model()), **written), "status": {"url": "http://a"}}

    made = convert_kserve(resource, SCHEMAS)

    assert made.resources[0]["metadata"] == {"name": "iris"}
    found = {note.path for note in made.notes if note.value is None and note.path}
    assert {"metadata.uid", "metadata.resourceVersion", "status"} <= found
    assert not [note for note in made.notes if note.fate is Fate.LOST]


@pytest.mark.parametrize(
    ("annotation", "value", "fate"),
    [
        ("serving.kserve.io/deploymentMode", "RawDeployment", Fate.UNNEEDED),
        ("serving.kserve.io/deploymentMode", "Serverless", Fate.LOST),
        ("autoscaling.knative.dev/target", "10", Fate.LOST),
    ],
)
def test_annotations_of_the_old_controller_are_not_carried_over(annotation, value, fate):
    made = convert_kserve(marked(kserve(model()), annotations={annotation: value}), SCHEMAS)

    assert "annotations" not in made.resources[0]["metadata"]
    assert [note.fate for note in made.notes if annotation in note.path] == [fate]


def test_a_runtime_of_a_namespace_stays_in_that_namespace():
    source = marked(serving_runtime("ServingRuntime"), namespace="team")

    (made,) = convert_serving_runtime(source, SCHEMAS).resources

    labels = {"kubernetes.io/metadata.name": "team"}
    assert made["spec"]["allowedNamespaces"] == {"selector": {"matchLabels": labels}}
    assert "namespace" not in made["metadata"]


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        (["v1", "v2"], {"protocol": "OpenInference"}),
        (["grpc-v2"], {"protocol": "OpenInference", "transport": "GRPC"}),
        (["v1"], {"protocol": "Auto"}),
    ],
)
def test_a_runtime_has_the_protocol_of_its_versions(versions, expected):
    source = serving_runtime(protocolVersions=versions)
    spec = convert_serving_runtime(source, SCHEMAS).resources[0]["spec"]

    assert {name: spec[name] for name in ("protocol", "transport") if name in spec} == expected


def test_versions_of_a_format_become_one_format_with_the_highest_priority():
    formats = [
        {"name": "XGBoost", "version": "1", "autoSelect": True, "priority": 1},
        {"name": "xgboost", "version": "2", "autoSelect": True, "priority": 5000},
        {"name": "own", "priority": 7},
    ]
    source = serving_runtime(supportedModelFormats=formats)

    spec = convert_serving_runtime(source, SCHEMAS).resources[0]["spec"]

    assert spec["formats"] == [
        {"name": "xgboost", "priority": 1000},
        {"name": "own", "priority": 0},
    ]


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"resources": {}}, []),
        ({"resources": {"limits": {}, "requests": {}}}, []),
        ({"env": [], "args": [], "command": []}, []),
        ({"resources": {"limits": {}, "other": {"a": 1}}}, ["resources.other.a"]),
    ],
)
def test_an_empty_field_loses_nothing(fields, lost):
    assert list(notes_of(model(**fields))) == [f"spec.predictor.model.{path}" for path in lost]


@pytest.mark.parametrize("name", ["logger", "batcher"])
def test_an_empty_field_that_switches_something_on_is_lost(name):
    assert list(notes_of({**model(), name: {}})) == [f"spec.predictor.{name}"]
