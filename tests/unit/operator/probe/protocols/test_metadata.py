import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.probe.protocols import metadata
from moorage_operator.values.answers import ModelInfo, ServerInfo


def model(**fields: Any) -> ModelInfo | None:
    return metadata.model_from_json(json.dumps({"name": "iris", **fields}).encode())


def test_metadata_only_needs_a_name() -> None:
    assert model() == ModelInfo("iris")
    assert metadata.server_from_json(b'{"name":"s"}') == ServerInfo("s")


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
