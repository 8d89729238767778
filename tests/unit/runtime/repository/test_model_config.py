import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from moorage_runtime.execution.batching.policy import BatchingPolicy
from moorage_runtime.repository.contents import config
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import Signature
from moorage_runtime.values.tensors import Datatype, TensorSpec

SCHEMA = Path(__file__).resolve().parents[4] / "docs" / "reference" / "model.schema.json"

FULL = """\
backend: python
python_class: Iris
platform: python_callable
inputs: [{name: image, datatype: BYTES, shape: [-1]}]
outputs: [{name: scores, datatype: FP32, shape: [-1, 2], optional: true}]
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
    assert config.specs(read.outputs) == (
        TensorSpec("scores", Datatype.FP32, (-1, 2), optional=True),
    )
    assert read.versions == ("1", "2")
    assert config.signatures(read) == {
        "classify": Signature("classify", {"image": "image"}, {"scores": "scores"})
    }
    assert read.parameters == {"threshold": 0.5, "words": ["a", "b"]}
    assert read.onnx.threads == 2


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n", b"{}"])
def test_an_empty_file_is_the_defaults(text):
    assert config.parse(text) == config.NO_CONFIG


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- a", ": ['a'] is invalid: must be a mapping"),
        ("text", ": 'text' is invalid: must be a mapping"),
        ("a: [", " is not valid YAML: line 1, column 5: expected the node content"),
        ("\ta: 1", " is not valid YAML: line 1, column 1: found character '\\t'"),
        ("colour: red", ": unknown field 'colour'"),
        ("date: 2026-02-28", ": unknown field 'date'"),
        ("onnx: {int: 8}", ": onnx: unknown field 'int'"),
        ("backend: tensorrt", ": backend: 'tensorrt' is not an allowed value"),
        ("inputs: {}", ": inputs: must be a list or null, not a mapping"),
        (
            "inputs: [{name: x, datatype: float32, shape: [1]}]",
            ": inputs[0].datatype: 'float32' is not an allowed value",
        ),
        ("inputs: [{name: x, datatype: FP32}]", ": inputs[0]: field 'shape' is missing"),
        (
            "outputs: [{name: y, datatype: FP32, shape: []},{name: y, datatype: BOOL, shape: []}]",
            ": outputs[1].name: 'y' is already the name of outputs[0]: must be unique",
        ),
        (
            "inputs: [{name: x, datatype: FP32, shape: []}, {name: x, datatype: FP32, shape: []}]",
            ": inputs[1].name: 'x' is already the name of inputs[0]: must be unique",
        ),
        (
            "inputs: [{name: x, datatype: FP32, shape: [a]}]",
            ": inputs[0].shape[0]: must be an integer, not a string",
        ),
        ("versions: [1]", ": versions[0]: must be a string, not an integer"),
        (
            "signatures: {s: {inputs: {}, outputs: {}, method: guess}}",
            ": signatures[...].method: 'guess' is not an allowed value",
        ),
        ("onnx: {threads: many}", ": onnx.threads: must be an integer, not a string"),
        ("platform: !!binary aGk=", ": platform: must be a string or null, not 'bytes'"),
        ("labels: {1: '1'}", ": labels: a key must be a string, not an integer"),
        (
            "parameters: {since: 2026-02-28}",
            ": parameters.since: 2026-02-28 is a date: quote it to make it a string",
        ),
        (
            "parameters: {a: [1, {at: 2026-02-28 10:00:00}]}",
            ": parameters.a[1].at: 2026-02-28 10:00:00 is a date: quote it",
        ),
        (
            f"parameters: {{seed: {2**64}}}",
            ": parameters.seed: 18446744073709551616 is invalid: must be an integer from -9223372",
        ),
        (f"parameters: {{seed: {-(2**63) - 1}}}", ": parameters.seed: -9223372036854775809 is"),
        (
            "parameters: {names: {2026-02-28: x}}",
            ": parameters.names: a key: 2026-02-28 is a date: quote it to make it a string",
        ),
        (
            "parameters: {names: !!set {a}}",
            ": parameters.names: {'a'} is invalid: must be a string, number, true or false, null",
        ),
    ],
)
def test_an_invalid_file_is_refused_with_the_path_of_the_field(text, expected):
    with pytest.raises(InvalidConfig) as caught:
        config.parse(text.encode())

    assert caught.value.message.startswith(f"model.yaml{expected}")


def test_parameters_are_kept_as_they_are_written():
    text = (
        b"parameters: {a: [1.5, .nan, true, null, x, {1: 18446744073709551615}], "
        b"c: -9223372036854775808, d: 1_000}"
    )

    read = config.parse(text).parameters

    assert repr(read) == (
        "{'a': [1.5, nan, True, None, 'x', {1: 18446744073709551615}], "
        "'c': -9223372036854775808, 'd': 1000}"
    )


def test_the_published_schema_matches_the_code():
    assert json.loads(SCHEMA.read_text()) == config.schema()


def test_the_schema_accepts_what_the_code_accepts():
    jsonschema.validate(yaml.safe_load(FULL), config.schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"colour": "red"}, config.schema())


VARIABLE = (TensorSpec("x", Datatype.FP32, (-1, 4)),)
FIXED = (TensorSpec("x", Datatype.FP32, (1, 4)),)
TEXT = (TensorSpec("x", Datatype.BYTES, (-1, 4)),)


SHAPE = "input 'x' has shape [1, 4]"
OFF = "model.yaml"


@pytest.mark.parametrize(
    ("text", "tensors", "merge_obstacle", "expected"),
    [
        ("", VARIABLE, "", BatchingPolicy()),
        ("", VARIABLE, "it mixes", "it mixes"),
        ("", FIXED, "", SHAPE),
        ("batching: true", VARIABLE, "it mixes", BatchingPolicy()),
        ("batching: true", FIXED, "", SHAPE),
        ("batching: false", VARIABLE, "", OFF),
        ("batching: {enabled: true}", TEXT, "it mixes", BatchingPolicy()),
        ("batching: {enabled: true}", (), "it mixes", BatchingPolicy()),
        ("batching: {enabled: false}", VARIABLE, "", OFF),
        ("batching: {max_batch_size: 8}", VARIABLE, "", BatchingPolicy(8)),
        ("batching: {max_batch_size: 8}", VARIABLE, "it mixes", "it mixes"),
        (
            "batching: {max_queue_delay_microseconds: 500}",
            VARIABLE,
            "",
            BatchingPolicy(max_delay_seconds=5e-4),
        ),
    ],
)
def test_batching_follows_the_configuration_and_the_shapes(
    text, tensors, merge_obstacle, expected
):
    found = config.parse(text.encode())

    policy = config.batching_policy(found, tensors, tensors, merge_obstacle=merge_obstacle)

    if isinstance(expected, str):
        assert expected in policy
    else:
        assert policy == expected


def test_batching_that_the_shapes_do_not_allow_is_refused():
    found = config.parse(b"batching: {enabled: true}")

    with pytest.raises(InvalidConfig, match=r"model\.yaml: batching\.enabled is true"):
        config.batching_policy(found, FIXED, FIXED, merge_obstacle="")


@pytest.mark.parametrize(
    ("text", "tensors", "expected"),
    [
        ("", VARIABLE, True),
        ("", FIXED, False),
        ("batching: true", FIXED, True),
        ("batching: false", VARIABLE, False),
        ("batching: {enabled: false}", VARIABLE, True),
        ("batching: {enabled: true}", (), True),
        ("batching: {max_batch_size: 8}", VARIABLE, True),
    ],
)
def test_whether_the_first_dimension_is_a_batch(text, tensors, expected):
    assert config.has_batch(config.parse(text.encode()), tensors, tensors) is expected
