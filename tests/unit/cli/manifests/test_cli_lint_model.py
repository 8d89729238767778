"""Differences between a manifest and its model."""

import sys
from pathlib import Path

import pytest
import yaml

from moorage_cli.ask.onnx_file import read_onnx
from moorage_cli.manifests.lint import lint
from moorage_cli.manifests.model_check import ModelTensors, Tensor, model_problems
from moorage_cli.printing.failures import Failure
from moorage_cli.printing.tables import Palette
from support.cli_manifests import manifest

DIGITS = Path(__file__).resolve().parents[4] / "examples" / "01-digits" / "model.onnx"
IMAGE = {"name": "image", "datatype": "FP32", "shape": [-1, 8, 8]}
BLANK = {"name": "image", "datatype": "FP32", "shape": [1, 8, 8], "data": [0] * 64}


def findings(**spec):
    text = yaml.safe_dump(manifest({"model": {"uri": "pvc://models/digits"}, **spec}))
    report = lint([("file", text)], Palette(coloured=False), read_onnx(str(DIGITS)))
    return [(item["path"], item["message"]) for item in report.document["findings"]]


def smoked(test):
    return {"smokeTests": {"tests": [{"name": "t", **test}]}}


def test_the_tensors_of_an_onnx_file_are_read():
    tensors = read_onnx(str(DIGITS))

    assert [(each.name, each.datatype, each.shape) for each in tensors.inputs] == [
        ("image", "FP32", (-1, 8, 8))
    ]
    assert ("label", "INT64") in [(each.name, each.datatype) for each in tensors.outputs]


def test_a_manifest_that_fits_the_model_has_no_problems():
    contract = {"inputs": [IMAGE], "outputs": [{"name": "label", "datatype": "INT64"}]}
    tests = [{"name": "blank", "inputs": [BLANK], "outputs": [{"name": "label", "data": [1]}]}]

    assert findings(contract=contract, smokeTests={"tests": tests}) == []
    assert findings() == []


@pytest.mark.parametrize(
    ("spec", "path", "sentence"),
    [
        (
            {"contract": {"inputs": [{**IMAGE, "datatype": "FP64"}]}},
            "spec.contract.inputs[0].datatype",
            "FP32",
        ),
        (
            {"contract": {"inputs": [{**IMAGE, "shape": [-1, 64]}]}},
            "spec.contract.inputs[0].shape",
            "[-1, 8, 8]",
        ),
        (
            {"contract": {"outputs": [{"name": "digit"}]}},
            "spec.contract.outputs[0].name",
            "no digit",
        ),
        (
            {"contract": {"inputs": [IMAGE, {"name": "mask"}]}},
            "spec.contract.inputs[1].name",
            "no mask: must be one of image",
        ),
        (
            smoked({"inputs": [{**BLANK, "name": "mask"}]}),
            "spec.smokeTests.tests[0].inputs",
            "input image",
        ),
        (
            smoked({"inputs": [{**BLANK, "shape": [1, 64]}]}),
            "spec.smokeTests.tests[0].inputs[0].shape",
            "[1, 64]",
        ),
        (
            smoked({"inputs": [BLANK], "outputs": [{"name": "digit", "data": [1]}]}),
            "spec.smokeTests.tests[0].outputs[0].name",
            "no digit",
        ),
    ],
)
def test_a_difference_is_reported_with_the_path_of_the_field(spec, path, sentence):
    found = dict(findings(**spec))

    assert sentence in found[path]


SEGMENTER = ModelTensors(
    (Tensor("image", "FP32", (-1, 3, 8)), Tensor("mask", "BOOL", None)),
    (Tensor("label", "INT64", (-1,)), Tensor("scores", "FP32", (-1, 10))),
)


def of_segmenter(**contract):
    found = model_problems({"contract": contract}, SEGMENTER)
    return [(each.path.removeprefix("spec.contract."), each.message) for each in found]


@pytest.mark.parametrize(
    "contract",
    [
        {"inputs": [{"name": "image", "shape": [1, 3, 8]}, {"name": "mask", "shape": [7]}]},
        {"inputs": [{"name": "image", "shape": [-1, 3, 8]}, {"name": "mask"}]},
        {"inputs": []},
        {"outputs": [{"name": "scores", "shape": [-1, -1]}]},
        {"outputs": [{"name": "scores", "shape": [-1, 10]}]},
    ],
)
def test_an_input_may_be_narrower_and_an_output_wider_than_the_models(contract):
    assert of_segmenter(**contract) == []


@pytest.mark.parametrize(
    ("contract", "path", "shapes"),
    [
        (
            {"inputs": [{"name": "image", "shape": [-1, -1, 8]}, {"name": "mask"}]},
            "inputs[0].shape",
            "[-1, -1, 8] does not fit the model, which has [-1, 3, 8]",
        ),
        (
            {"outputs": [{"name": "scores", "shape": [1, 10]}]},
            "outputs[0].shape",
            "[1, 10] does not fit the model, which has [-1, 10]",
        ),
    ],
)
def test_a_wider_input_and_a_narrower_output_are_reported(contract, path, shapes):
    assert of_segmenter(**contract) == [(path, shapes)]


def test_an_input_that_the_contract_lacks_is_reported():
    assert of_segmenter(inputs=[{"name": "image"}]) == [
        ("inputs", "input mask, which the model requires, is missing")
    ]


def test_the_tensors_after_an_unknown_one_are_compared_too():
    outputs = [{"name": "boxes"}, {"name": "label", "datatype": "INT32"}]

    assert of_segmenter(outputs=outputs) == [
        ("outputs[0].name", "the model has no boxes: must be one of label, scores"),
        ("outputs[1].datatype", "INT32 differs from the model, which has INT64"),
    ]


def test_an_invalid_spec_is_not_compared():
    (found,) = findings(contract={"inputs": [{"name": "image", "shape": "8x8"}]})

    assert found[0] == "spec.contract.inputs[0].shape"
    assert "must be of type array" in found[1]


def test_a_file_that_is_not_a_model_is_refused(tmp_path):
    bad = tmp_path / "model.onnx"
    bad.write_bytes(b"not a model")

    with pytest.raises(Failure, match="is not an ONNX model"):
        read_onnx(str(bad))
    with pytest.raises(Failure, match="cannot be read"):
        read_onnx(str(tmp_path / "absent.onnx"))


def test_without_onnx_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)

    with pytest.raises(Failure, match="pip install"):
        read_onnx(str(DIGITS))
