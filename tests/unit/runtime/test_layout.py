from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.repository.layout import (
    Folder,
    ModelLayout,
    discover,
    single_file,
    version_key,
)


def folder(tree: dict[str, Any]) -> Folder:
    """A listing from a nested dict: None is a file."""
    files = frozenset(name for name, content in tree.items() if content is None)
    folders = {name: folder(content) for name, content in tree.items() if content is not None}
    return Folder(files, folders)


def found(tree: dict[str, Any], name: str | None = None) -> dict[str, dict[str, str]]:
    """Model name to version to the file's path within the repository."""
    return {
        layout.name: {
            item.version: "/".join(
                part for part in (layout.folder, item.folder, item.file) if part
            )
            for item in layout.versions
        }
        for layout in discover(folder(tree), "root", name)
    }


@pytest.mark.parametrize(
    ("tree", "name", "expected"),
    [
        ({}, None, {}),
        ({"model.onnx": None}, None, {"root": {"1": "model.onnx"}}),
        ({"model.onnx": None}, "m", {"m": {"1": "model.onnx"}}),
        ({"digits.onnx": None}, "m", {"m": {"1": "digits.onnx"}}),
        ({"model.py": None, "words.txt": None}, "m", {"m": {"1": "model.py"}}),
        ({"model.onnx": None, "other.onnx": None}, "m", {"m": {"1": "model.onnx"}}),
        (
            {"1": {"model.onnx": None}, "2": {"model.onnx": None}},
            None,
            {"root": {"1": "1/model.onnx", "2": "2/model.onnx"}},
        ),
        ({"v10": {"model.onnx": None}}, "m", {"m": {"v10": "v10/model.onnx"}}),
        (
            {"1": {"saved_model.pb": None, "fingerprint.pb": None, "variables": {"v": None}}},
            None,
            {"root": {"1": "1/saved_model.pb"}},
        ),
        ({"saved_model.pb": None, "variables": {"v": None}}, "m", {"m": {"1": "saved_model.pb"}}),
        ({"model.xml": None, "model.bin": None}, "m", {"m": {"1": "model.xml"}}),
        ({"iris.skops": None}, "m", {"m": {"1": "iris.skops"}}),
        ({"graph.pb": None}, "m", {"m": {"1": "graph.pb"}}),
        # a class may read what lies beside it, a fixed name is preferred, then the stem "model"
        ({"model.py": None, "model.joblib": None}, "m", {"m": {"1": "model.py"}}),
        ({"model.joblib": None, "scaler.joblib": None}, "m", {"m": {"1": "model.joblib"}}),
        # without a name or numbers, folders are models
        ({"v10": {"model.onnx": None}}, None, {"v10": {"1": "v10/model.onnx"}}),
        (
            {"a": {"1": {"model.onnx": None}}, "b": {"model.py": None}},
            None,
            {"a": {"1": "a/1/model.onnx"}, "b": {"1": "b/model.py"}},
        ),
        # as Kubernetes mounts a ConfigMap
        (
            {"..data": {"model.onnx": None}, "..2026": {"model.onnx": None}, "model.onnx": None},
            "m",
            {"m": {"1": "model.onnx"}},
        ),
        (
            {"a": {"1": {"model.onnx": None}, "__pycache__": {}}},
            None,
            {"a": {"1": "a/1/model.onnx"}},
        ),
        (
            {"a": {"1": {"model.onnx": None}, "assets": {"words.txt": None}}},
            None,
            {"a": {"1": "a/1/model.onnx"}},
        ),
        ({"model.yaml": None, "1": {"model.onnx": None}}, None, {"root": {"1": "1/model.onnx"}}),
    ],
)
def test_discover_finds_models_and_versions(tree, name, expected):
    assert found(tree, name) == expected


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({}, "no model file in the folder of model 'm'"),
        ({"weights.bin": None}, "no model file in the folder of model 'm'"),
        ({"a.onnx": None, "b.onnx": None}, "has several model files (a.onnx, b.onnx): keep one"),
        ({"model.onnx": None, "model.py": None}, "several model files (model.onnx, model.py)"),
        ({"model.xml": None, "model.skops": None}, "several model files (model.skops, model.xml)"),
        ({"model.py": None, "saved_model.pb": None}, "model files (model.py, saved_model.pb)"),
        ({"1": {}}, "version '1' holds no model file"),
    ],
)
def test_a_folder_that_cannot_be_served_says_why(tree, expected):
    (layout,) = discover(folder(tree), "root", "m")

    assert [expected in item.problem for item in layout.versions] == [True]
    assert layout.versions[0].file == ""


def test_one_bad_version_leaves_the_others():
    (layout,) = discover(folder({"1": {"model.onnx": None}, "2": {}}), "root", "m")

    assert [bool(item.problem) for item in layout.versions] == [False, True]


def test_versions_ascend_by_number():
    tree = {version: {"model.onnx": None} for version in ("10", "9", "v2", "v10", "v9")}

    (layout,) = discover(folder(tree), "root", "m")

    assert [item.version for item in layout.versions] == ["9", "10", "v2", "v9", "v10"]


def test_model_yaml_is_noticed():
    layouts = discover(folder({"a": {"model.yaml": None, "model.onnx": None}, "b": {}}), "r", None)

    assert {layout.name: layout.has_config for layout in layouts} == {"a": True, "b": False}


def test_a_single_file_is_a_model():
    assert single_file("iris.onnx", None) == ModelLayout(
        "iris", "", single_file("iris.onnx", "x").versions, has_config=False
    )
    assert single_file("model.onnx", "iris").name == "iris"
    assert "notes.txt is not a model file" in single_file("notes.txt", None).versions[0].problem


@given(st.lists(st.text("0123456789v.", min_size=1), unique=True))
def test_any_version_names_can_be_ordered(versions):
    ordered = sorted(versions, key=version_key)
    backwards = sorted(versions, key=version_key, reverse=True)

    assert backwards[::-1] == ordered


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numbers_order_as_numbers(a, b):
    assert (version_key(str(a)) < version_key(str(b))) == (a < b)
