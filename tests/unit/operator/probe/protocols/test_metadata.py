import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.protocols import metadata
from moorage_operator.values.answers import ModelInfo, ServerInfo, TensorInfo


def model(**fields: Any) -> ModelInfo | None:
    return metadata.model_from_json(json.dumps({"name": "iris", **fields}).encode())


def test_metadata_only_needs_a_name() -> None:
    assert model() == ModelInfo("iris")
    assert metadata.server_from_json(b'{"name":"s"}') == ServerInfo("s")


def test_every_field_of_a_server_is_read() -> None:
    body = b'{"name":"triton","version":"2.51","extensions":["classification","binary"]}'

    found = metadata.server_from_json(body)

    assert found == ServerInfo("triton", "2.51", ("classification", "binary"))


def test_every_field_of_a_model_is_read() -> None:
    tensor = {"name": "image", "datatype": "FP32", "shape": [-1, 8]}
    label = {"name": "label", "datatype": "INT64"}

    assert model(versions=["1", "2"], platform="onnx", inputs=[tensor], outputs=[label]) == (
        ModelInfo(
            "iris",
            ("1", "2"),
            "onnx",
            (TensorInfo("image", "FP32", (-1, 8)),),
            (TensorInfo("label", "INT64", None),),
        )
    )


def test_the_largest_metadata_is_read() -> None:
    longest = "x" * 256
    tensors = [{"name": longest, "datatype": "FP32", "shape": [1] * 32}] * 256

    found = model(versions=[longest] * 64, platform=longest, inputs=tensors)

    assert found is not None
    assert (found.versions, found.platform) == ((longest,) * 64, longest)
    assert found.inputs == (TensorInfo(longest, "FP32", (1,) * 32),) * 256


def test_a_name_that_is_too_long_once_escaped_is_not_metadata() -> None:
    escaped = model(platform="\x00" * 64)

    assert escaped is not None
    assert escaped.platform == "\\x00" * 64
    assert model(platform="\x00" * 64 + "a") is None


@pytest.mark.parametrize(
    ("size", "read"),
    [
        ("-1", -1),
        ("0", 0),
        (str(2**63 - 1), 2**63 - 1),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
    ],
)
def test_a_size_may_be_text(size: str | int, read: int) -> None:
    found = model(inputs=[{"name": "x", "datatype": "FP32", "shape": [size]}])

    assert found is not None
    assert found.inputs[0].shape == (read,)


def test_null_counts_as_absent() -> None:
    assert model(versions=None, platform=None, inputs=None) == ModelInfo("iris")


@pytest.mark.parametrize(
    "fields",
    [
        {"name": None},
        {"name": 1},
        {"name": "x" * 257},
        {"versions": "1"},
        {"versions": [1]},
        {"versions": ["1"] * 65},
        {"inputs": {}},
        {"inputs": ["x"]},
        {"inputs": [{"name": "x"}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1.5]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [True]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["x"]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["9" * 25]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["9" * 19]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["0" * 20]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["--1"]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": ["\u0661"]}]},
        {"inputs": [{"name": "x", "datatype": "FP32"}] * 257},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1 << 63]}]},
        {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1] * 33}]},
    ],
)
def test_invalid_fields_are_not_metadata(fields: dict[str, Any]) -> None:
    assert model(**fields) is None


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise(data: bytes) -> None:
    assert isinstance(metadata.model_from_json(data), ModelInfo | None)
    assert isinstance(metadata.server_from_json(data), ServerInfo | None)


def test_deep_nesting_is_not_metadata() -> None:
    assert metadata.model_from_json(b"[" * 100_000) is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "name": json_values,
            "versions": json_values,
            "platform": json_values,
            "inputs": json_values,
        },
    )
)
def test_arbitrary_documents_are_metadata_or_none(document: dict[str, Any]) -> None:
    found = metadata.model_from_json(json.dumps(document).encode())

    assert found is None or found.name.isprintable()
    if found and document["name"].isprintable():
        assert found.name == document["name"]
