import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from moorage_runtime.errors import InvalidConfig
from moorage_runtime.repository import config
from moorage_runtime.tensors import Datatype, TensorSpec

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "reference" / "model.schema.json"

FULL = """\
backend: python
python_class: Iris
platform: python_callable
inputs: [{name: image, datatype: BYTES, shape: [-1]}]
outputs: [{name: scores, datatype: FP32, shape: [-1, 2], optional: false}]
batching: true
default: true
default_version: "2"
versions: ["1", "2"]
signatures:
  classify:
    method: classify
    inputs: {image: image}
    outputs: {scores: scores}
labels: {stable: "1"}
version_numbers: {beta: 7}
parameters: {threshold: 0.5, words: [a, b]}
onnx: {threads: 2}
"""


def test_every_field_is_read():
    read = config.parse(FULL.encode())

    assert read.backend == "python"
    assert config.specs(read.inputs) == (TensorSpec("image", Datatype.BYTES, (-1,)),)
    assert read.versions == ("1", "2")
    assert config.signatures(read)["classify"].method == "classify"
    assert read.parameters == {"threshold": 0.5, "words": ["a", "b"]}
    assert read.onnx.threads == 2


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n", b"{}"])
def test_an_empty_file_is_the_defaults(text):
    assert config.parse(text) == config.NO_CONFIG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", "expected a mapping, found list"),
        ("text", "expected a mapping, found str"),
        ("a: [", "is not YAML"),
        ("\ta: 1", "is not YAML"),
        ("colour: red", "unknown field `colour`"),
        ("backend: tensorrt", "$.backend"),
        ("inputs: {}", "$.inputs"),
        ("inputs: [{name: x, datatype: float32, shape: [1]}]", "$.inputs[0].datatype"),
        (
            "inputs: [{name: x, datatype: FP32}]",
            "field `shape` - at `$.inputs[0]`",
        ),
        ("inputs: [{name: x, datatype: FP32, shape: [a]}]", "$.inputs[0].shape[0]"),
        ("versions: [1]", "Expected `str`, got `int` - at `$.versions[0]`"),
        ("signatures: {s: {inputs: {}, outputs: {}, method: guess}}", "method"),
        ("onnx: {threads: many}", "$.onnx.threads"),
    ],
)
def test_a_wrong_file_is_refused_with_the_path_of_the_field(text, expected):
    with pytest.raises(InvalidConfig) as caught:
        config.parse(text.encode())

    assert caught.value.message.startswith("model.yaml")
    assert expected in caught.value.message


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(InvalidConfig, match="is not YAML"):
        config.parse(b"\xff\xfe\x00")


def test_the_published_schema_is_the_code():
    assert json.loads(SCHEMA.read_text()) == config.schema()


def test_the_schema_accepts_what_the_code_accepts():
    jsonschema.validate(yaml.safe_load(FULL), config.schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"colour": "red"}, config.schema())
