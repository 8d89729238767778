"""Models of Seldon Core 2, and settings of models for Triton and MLServer."""

import pytest

from moorage_cli.manifests.convert.conversion import ConversionError, Fate
from moorage_cli.manifests.convert.mlserver import convert_mlserver, is_mlserver
from moorage_cli.manifests.convert.seldon import convert_seldon
from moorage_cli.manifests.convert.triton import convert_triton, is_triton
from moorage_cli.manifests.lint import schemas
from support.foreign_manifests import CONFIG_PBTXT, MODEL_SETTINGS, seldon

SCHEMAS = schemas()


def spec_of(**spec):
    return convert_seldon(seldon(**spec), SCHEMAS).resources[0]["spec"]


def lost(conversion):
    return {note.path: note.sentence for note in conversion.notes if note.fate is Fate.LOST}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"model": {"uri": "gs://models/iris"}}),
        ({"requirements": ["sklearn"]}, {"model": {"uri": "gs://models/iris"}}),
        (
            {"requirements": ["python"]},
            {"model": {"uri": "gs://models/iris", "format": "mlserver"}},
        ),
        (
            {"server": "triton", "requirements": ["onnx"]},
            {"model": {"uri": "gs://models/iris"}, "runtime": {"name": "triton"}},
        ),
        ({"replicas": 0}, {"model": {"uri": "gs://models/iris"}, "suspend": True}),
        ({"replicas": 2}, {"model": {"uri": "gs://models/iris"}, "replicas": 2}),
        ({"minReplicas": 2, "replicas": 3}, {"model": {"uri": "gs://models/iris"}, "replicas": 3}),
        (
            {"secretName": "store", "artifactVersion": 2},
            {
                "model": {
                    "uri": "gs://models/iris",
                    "version": "2",
                    "credentials": {"secretName": "store"},
                }
            },
        ),
    ],
)
def test_a_seldon_model_has_pods_of_its_own(given, expected):
    assert spec_of(**given) == expected


def test_a_remote_of_rclone_needs_a_location():
    source = seldon(storageUri="minio:models/iris", requirements=["mlserver"])

    assert "--uri" in lost(convert_seldon(source, SCHEMAS))["spec.storageUri"]
    made = convert_seldon(source, SCHEMAS, "s3://models/iris").resources[0]
    assert made["spec"]["model"] == {"uri": "s3://models/iris", "format": "mlserver"}


def test_a_secret_of_a_claim_is_lost():
    source = seldon(storageUri="pvc://models/iris", secretName="store")

    assert set(lost(convert_seldon(source, SCHEMAS))) == {"spec.secretName"}


def test_a_triton_configuration_becomes_a_contract_and_keeps_its_file():
    made = convert_triton(CONFIG_PBTXT, SCHEMAS, uri="s3://models/detector")

    assert made.resources[0] == {
        "apiVersion": "moorage.dev/v1alpha1",
        "kind": "InferenceModel",
        "metadata": {"name": "detector"},
        "spec": {
            "model": {"name": "Detector", "uri": "s3://models/detector"},
            "runtime": {"name": "triton", "resources": {"limits": {"nvidia.com/gpu": 2}}},
            "contract": {
                "inputs": [
                    {"name": "image", "datatype": "FP32", "shape": [-1, 3, -1, 32]},
                    {"name": "label", "datatype": "BYTES", "shape": [-1, 1]},
                ],
                "outputs": [{"name": "boxes", "datatype": "INT64", "shape": [-1, 16, 4]}],
            },
        },
    }
    assert lost(made) == {}
    kept = {note.path: note.value for note in made.notes if "config.pbtxt" in note.sentence}
    assert kept["dynamic_batching"] == {"preferred_batch_size": [4, 8]}
    assert kept["output[0]"] == {"label_filename": "labels.txt"}


def test_a_model_without_batches_has_the_dimensions_of_its_file():
    text = 'name: "a" max_batch_size: 0 input { name: "x" data_type: TYPE_BOOL dims: [2, 3] }'

    (made,) = convert_triton(text, SCHEMAS).resources

    assert made["spec"]["contract"] == {
        "inputs": [{"name": "x", "datatype": "BOOL", "shape": [2, 3]}]
    }


def test_an_ensemble_loses_its_models():
    steps = 'step [{ model_name: "a" model_version: -1 }, { model_name: "b" }]'
    text = f'name: "both" platform: "ensemble" ensemble_scheduling {{ {steps} }}'

    assert "one model" in lost(convert_triton(text, SCHEMAS))["ensemble_scheduling"]


