"""What lint finds when it is given the model that is to be served."""

import sys
from pathlib import Path

import pytest
import yaml

from moorage_cli.failures import Failure
from moorage_cli.lint import lint
from moorage_cli.onnx_file import read_onnx
from moorage_cli.tables import Palette
from support.cli_manifests import manifest

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "01-digits" / "model.onnx"
IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}
BLANK = {"name": "image", "datatype": "FP32", "shape": [1, 8, 8], "data": [0] * 64}


def findings(**spec):
    text = yaml.safe_dump(manifest({"model": {"uri": "pvc://models/digits"}, **spec}))
    report = lint([("file", text)], Palette(coloured=False), read_onnx(str(DIGITS)))
    return [(item["path"], item["message"]) for item in report.document["findings"]]


def test_the_tensors_of_an_onnx_file_are_those_that_its_server_tells():
    tensors = read_onnx(str(DIGITS))

    assert [(each.name, each.datatype, each.shape) for each in tensors.inputs] == [
        ("image", "FP32", (-1, 8, 8))
    ]
    assert ("label", "INT64") in [(each.name, each.datatype) for each in tensors.outputs]


def test_what_the_model_keeps_is_clean():
    contract = {"inputs": [IMAGE], "outputs": [{"name": "label", "datatype": "INT64"}]}
    tests = [{"name": "blank", "inputs": [BLANK], "outputs": [{"name": "label", "data": [1]}]}]

    assert findings(contract=contract, smokeTests=tests) == []
    assert findings() == []


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        (
            {"contract": {"inputs": [{**IMAGE, "datatype": "FP64"}]}},
            "spec.contract.inputs[0].datatype",
            "the model has FP32, not FP64",
        ),
        (
            {"contract": {"inputs": [{**IMAGE, "shape": [-1, 64]}]}},
            "spec.contract.inputs[0].shape",
            "the model has [-1, 8, 8], not [-1, 64]",
        ),
        (
            {"contract": {"outputs": [{"name": "digit"}]}},
            "spec.contract.outputs[0].name",
            "not digit",
        ),
        (
            {"contract": {"inputs": [IMAGE, {"name": "mask"}]}},
            "spec.contract.inputs[1].name",
            "the model has image, not mask",
        ),
        (
            {"smokeTests": [{"name": "t", "inputs": [{**BLANK, "name": "mask"}]}]},
            "spec.smokeTests[0].inputs",
            "the model wants input image too",
        ),
        (
            {"smokeTests": [{"name": "t", "inputs": [{**BLANK, "shape": [1, 64]}]}]},
            "spec.smokeTests[0].inputs[0].shape",
            "not [1, 64]",
        ),
        (
            {
                "smokeTests": [
                    {"name": "t", "inputs": [BLANK], "outputs": [{"name": "digit", "data": [1]}]}
                ]
            },
            "spec.smokeTests[0].outputs[0].name",
            "not digit",
        ),
    ],
)
def test_what_the_model_does_not_keep_is_named(spec, path, sentence):
    found = dict(findings(**spec))

    assert sentence in found[path]


def test_what_is_malformed_is_named_and_not_compared():
    (found,) = findings(contract={"inputs": [{"name": "image", "shape": "8x8"}]})

    assert found[0] == "spec.contract.inputs[0].shape"
    assert "expected" in found[1]


def test_a_file_that_is_no_model_is_named(tmp_path):
    bad = tmp_path / "model.onnx"
    bad.write_bytes(b"this is no model")

    with pytest.raises(Failure, match="is no ONNX model"):
        read_onnx(str(bad))
    with pytest.raises(Failure, match="cannot be read"):
        read_onnx(str(tmp_path / "absent.onnx"))


def test_without_the_package_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(Failure, match="pip install"):
        read_onnx(str(DIGITS))
