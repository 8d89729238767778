"""The YAML metadata of GRPS servers: which fields are read, and what is ignored."""

import pytest

from moorage_operator.probe.protocols.grps_metadata import (
    GrpsModel,
    read_model,
    read_models,
    read_server,
)
from moorage_operator.values.answers import ModelInfo, ServerInfo, TensorInfo

MODEL = """
name: iris
version: 1.10
ready: True
inferer_type: onnx
inputs: [{name: x, datatype: FP32, shape: [-1, 4]}]
outputs: [{name: y, datatype: INT64}]
"""


def test_every_field_of_a_model_is_read() -> None:
    inputs = (TensorInfo("x", "FP32", (-1, 4)),)
    outputs = (TensorInfo("y", "INT64", None),)

    assert read_model(MODEL, "asked") == GrpsModel(
        "iris", "1.10", ready=True, info=ModelInfo("iris", ("1.10",), "onnx", inputs, outputs)
    )


def test_a_model_without_a_name_has_the_one_that_was_asked() -> None:
    assert read_model("ready: false", "asked") == GrpsModel(
        "asked", "", ready=False, info=ModelInfo("asked")
    )


@pytest.mark.parametrize("flag", ["maybe", "1", "[true]", ""])
def test_other_flags_say_nothing(flag: str) -> None:
    assert read_model(f"ready: {flag}", "asked").ready is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "a: [", "name: [iris]", "version: [1]\nname: iris", "name: iris\ninputs: x",
     "name: iris\noutputs: [{}]", "name: iris\ninferer_type: [x]"],
)  # fmt: skip
def test_of_invalid_metadata_only_the_asked_name_is_known(text: str) -> None:
    assert read_model(text, "asked") == GrpsModel("asked")


def test_the_models_of_a_server_that_have_a_name_are_read() -> None:
    text = "models: [{name: wine, version: 1.0, ready: false}, {version: 2}, {name: iris}]"

    assert read_models(text) == (GrpsModel("wine", "1.0", ready=False), GrpsModel("iris"))


def test_the_first_64_models_of_a_server_are_read() -> None:
    models = read_models("models:" + "".join(f"\n- name: m{at}" for at in range(65)))

    assert [each.name for each in models] == [f"m{at}" for at in range(64)]


@pytest.mark.parametrize("text", ["", "models: iris", "models: [iris]", "models: [{version: 1}]"])
def test_an_invalid_list_of_models_is_empty(text: str) -> None:
    assert read_models(text) == ()


def test_a_server_is_read() -> None:
    assert read_server("name: server\nversion: 2") == ServerInfo("server", "2")
    assert read_server("name: server") == ServerInfo("server")


@pytest.mark.parametrize(
    "text", ["", "version: 2", "name: [server]", "name: server\nversion: []x"]
)
def test_an_invalid_server_is_unknown(text: str) -> None:
    assert read_server(text) is None
