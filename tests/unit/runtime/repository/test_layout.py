from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage_runtime.repository.contents.layout import (
    Folder,
    ModelLayout,
    VersionLayout,
    discover,
    format_of,
    single_file,
    skipped,
    version_key,
)

ENCODER = {"config.json": None, "tokenizer.json": None}


def folder(tree: dict[str, Any], **fields: Any) -> Folder:
    """A listing from a nested dict: None is a file, and a text describes what is no file."""
    files = frozenset(name for name, content in tree.items() if content is None)
    folders = {
        name: content if isinstance(content, Folder) else folder(content)
        for name, content in tree.items()
        if isinstance(content, dict | Folder)
    }
    odd = {name: content for name, content in tree.items() if isinstance(content, str)}
    return Folder(files, folders, odd, **fields)


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
        # an encoder as on the Hugging Face Hub
        (
            {**ENCODER, "onnx": {"model.onnx": None, "model_q4.onnx": None}, "1_Pooling": {}},
            "m",
            {"m": {"1": "onnx/model.onnx"}},
        ),
        ({**ENCODER, "onnx": {"model.onnx": None}}, None, {"root": {"1": "onnx/model.onnx"}}),
        ({**ENCODER, "model.onnx": None, "b.onnx": None}, "m", {"m": {"1": "model.onnx"}}),
        (
            {
                "a": {**ENCODER, "onnx": {"model.onnx": None}},
                "b": {"2": {**ENCODER, "model.onnx": None}},
            },
            None,
            {"a": {"1": "a/onnx/model.onnx"}, "b": {"2": "b/2/model.onnx"}},
        ),
        (
            {**ENCODER, "onnx": {"model_quantized.onnx": None, "model_quantized.onnx_data": None}},
            None,
            {"root": {"1": "onnx/model_quantized.onnx"}},
        ),
        ({**ENCODER, "model_quantized.onnx": None}, "m", {"m": {"1": "model_quantized.onnx"}}),
        (
            {**ENCODER, "model_q4.onnx": None, "onnx": {"model.onnx": None}},
            "m",
            {"m": {"1": "onnx/model.onnx"}},
        ),
        ({**ENCODER, "model.py": None, "model.joblib": None}, "m", {"m": {"1": "model.py"}}),
        # a class may read files beside it: a fixed name takes precedence, then the stem "model"
        ({"model.py": None, "model.joblib": None}, "m", {"m": {"1": "model.py"}}),
        ({"model.joblib": None, "scaler.joblib": None}, "m", {"m": {"1": "model.joblib"}}),
        (
            {"model.joblib": None, "model.v2.joblib": None, "v2.model.joblib": None},
            "m",
            {"m": {"1": "model.joblib"}},
        ),
        # without a model name or numbers, folders are models
        ({"v10": {"model.onnx": None}}, None, {"v10": {"1": "v10/model.onnx"}}),
        (
            {"a": {"1": {"model.onnx": None}}, "b": {"model.py": None}},
            None,
            {"a": {"1": "a/1/model.onnx"}, "b": {"1": "b/model.py"}},
        ),
        # the layout of a mounted ConfigMap
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
            {
                ".git": {"model.onnx": None},
                "__pycache__": {"model.py": None},
                "lost+found": {"model.onnx": None},
                "a": {"v1": {"model.onnx": None}},
            },
            None,
            {"a": {"v1": "a/v1/model.onnx"}},
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
        ({"assets": {}}, "no model file in the folder of model 'm'"),
        ({".cache": {"words.txt": None}}, "no model file in the folder of model 'm'"),
        ({"model.yaml": {"words.txt": None}}, "no model file in the folder of model 'm'"),
        (
            {"model.onnx": "a FIFO", "notes.md": "a FIFO"},
            "with one of these; model.onnx is a FIFO",
        ),
        ({"1": {}}, "version '1' contains no model file: must contain MLmodel, model.onnx, "),
        ({"1": {"b.pb": "a FIFO", "a.pt": "a socket"}}, ".pt; a.pt is a socket, b.pb is a FIFO"),
        ({"1": {"b.pb": "a FIFO", "a.pt": "a socket"}}, "; a.pt is a socket, b.pb is a FIFO"),
        ({"1": folder({}, problem="it is closed")}, "version '1': it is closed"),
    ],
)
def test_a_folder_that_cannot_be_served_has_a_reason(tree, expected):
    (layout,) = discover(folder(tree), "root", "m")

    (version,) = layout.versions
    assert expected in version.problem
    assert version.version == "1"
    assert version.folder == ("1" if "1" in tree else "")
    assert (version.file, version.format) == ("", "")


