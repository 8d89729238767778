"""convert with files and standard input."""

import io
import sys

import pytest
import yaml

from moorage_cli import __main__ as program
from support.foreign_manifests import MODEL as SERVED
from support.foreign_manifests import kserve

EARLIER = """\
apiVersion: moorage.dev/v1alpha1
kind: InferenceModel
metadata: {name: iris}
spec: {model: {uri: "pvc://a/b"}, disruptionBudget: None}   # our own
"""


def test_convert_prints_the_manifest_and_names_what_is_lost(tmp_path, capsys):
    path, other = tmp_path / "iris.yaml", tmp_path / "other.yaml"
    path.write_text(EARLIER)
    other.write_text("kind: Other   # stays\n")

    assert program.main(["convert", str(path), str(other)]) == 0

    out, err = capsys.readouterr()
    assert "disruptionBudget: {policy: None}" in out
    assert out.endswith("---\nkind: Other   # stays\n")
    assert f"{path}: iris: comments" in err
    assert path.read_text() == EARLIER


def test_convert_in_place_writes_only_what_changes(tmp_path, capsys):
    earlier, other = tmp_path / "iris.yaml", tmp_path / "other.yaml"
    earlier.write_text(EARLIER)
    other.write_text("kind: Other   # stays\n")

    assert program.main(["convert", "--in-place", str(earlier), str(other)]) == 0

    assert "policy: None" in earlier.read_text()
    assert other.read_text() == "kind: Other   # stays\n"
    assert capsys.readouterr().out == f"{earlier}: converted\n{other}: unchanged\n"


def test_convert_writes_no_file_if_one_cannot_be_converted(tmp_path, capsys):
    earlier, wrong = tmp_path / "iris.yaml", tmp_path / "wrong.yaml"
    earlier.write_text(EARLIER)
    wrong.write_text(EARLIER.replace("disr", "endpoints: {}, paths: {}, disr"))

    assert program.main(["convert", "--in-place", str(earlier), str(wrong)]) == 1

    assert earlier.read_text() == EARLIER
    assert f"{wrong}: iris: spec.endpoints and spec.paths" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"name": "iris", "platform": "onnx"}', "a: 1\n", "kind: 3\n"])
def test_an_object_of_an_unknown_format_is_refused_with_the_supported_ones(tmp_path, capsys, text):
    path = tmp_path / "settings.json"
    path.write_text(text)

    assert program.main(["convert", str(path)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}: document 1: has no kind: supported are InferenceModel and " in err


ITEMS = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: apps/v1, kind: Deployment}\n"


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        (
            "apiVersion: apps/v1\nkind: Deployment\n---\nkind: Other\n",
            "Deployment of apps/v1, Other",
        ),
        (ITEMS, "Deployment of apps/v1"),
    ],
)
def test_a_file_without_a_supported_kind_stays_and_is_reported(tmp_path, capsys, text, kinds):
    path = tmp_path / "deployment.yaml"
    path.write_text(text)

    assert program.main(["convert", "--strict", str(path)]) == 0

    out, err = capsys.readouterr()
    assert out == text
    assert f"{path}: nothing to convert in {kinds}: supported are InferenceModel and " in err


@pytest.mark.parametrize(
    "text",
    [
        (
            "apiVersion: apps/v1\nkind: Deployment\n---\napiVersion: moorage.dev/v1alpha1\n"
            "kind: InferenceModel\nmetadata: {name: iris}\n"
        ),
        ITEMS + "- {apiVersion: moorage.dev/v1alpha1, kind: InferenceRuntime}\n",
    ],
)
def test_other_kinds_beside_a_supported_one_are_not_reported(tmp_path, capsys, text):
    path = tmp_path / "all.yaml"
    path.write_text(text)

    assert program.main(["convert", str(path)]) == 0
    assert capsys.readouterr() == (text, "")


FOREIGN = yaml.safe_dump(kserve({"model": SERVED, "timeout": 30}))


def test_strict_writes_nothing_if_a_field_is_lost(tmp_path, capsys):
    path = tmp_path / "iris.yaml"
    path.write_text(FOREIGN)

    assert program.main(["convert", "--strict", str(path)]) == 1
    assert program.main(["convert", "--strict", "--in-place", str(path)]) == 1

    out, err = capsys.readouterr()
    assert out == ""
    assert f"{path}: iris: spec.predictor.timeout: 30: lost: " in err
    assert "--strict allows no lost fields" in err
    assert path.read_text() == FOREIGN


def test_strict_accepts_what_is_only_changed(tmp_path, capsys):
    path = tmp_path / "iris.yaml"
    path.write_text(yaml.safe_dump(kserve({"model": {**SERVED, "protocolVersion": "v2"}})))

    assert program.main(["convert", "--strict", str(path)]) == 0

    out, err = capsys.readouterr()
    assert "protocol: OpenInference" in out
    assert "changed" in err


def test_settings_that_a_server_reads_are_not_replaced(tmp_path, capsys):
    path = tmp_path / "detector" / "config.pbtxt"
    path.parent.mkdir()
    path.write_text('backend: "python"')

    assert program.main(["convert", "--in-place", str(path)]) == 2
    assert program.main(["convert", str(path), "--uri", "pvc://models/detector"]) == 0

    assert path.read_text() == 'backend: "python"'
    out, err = capsys.readouterr()
    assert "which the model server reads" in err
    assert "metadata: {name: detector}" in out
    assert "pvc://models/detector" in out


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["convert", "--in-place", "-"], 2, "--in-place cannot be combined"),
        (["convert", "missing.yaml"], 1, "missing.yaml cannot be read"),
    ],
)
def test_convert_refuses_what_it_cannot_do(arguments, status, sentence, capsys):
    assert program.main(arguments) == status

    assert sentence in capsys.readouterr().err


def test_convert_reads_standard_input_and_refuses_invalid_yaml(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("a: ["))

    assert program.main(["convert", "-"]) == 1

    assert "-: is not valid YAML: line 1" in capsys.readouterr().err
