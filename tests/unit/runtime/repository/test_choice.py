"""Which versions of a model are served, and what the metadata of a version says."""

import pytest

from moorage_runtime.repository.contents import choice, config
from moorage_runtime.repository.contents.layout import ModelLayout, VersionLayout
from moorage_runtime.values.errors import InvalidConfig
from moorage_runtime.values.inference import ModelMetadata, Signature
from moorage_runtime.values.tensors import Datatype, TensorSpec

BATCH = (TensorSpec("x", Datatype.FP32, (-1, 4)),)
SINGLE = (TensorSpec("y", Datatype.FP32, (4,)),)
SIGNATURES = {"of_the_files": Signature("predict", {"in": "x"}, {"out": "x"})}


class Loaded:
    """A model in memory."""

    platform = "onnxruntime_onnx"
    inputs = BATCH
    outputs = BATCH
    dynamic = False
    signatures = SIGNATURES


class WithHttp(Loaded):
    """A model with an HTTP format of its own."""

    http_path = "/tokenize"
    http_predict = True

    def http(self, call):
        raise NotImplementedError


def chosen(text: str, latest: int = 0) -> list[str]:
    """The versions that a model.yaml selects of 1, 2 and 10."""
    versions = tuple(VersionLayout(name, name, "model.onnx", "onnx") for name in ("1", "2", "10"))
    layout = ModelLayout("m", "m", versions, has_config=True)
    return [each.version for each in choice.wanted(layout, config.parse(text.encode()), latest)]


def numbered(numbers: str) -> list[str]:
    """The versions that a model with alpha, beta and v10 serves with these numbers."""
    names = ("alpha", "beta", "v10")
    versions = tuple(VersionLayout(name, name, "model.onnx", "onnx") for name in names)
    layout = ModelLayout("m", "m", versions, has_config=True)
    found = config.parse(f"version_numbers: {numbers}".encode())
    return [each.version for each in choice.wanted(layout, found, 0)]


@pytest.mark.parametrize(
    ("text", "latest", "expected"),
    [
        ("", 0, ["1", "2", "10"]),
        ("", 1, ["10"]),
        ("", 2, ["2", "10"]),
        ("", 4, ["1", "2", "10"]),
        ("versions: {latest: 2}", 1, ["2", "10"]),
        ("versions: {latest: 1}", 0, ["10"]),
        ("versions: ['2', '1']", 1, ["1", "2"]),
        (
            "{versions: ['2', '1'], default_version: '1', labels: {old: '1', new: '2'}}",
            0,
            ["1", "2"],
        ),
        ("{default_version: '10', labels: {new: '10'}}", 1, ["10"]),
    ],
)
def test_the_selected_versions_are_served_in_ascending_order(text, latest, expected):
    assert chosen(text, latest) == expected


@pytest.mark.parametrize(
    ("text", "latest", "expected"),
    [
        (
            "versions: ['1', '3']",
            0,
            "versions[1]: version '3' does not exist: must be one of 1, 2, 10",
        ),
        (
            "default_version: '3'",
            0,
            "default_version: version '3' does not exist: must be one of 1, 2, 10",
        ),
        (
            "default_version: '1'",
            2,
            "default_version: version '1' does not exist: must be one of 2, 10",
        ),
        (
            "{labels: {old: '1'}, versions: ['2']}",
            0,
            "labels.old: version '1' does not exist: must be one of 2",
        ),
        (
            "{labels: {old: '1'}, default_version: '10'}",
            1,
            "labels.old: version '1' does not exist: must be one of 10",
        ),
    ],
)
def test_a_version_that_is_not_served_is_refused_with_its_field(text, latest, expected):
    with pytest.raises(InvalidConfig) as caught:
        chosen(text, latest)

    assert caught.value.message == f"model.yaml: {expected}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{v10: 7}", "v10: 7 is invalid: version 'v10' has the number 10 in its name"),
        ("{alpha: 10}", "alpha: 10 is already the number of version 'v10': must be unique"),
        (
            "{alpha: 7, beta: 7}",
            "beta: 7 is already the number of version 'alpha': must be unique",
        ),
    ],
)
def test_a_version_number_without_effect_is_refused(text, expected):
    with pytest.raises(InvalidConfig) as caught:
        numbered(text)

    assert caught.value.message == f"model.yaml: version_numbers.{expected}"


@pytest.mark.parametrize("text", ["{alpha: 7, beta: 8}", "{v10: 10, alpha: 0}"])
def test_a_version_can_have_a_number(text):
    assert numbered(text) == ["alpha", "beta", "v10"]