@pytest.mark.parametrize(("tree", "end"), [({}, "one of these"), ({"1": {}}, ".pt")])
def test_the_reason_ends_with_what_is_expected_if_no_entry_has_such_a_name(tree, end):
    (layout,) = discover(folder(tree), "root", "m")

    assert layout.versions[0].problem.endswith(end)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"model.yaml": {}}, "model.yaml is a folder: must be a file"),
        ({"model.yaml": "a FIFO"}, "model.yaml is a FIFO: must be a file"),
        ({"model.yaml": None}, ""),
        ({"other.yaml": "a FIFO"}, ""),
    ],
)
def test_a_model_yaml_that_is_no_file_is_a_problem_of_the_model(tree, expected):
    (layout,) = discover(folder({"a": {"1": {"model.onnx": None}, **tree}}), "root", None)

    assert layout.problem == expected
    assert [version.file for version in layout.versions] == ["model.onnx"]


def test_a_folder_that_cannot_be_read_is_a_model_without_versions():
    closed = folder({"model.onnx": None}, problem="it is closed")

    (layout,) = discover(folder({"a": closed}), "root", None)

    assert layout == ModelLayout(
        "a", "a", (), has_config=False, problem="it is closed", stamp=(None, None)
    )


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"model.onnx": "a FIFO"}, ["a"]),
        ({".model.onnx": "a FIFO"}, []),
        ({"notes.md": "a FIFO"}, []),
        ({"model.yaml": "a FIFO"}, ["a"]),
        ({"model.yaml": {}}, ["a"]),
    ],
)
def test_a_folder_with_the_names_of_a_model_is_one(tree, expected):
    assert [layout.name for layout in discover(folder({"a": tree}), "root", None)] == expected


@pytest.mark.parametrize(
    "tree",
    [
        {"model.onnx": None},
        {**ENCODER, "model.onnx": None},
        {"a.onnx": None, "b.onnx": None},
        {"notes.md": None},
    ],
)
def test_a_changed_folder_changes_the_stamps_of_the_model_and_its_version(tree):
    def model(stamp: int, config_stamp: int) -> ModelLayout:
        listing = folder(tree, stamp=(stamp,), config_stamp=(config_stamp,))
        return discover(listing, "root", "m")[0]

    before, changed, configured = model(1, 1), model(2, 1), model(1, 2)

    assert before.stamp != changed.stamp
    assert before.config_stamp == changed.config_stamp
    assert before.versions[0].stamp != changed.versions[0].stamp
    assert before.stamp != configured.stamp
    assert before.config_stamp != configured.config_stamp
    assert before.versions == configured.versions


def test_an_entry_that_is_no_model_is_skipped_with_a_reason():
    tree = {
        "a": {"model.onnx": None},
        "notes.md": None,
        "pipe": "a FIFO",
        ".git": {"model.onnx": None},
        "lost+found": {},
        "empty": {},
    }

    assert skipped(folder(tree), None) == (
        ".git (a reserved name)",
        "empty (no model file, model.yaml or version folder in it)",
        "lost+found (a reserved name)",
        "notes.md (a file)",
        "pipe (a FIFO)",
    )


@pytest.mark.parametrize(
    ("tree", "name"),
    [({"notes.md": None, "empty": {}}, "m"), ({"model.onnx": None, "notes.md": None}, None)],
)
def test_the_folder_of_one_model_has_no_entries_to_skip(tree, name):
    assert skipped(folder(tree), name) == ()


def test_an_invalid_version_does_not_affect_others():
    (layout,) = discover(folder({"1": {"model.onnx": None}, "2": {}}), "root", "m")

    assert [bool(item.problem) for item in layout.versions] == [False, True]


def test_versions_ascend_by_number():
    tree = {version: {"model.onnx": None} for version in ("10", "X1", "9", "v2", "v10", "v9")}

    (layout,) = discover(folder(tree), "root", "m")

    assert [item.version for item in layout.versions] == ["9", "10", "X1", "v2", "v9", "v10"]


def test_the_folder_of_a_model_is_relative_to_the_repository():
    (one,) = discover(folder({"model.onnx": None}), "root", "m")
    (named,) = discover(folder({"a": {"model.onnx": None}}), "root", None)

    assert [(layout.folder, layout.versions[0].folder) for layout in (one, named)] == [
        ("", ""),
        ("a", ""),
    ]