@pytest.mark.parametrize("wrong", ["{ at: 1 }", '"1"', "1.5", "true"])
def test_a_gpu_that_is_not_a_whole_number_is_lost_and_not_counted(wrong):
    text = f'name: "m" platform: "p" instance_group {{ kind: KIND_GPU gpus: [0, {wrong}] }}'

    made = convert_triton(text, SCHEMAS)

    resources = made.resources[0]["spec"]["runtime"]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": 1}}
    assert lost(made) == {"instance_group[0].gpus[1]": "must be a whole number"}


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ('platform: "tensorrt_plan"', 1),
        ('backend: "tensorrtllm"', 1),
        ('backend: "tensorrt" instance_group { kind: KIND_GPU gpus: [0, 1] }', 2),
    ],
)
def test_a_model_that_only_runs_on_gpus_requests_one(text, gpus):
    made = convert_triton(f'name: "m" {text}', SCHEMAS)

    resources = made.resources[0]["spec"]["runtime"]["resources"]
    assert resources == {"limits": {"nvidia.com/gpu": gpus}}
    assert any(f"has nvidia.com/gpu: {gpus}, because " in str(note) for note in made.notes)


def test_sequences_need_a_single_replica():
    made = convert_triton('name: "m" backend: "python" sequence_batching {}', SCHEMAS)

    assert any("keep spec.replicas at 1" in str(note) for note in made.notes)


def test_a_shape_tensor_has_no_shape_in_the_contract():
    tensor = 'name: "x" data_type: TYPE_INT32 dims: [2] is_shape_tensor: true'

    (made,) = convert_triton(f'name: "a" input {{ {tensor} }}', SCHEMAS).resources

    assert made["spec"]["contract"]["inputs"] == [{"name": "x", "datatype": "INT32"}]


@pytest.mark.parametrize(
    ("tensor", "path"),
    [
        ('name: "x" data_type: TYPE_INVALID', "input[0].data_type"),
        ("data_type: TYPE_INT8", "input[0]"),
        ('name: "x" data_type: TYPE_INT8 dims: -2', "input[0]"),
        ('name: "" data_type: TYPE_INT8', "input[0]"),
    ],
)
def test_what_a_contract_cannot_hold_is_lost(tensor, path):
    made = convert_triton(f'name: "a" backend: "b" input {{ {tensor} }}', SCHEMAS)

    assert set(lost(made)) == {path}


def test_two_tensors_of_one_name_are_one_in_the_contract():
    made = convert_triton('name: "a" input [{ name: "x" }, { name: "x" dims: 2 }]', SCHEMAS)

    assert made.resources[0]["spec"]["contract"] == {"inputs": [{"name": "x"}]}
    assert "input[1]" in lost(made)


def test_the_folder_names_a_model_whose_file_has_no_name():
    (made,) = convert_triton('backend: "python"', SCHEMAS, folder="ssd").resources

    assert made["metadata"]["name"] == "ssd"
    with pytest.raises(ConversionError, match="name is absent"):
        convert_triton('backend: "python"', SCHEMAS)
    with pytest.raises(ConversionError, match="'a b' is invalid"):
        convert_triton('name: "a b"', SCHEMAS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CONFIG_PBTXT, True),
        ('backend: "python"', True),
        ("# a comment\n\nmax_batch_size: 0", True),
        ("name: iris", False),
        ("apiVersion: v1\nplatform: x", False),
        ("name: x\nbackend: y\napiVersion: v1", False),
        ('{"name": "a", "platform": "b"}', False),
        ("", False),
    ],
)
def test_a_configuration_of_triton_is_known_by_its_fields(text, expected):
    assert is_triton(text) is expected


def test_the_settings_of_mlserver_become_a_contract_and_keep_their_file():
    made = convert_mlserver(MODEL_SETTINGS, SCHEMAS)

    assert made.resources[0]["metadata"] == {"name": "iris"}
    assert made.resources[0]["spec"] == {
        "model": {"name": "Iris", "version": "v1"},
        "runtime": {"name": "mlserver"},
        "contract": {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}],
            "outputs": [{"name": "y", "datatype": "INT64", "shape": [-1]}],
        },
    }
    assert lost(made) == {}
    assert any("spec.model.uri is not set" in str(note) for note in made.notes)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (MODEL_SETTINGS, True),
        ({"implementation": "a.B"}, True),
        ({"name": "a"}, False),
        ({"implementation": {}}, False),
        ({"implementation": "a", "kind": "Other"}, False),
    ],
)
def test_settings_of_mlserver_are_known_by_their_fields(value, expected):
    assert is_mlserver(value) is expected
