"""`moorage deploy` without a cluster: the dry run, and what is refused before any write."""

import base64
import shutil

import onnx
import pytest
import yaml

from moorage_cli import __main__ as program
from moorage_cli.ask.onnx_file import external_files
from support.manifests import DIGITS

MODEL = DIGITS / "model.onnx"


@pytest.fixture
def deploy(monkeypatch, tmp_path, capsys):
    """Runs the command on a machine without a kubeconfig; returns status, output and errors."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    def run(*arguments):
        code = program.main(["deploy", *map(str, arguments), "--name=iris", "-n", "models"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_dry_run_of_a_small_file_has_its_content_in_a_config_map(deploy, tmp_path):
    other = tmp_path / "other.onnx"
    shutil.copy(MODEL, other)

    code, out, err = deploy(other, "--dry-run", "--replicas=2", "--runtime=triton")

    assert (code, err) == (0, "")
    files, model = yaml.safe_load_all(out)
    assert base64.b64decode(files["binaryData"]["model.onnx"]) == MODEL.read_bytes()
    uri = f"configmap://{files['metadata']['name']}"
    assert model["metadata"] == {"name": "iris", "namespace": "models"}
    assert model["spec"] == {
        "model": {"uri": uri}, "runtime": {"name": "triton"}, "replicas": 2
    }  # fmt: skip


def test_a_dry_run_of_a_private_uri_names_the_secret(deploy):
    code, out, _ = deploy("s3://models/iris", "--dry-run", "--credentials=models-reader")

    assert code == 0
    (model,) = yaml.safe_load_all(out)
    assert model["spec"]["model"] == {
        "uri": "s3://models/iris", "credentials": {"secretName": "models-reader"}
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        (MODEL, ["--credentials=models-reader"], "--credentials: requires a URI, or a local path"),
        (MODEL, ["--to=s3://models", "--claim=models"], "--claim: requires an upload to a claim"),
        (MODEL, ["--to=s3://models", "--image=i"], "--image: requires an upload to a claim"),
        ("s3://models/iris", ["--to=s3://models"], "--to: requires a local path"),
        (MODEL, ["--to=minio://models"], "--to: 'minio://models' is invalid"),
        (MODEL, ["--to=s3://m"], "got 's3://m/iris/"),
    ],
)
def test_options_that_contradict_the_place_of_the_files_are_refused(
    deploy, source, options, words
):
    code, out, err = deploy(source, "--dry-run", *options)

    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.parametrize(
    ("to", "begin", "more"),
    [
        ("s3://models/team", "s3://models/team/iris/", {}),
        ("oci://registry.example/team", "oci://registry.example/team/iris@sha256:", {
            "imageVolume": "Never"
        }),
    ],
)  # fmt: skip
def test_a_dry_run_of_files_for_a_store_writes_the_model_alone(deploy, to, begin, more):
    code, out, _ = deploy(MODEL, "--dry-run", f"--to={to}", "--credentials=models-reader")

    assert code == 0
    assert out.startswith(f"# 1 file (9.9 KiB) is uploaded to {begin}")
    assert "claim" not in out.splitlines()[0]
    (model,) = yaml.safe_load_all(out)
    uri = model["spec"]["model"].pop("uri")
    assert uri.startswith(begin)
    assert uri in out.splitlines()[0]
    assert model["spec"]["model"] == {"credentials": {"secretName": "models-reader"}} | more


def test_a_dry_run_without_a_kubeconfig_leaves_the_namespace_to_kubectl(
    monkeypatch, tmp_path, capsys
):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))

    code = program.main(["deploy", str(MODEL), "--name=iris", "--dry-run"])

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    assert code == 0
    assert [each["kind"] for each in documents] == ["ConfigMap", "InferenceModel"]
    assert not any("namespace" in each["metadata"] for each in documents)


@pytest.mark.parametrize("content", [None, "", "{"])
def test_a_dry_run_reports_a_kubeconfig_that_is_named_and_unusable(tmp_path, capsys, content):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)

    arguments = [str(MODEL), "--name=iris", "--dry-run", f"--kubeconfig={path}"]
    code = program.main(["deploy", *arguments])

    assert code == 1
    assert f"--kubeconfig: {path} is not a usable kubeconfig" in capsys.readouterr().err


def test_a_dry_run_of_a_folder_with_versions_names_the_claim_and_the_folder_in_it(
    deploy, tmp_path
):
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / ".git").mkdir()
    (tmp_path / "m" / ".git" / "config").write_text("not a part of the model")
    shutil.copy(MODEL, tmp_path / "m" / "1" / "model.onnx")

    code, out, _ = deploy(tmp_path / "m", "--dry-run", "--size=5Gi", "--storage-class=fast")

    assert code == 0
    assert out.startswith("# 1 file (9.9 KiB) is uploaded to pvc://iris-models/iris/")
    claim, model = yaml.safe_load_all(out)
    assert claim["metadata"]["name"] == "iris-models"
    assert claim["spec"]["storageClassName"] == "fast"
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert model["spec"]["model"]["uri"].startswith("pvc://iris-models/iris/")


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("iris.onnx", "model.onnx"),
        ("frozen.pb", "model.pb"),
        ("saved_model.pb", "saved_model.pb"),
        (".onnx", "model.onnx"),
    ],
)
def test_a_file_gets_a_name_by_which_the_server_finds_its_format(deploy, tmp_path, name, kept):
    (tmp_path / name).write_bytes(b"content")

    _, out, _ = deploy(tmp_path / name, "--dry-run")

    config_map, _ = yaml.safe_load_all(out)
    assert list(config_map["binaryData"]) == [kept]


def test_the_weights_beside_an_openvino_graph_are_uploaded_with_it(deploy, tmp_path):
    for name in ("iris.xml", "iris.bin", "other.bin", "iris.onnx"):
        (tmp_path / name).write_bytes(name.encode())

    uploads = [
        yaml.safe_load(deploy(tmp_path / name, "--dry-run")[1].partition("---")[0])["binaryData"]
        for name in ("iris.xml", "iris.onnx")
    ]

    assert uploads == [
        {"model.xml": "aXJpcy54bWw=", "model.bin": "aXJpcy5iaW4="},
        {"model.onnx": "aXJpcy5vbm54"},
    ]


def onnx_with_weights(*locations, metadata=""):
    """A graph whose weights are in other files."""
    weights = [
        onnx.TensorProto(
            name=location,
            data_location=onnx.TensorProto.EXTERNAL,
            external_data=[
                onnx.StringStringEntryProto(key="location", value=location),
                onnx.StringStringEntryProto(key="offset", value="0"),
            ],
        )
        for location in locations
    ]
    model = onnx.ModelProto(graph=onnx.GraphProto(initializer=weights))
    model.metadata_props.add(key="location", value=metadata)
    return model.SerializeToString()


def test_the_weights_of_an_onnx_file_are_uploaded_with_it(deploy, tmp_path):
    long = "w" * 200
    names = ["iris.onnx.data", "parts/w.bin", long]
    (tmp_path / "parts").mkdir()
    for name in (*names, "other.data"):
        (tmp_path / name).write_bytes(b"w")
    (tmp_path.parent / "outside").write_bytes(b"w")
    outside = ["../outside", f"{tmp_path}/other.data", "./other.data", "missing", "\0"]
    content = onnx_with_weights(*names, names[0], *outside, metadata="Paris")
    (tmp_path / "iris.onnx").write_bytes(content)

    code, out, _ = deploy(tmp_path / "iris.onnx", "--dry-run")

    assert external_files(tmp_path / "iris.onnx") == names
    assert code == 0
    assert out.startswith("# 4 files")


def test_one_file_of_weights_is_uploaded_under_its_own_name(deploy, tmp_path):
    (tmp_path / "iris.onnx").write_bytes(onnx_with_weights("iris.onnx.data"))
    (tmp_path / "iris.onnx.data").write_bytes(b"weights")

    config_map = yaml.safe_load(deploy(tmp_path / "iris.onnx", "--dry-run")[1].partition("---")[0])

    assert config_map["binaryData"].keys() == {"model.onnx", "iris.onnx.data"}


def test_a_trusted_pickle_behind_a_uri_says_so_in_the_spec(deploy):
    code, out, _ = deploy("s3://models/iris.pkl", "--trusted", "--dry-run")

    assert code == 0
    assert yaml.safe_load(out)["spec"]["model"] == {"uri": "s3://models/iris.pkl", "trusted": True}


def test_a_contract_is_read_from_the_file(deploy):
    out = deploy(MODEL, "--contract", "--dry-run")[1]

    _, model = yaml.safe_load_all(out)
    assert model["spec"]["contract"]["outputs"] == [
        {"name": "label", "datatype": "INT64", "shape": [-1]},
        {"name": "probabilities", "datatype": "FP32", "shape": [-1, 10]},
    ]


def test_what_cannot_be_deployed_is_refused_with_the_fix(deploy, tmp_path):
    for name in ("a", "b"):
        (tmp_path / "many" / name).mkdir(parents=True)
        shutil.copy(MODEL, tmp_path / "many" / name / "model.onnx")
    pickled, notes = tmp_path / "m.pkl", tmp_path / "notes.md"
    pickled.write_bytes(b"x")
    notes.write_text("text")

    assert "several models: deploy one at a time: a, b" in deploy(tmp_path / "many")[2]
    assert "m.pkl is a pickle" in deploy(pickled)[2]
    assert "notes.md is not a model file: must be MLmodel" in deploy(notes)[2]
    assert "does not exist: must be a model file or a folder" in deploy(tmp_path / "no")[2]
    assert "--contract: requires a local ONNX file" in deploy(
        "https://host/m.onnx", "--contract", "--dry-run"
    )[2]  # fmt: skip
    code, _, err = deploy("ftp://host/m.onnx")
    assert code == 2
    assert "must be one of pvc://, configmap://, s3://" in err
