import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_operator.answers import ModelInfo, ServerInfo
from moorage_operator.probe import metadata


def model(**fields: Any) -> ModelInfo | None:
    return metadata.model_from_json(json.dumps({"name": "iris", **fields}).encode())


def test_a_name_alone_is_metadata() -> None:
    assert model() == ModelInfo("iris")
    assert metadata.server_from_json(b'{"name":"s"}') == ServerInfo("s")


def test_null_is_as_good_as_absent() -> None:
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
def test_what_does_not_fit_is_no_metadata(fields: dict[str, Any]) -> None:
    assert model(**fields) is None


@given(st.binary(max_size=200))
def test_any_bytes_are_metadata_or_not_and_never_an_exception(data: bytes) -> None:
    assert isinstance(metadata.model_from_json(data), ModelInfo | None)
    assert isinstance(metadata.server_from_json(data), ServerInfo | None)
    assert isinstance(metadata.error_text(data), str)


def test_deep_nesting_is_no_metadata() -> None:
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
def test_any_document_is_metadata_or_not(document: dict[str, Any]) -> None:
    found = metadata.model_from_json(json.dumps(document).encode())

    assert found is None or found.name == document["name"]