def test_model_yaml_is_detected():
    layouts = discover(
        folder({"a": {"model.yaml": None, "model.onnx": None}, "b": {"1": {}}}), "r", None
    )

    assert {layout.name: layout.has_config for layout in layouts} == {"a": True, "b": False}


@pytest.mark.parametrize(
    ("file", "name", "form"),
    [
        ("iris.onnx", "iris", "onnx"),
        ("iris.v2.json", "iris.v2", "xgboost"),
        ("iris.txt", "iris", "lightgbm"),
        ("MLmodel", "MLmodel", "mlflow"),
    ],
)
def test_a_single_file_is_a_model(file, name, form):
    version = VersionLayout("1", "", file, form)

    assert single_file(file, None) == ModelLayout(name, "", (version,), has_config=False)
    assert single_file(file, "m") == ModelLayout("m", "", (version,), has_config=False)


@pytest.mark.parametrize("file", ["notes.md", "notes"])
def test_a_single_file_of_another_kind_is_no_model(file):
    (version,) = single_file(file, None).versions

    assert version.problem.startswith(f"{file} is not a model file: must be MLmodel, model.onnx, ")
    assert version == VersionLayout("1", "", "", "", version.problem)
    assert format_of(file) == ""


@pytest.mark.parametrize(
    ("files", "file", "form"),
    [
        (["model.pkl"], "model.pkl", "sklearn"),
        (["iris.pickle"], "iris.pickle", "sklearn"),
        (["iris.ubj"], "iris.ubj", "xgboost"),
        (["iris.cbm"], "iris.cbm", "catboost"),
        (["model.json", "metadata.json", "README.txt"], "model.json", "xgboost"),
        (["model.txt", "requirements.txt"], "model.txt", "lightgbm"),
        # such files are common beside a model
        (["iris.skops", "model.json", "model.txt"], "iris.skops", "sklearn"),
        (["model.onnx", "model.json"], "model.onnx", "onnx"),
        (["model.py", "scaler.pkl"], "model.py", "python"),
        (["MLmodel", "model.pkl", "model.onnx", "model.py"], "MLmodel", "mlflow"),
    ],
)
def test_the_file_with_the_strongest_name_is_the_model(files, file, form):
    (found,) = discover(folder({"a": dict.fromkeys(files)}), "r", None)
    (version,) = found.versions

    assert (version.file, version.format, version.problem) == (file, form, "")


@pytest.mark.parametrize("file", ["settings.json", "requirements.txt", "README.txt"])
def test_a_common_file_does_not_make_its_folder_a_model(file):
    assert discover(folder({"a": {file: None}}), "r", None) == ()


def test_two_equally_strong_names_are_an_error():
    (found,) = discover(folder({"a": {"model.json": None, "model.txt": None}}), "r", None)

    assert "several model files (model.json, model.txt)" in found.versions[0].problem


@given(st.lists(st.text("0123456789v.", min_size=1), unique=True))
def test_any_version_names_can_be_ordered(versions):
    ordered = sorted(versions, key=version_key)
    backwards = sorted(versions, key=version_key, reverse=True)

    assert backwards[::-1] == ordered


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_numeric_versions_are_sorted_numerically(a, b):
    assert (version_key(str(a)) < version_key(str(b))) == (a < b)


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({**ENCODER, "model.onnx": None}, "text"),
        ({**ENCODER, "onnx": {"model.onnx": None}}, "text"),
        ({"config.json": None, "model.onnx": None}, "onnx"),
        ({**ENCODER, "model.py": None, "onnx": {"model.onnx": None}}, "python"),
        ({**ENCODER, "a.joblib": None}, "sklearn"),
        ({**ENCODER, "onnx": {"model_q4.onnx": None}}, "text"),
        ({**ENCODER, "onnx": {"decoder_model.onnx": None}}, "onnx"),
        ({**ENCODER, "onnx": {"model_q4.onnx": None, "model_fp16.onnx": None}}, ""),
        ({**ENCODER, "model_q4.onnx": None, "onnx": {"model_fp16.onnx": None}}, "onnx"),
    ],
)
def test_a_tokenizer_beside_a_graph_makes_an_encoder(tree, expected):
    (model,) = discover(folder(tree), "root", "m")

    assert [version.format for version in model.versions] == [expected]