@pytest.mark.parametrize("text", ["{gamma: 7, beta: 7}", "{gamma: 10}", "{v3: 4}"])
def test_the_number_of_a_version_that_was_removed_has_no_effect(text):
    assert numbered(text) == ["alpha", "beta", "v10"]


def test_versions_with_a_number_and_without_a_folder():
    layout = ModelLayout(
        "m", "m", (VersionLayout("alpha", "alpha", "m.onnx", "onnx"),), has_config=True
    )
    found = config.parse(b"version_numbers: {gamma: 1, alpha: 2, beta: 3}")

    assert choice.without_folder(layout, found) == ("gamma", "beta")


@pytest.mark.parametrize(
    "text",
    [
        "platform: mine",
        "default_version: '1'",
        "default: true",
        "versions: ['1']",
        "signatures: {s: {inputs: {}, outputs: {}}}",
        "labels: {stable: '1'}",
        "version_numbers: {beta: 7}",
    ],
)
def test_a_field_that_only_describes_a_model_needs_no_load(text):
    assert choice.for_loading(config.parse(text.encode())) == config.NO_CONFIG


@pytest.mark.parametrize(
    "text",
    [
        "backend: python",
        "parameters: {a: 1}",
        "batching: true",
        "onnx: {threads: 2}",
        "timeout_seconds: 1",
    ],
)
def test_a_field_that_a_backend_reads_is_kept_for_the_load(text):
    found = config.parse(text.encode())

    assert choice.for_loading(found) == found != config.NO_CONFIG


def test_metadata_is_that_of_the_files():
    assert choice.metadata("m", "2", Loaded(), config.NO_CONFIG) == ModelMetadata(
        "m",
        "2",
        ("2",),
        "onnxruntime_onnx",
        BATCH,
        BATCH,
        batching=True,
        dynamic=False,
        signatures=SIGNATURES,
        labels={},
        version_numbers={},
        http_path="",
        http_predict=False,
    )


def test_metadata_of_model_yaml_precedes_that_of_the_files():
    found = config.parse(
        b"platform: mine\n"
        b"signatures: {s: {method: classify, inputs: {a: x}, outputs: {scores: x}}}\n"
        b"labels: {stable: '2'}\n"
        b"version_numbers: {beta: 7}\n"
    )

    metadata = choice.metadata("m", "2", Loaded(), found)

    assert metadata.platform == "mine"
    assert metadata.signatures == {"s": Signature("classify", {"a": "x"}, {"scores": "x"})}
    assert metadata.labels == {"stable": "2"}
    assert metadata.version_numbers == {"beta": 7}


class Pair(Loaded):
    """A model with two inputs and without outputs."""

    inputs = BATCH + SINGLE
    outputs = ()


@pytest.mark.parametrize(
    ("loaded", "tensors", "field", "tensor", "listed"),
    [
        (Loaded(), "inputs: {a: x, b: z}, outputs: {c: x}", "inputs.b", "z", "x"),
        (Loaded(), "inputs: {a: x}, outputs: {c: z}", "outputs.c", "z", "x"),
        (Pair(), "inputs: {a: z}, outputs: {}", "inputs.a", "z", "x, y"),
        (Pair(), "inputs: {a: x}, outputs: {c: x}", "outputs.c", "x", "none"),
    ],
)
def test_a_signature_of_another_tensor_is_refused(loaded, tensors, field, tensor, listed):
    found = config.parse(f"signatures: {{s: {{{tensors}}}}}".encode())

    with pytest.raises(InvalidConfig) as caught:
        choice.metadata("m", "1", loaded, found)

    assert caught.value.message == (
        f"model.yaml: signatures.s.{field}: the model has no tensor '{tensor}': "
        f"must be one of {listed}"
    )


@pytest.mark.parametrize(
    ("text", "inputs", "outputs", "expected"),
    [
        ("", BATCH, SINGLE, False),
        ("", SINGLE, BATCH, False),
        ("batching: true", SINGLE, SINGLE, True),
        ("batching: false", BATCH, BATCH, False),
    ],
)
def test_metadata_says_whether_the_first_dimension_is_a_batch(text, inputs, outputs, expected):
    loaded = Loaded()
    loaded.inputs, loaded.outputs, loaded.dynamic = inputs, outputs, True

    metadata = choice.metadata("m", "1", loaded, config.parse(text.encode()))

    assert metadata.batching is expected
    assert (metadata.inputs, metadata.outputs, metadata.dynamic) == (inputs, outputs, True)


def test_metadata_names_the_http_path_of_the_model():
    metadata = choice.metadata("m", "1", WithHttp(), config.NO_CONFIG)

    assert (metadata.http_path, metadata.http_predict) == ("/tokenize", True)
